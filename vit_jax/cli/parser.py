"""argparse, with the word that was meant where one is misspelt."""

import argparse
import difflib
import re
from collections.abc import Sequence
from typing import Any, NoReturn


class Parser(argparse.ArgumentParser):
    """A parser, and through `add_subparsers` those of the commands, that suggest."""

    def __init__(self, **options: Any):
        self._flags: list[str] = []
        self._has_commands = False
        super().__init__(allow_abbrev=False, **options)

    def add_argument(self, *names: str, **options: Any) -> argparse.Action:
        """As argparse's; the flags are remembered for suggestions."""
        self._flags += [name for name in names if name.startswith("--")]
        return super().add_argument(*names, **options)

    def add_subparsers(self, **options: Any) -> Any:
        """As argparse's; what is a flag is then known to the commands alone."""
        self._has_commands = True
        return super().add_subparsers(**options)

    def parse_known_args(
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """As argparse's, but unknown flags are refused before missing ones."""
        for argument in args or () if not self._has_commands else ():
            flag = argument.split("=")[0]
            if flag.startswith("--") and flag != "--" and flag not in self._flags:
                self.error(f"unknown argument {argument}{near(flag, self._flags)}")
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        """Prints usage and message, with the choice that was meant; exits with 2."""
        choice = re.search(r"invalid choice: '(.*)' \(choose from (.*)\)", message)
        if choice:
            names = re.findall(r"[\w-]+", choice[2])
            message += near(choice[1], names)
        super().error(message)


def near(word: str, words: Sequence[str]) -> str:
    """ "; did you mean …?", or nothing where no word is near."""
    found = difflib.get_close_matches(word, words, 1)
    return f"; did you mean {found[0]}?" if found else ""
