"""`vit_jax data`: prepares image sets and shows what the model will see."""

import argparse
import contextlib
import functools
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

HELP = "prepare image sets, and look at what the model will see"
_SHOW_EXAMPLES = """\
examples:
  vit_jax data show --config=digits --output=sheet.png
  vit_jax data show --config=cifar10_tiny --config.data.source=FOLDER \\
      --config.augment.preset=medium1"""
_PREPARE_EXAMPLES = """\
examples:
  vit_jax data prepare photos/ prepared/ --splits train val --shorter_side=256
  vit_jax data prepare imagenet2012 prepared/ --archives=downloads/ --workers=8
  vit_jax data prepare cifar10 prepared/

`prepare` takes any source that training takes, and imagenet2012, cifar10, cifar100,
pets and flowers102 from their publishers' archives, downloaded where that is allowed.
The same command again goes on where it stopped. Then train with
--config.data.source=prepared/."""
EXAMPLES = _SHOW_EXAMPLES + _PREPARE_EXAMPLES.removeprefix("examples:")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the two sub-commands and their flags."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    _add_prepare(actions)
    _add_show(actions)


def _add_prepare(actions) -> None:
    prepare = actions.add_parser(
        "prepare",
        help="write a set as sharded ArrayRecord files",
        epilog=_PREPARE_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    prepare.add_argument("source", help="a source, or the name of a published set")
    prepare.add_argument("folder", help="where to write; made if need be")
    prepare.add_argument(
        "--splits", nargs="+", help="splits to write (default: train and test)"
    )
    prepare.add_argument(
        "--shorter_side",
        type=int,
        default=0,
        help="shrink larger images to this shorter side (default 0: keep them)",
    )
    prepare.add_argument(
        "--shard_size", type=int, default=2048, help="images of a file (default 2048)"
    )
    prepare.add_argument(
        "--archives", help="where a published set's archives lie (default: FOLDER)"
    )
    prepare.add_argument(
        "--workers",
        type=int,
        default=0,
        help="processes that read and decode (default 0: threads of this one)",
    )


def _add_show(actions) -> None:
    show = actions.add_parser(
        "show",
        help="write a contact sheet of training images",
        epilog=_SHOW_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    show.add_argument(
        "--config",
        required=True,
        metavar="RECIPE",
        help="as of train; --config.KEY=VALUE changes a key",
    )
    show.add_argument(
        "--output", default="sheet.png", help="PNG file to write (default sheet.png)"
    )
    show.add_argument("--images", type=int, default=16, help="how many (default 16)")


def run(arguments: argparse.Namespace, overrides: dict[str, str]) -> int:
    """Does one of the two; returns the exit status."""
    return _ACTIONS[arguments.action](arguments, overrides)


def _show(arguments: argparse.Namespace, overrides: dict[str, str]) -> int:
    from vit_jax.cli.recipes import load_config
    from vit_jax.config import check, refuse
    from vit_jax.train.preview import write_preview

    if arguments.images < 1:
        raise ValueError(f"--images={arguments.images} must be 1 or more.")
    output = os.path.expanduser(arguments.output)
    if not output.lower().endswith((".png", ".jpg", ".jpeg")):
        raise ValueError(f"--output={output} must end in .png or .jpg.")
    config, faults = load_config(arguments.config, overrides)
    refuse([*faults, *check(config)])
    write_preview(config, output, arguments.images)
    print(f"wrote {output}")
    return 0


def _prepare(arguments: argparse.Namespace, overrides: dict[str, str]) -> int:
    from etils import epath

    from vit_jax.data.prepare import prepare

    if overrides:
        raise ValueError("data prepare takes no --config keys.")
    for flag, least in (("shorter_side", 0), ("shard_size", 1), ("workers", 0)):
        if (value := getattr(arguments, flag)) < least:
            raise ValueError(f"--{flag}={value} must be {least} or more.")
    with contextlib.ExitStack() as stack:
        outcomes = prepare(
            _sources(arguments, stack),
            epath.Path(arguments.folder).expanduser(),
            shard_size=arguments.shard_size,
            shorter_side=arguments.shorter_side,
            workers=arguments.workers,
            progress=functools.partial(_images_bar, stack),
        )
    for split, outcome in outcomes.items():
        print(
            f"{split}: {outcome.written} images written, {outcome.kept} were there, "
            f"{len(outcome.unreadable)} can't be read"
        )
        for name in outcome.unreadable:
            print(f"  unreadable: {name}")
    print(f"train with --config.data.source={arguments.folder}")
    return 0


def _sources(arguments: argparse.Namespace, stack: contextlib.ExitStack) -> dict:
    """Split -> source, of a published set or of any other.

    Args:
      stack: gets what is to be done when all are prepared.
    """
    from vit_jax.data.archives import PUBLISHED
    from vit_jax.data.sources import open_source

    for split in arguments.splits or ():
        if not re.fullmatch(r"[\w\-]+", split):
            raise ValueError(
                f"--splits={split} must be the name of a split; parts are cut when "
                "they are read, as in --config.data.train.split='train[:50%]'."
            )
    published = PUBLISHED.get(arguments.source)
    source_folder = os.path.abspath(os.path.expanduser(arguments.source))
    if source_folder == os.path.abspath(os.path.expanduser(arguments.folder)):
        raise ValueError(
            f"{arguments.folder} is the source; name another folder to prepare into."
        )
    if published is None:
        sources, class_names = {}, None
        for split in arguments.splits or ("train", "test"):
            sources[split] = open_source(
                arguments.source, split, class_names=class_names
            )
            class_names = class_names or sources[split].class_names
        return sources
    unknown = set(arguments.splits or ()) - set(published.splits)
    if unknown:
        raise ValueError(
            f"--splits: {arguments.source} has {', '.join(published.splits)}, not "
            f"{', '.join(sorted(unknown))}."
        )
    folder = _archives_folder(arguments)
    _fetch_archives(published, folder)
    scratch = folder / f".{arguments.source}.unpacked"
    sources = {
        split: published.open_split(folder, scratch, split)
        for split in arguments.splits or published.splits
    }
    # A call that fails leaves it to the next one, which goes on.
    stack.push(lambda kind, *_: kind or shutil.rmtree(scratch, ignore_errors=True))
    return sources


def _archives_folder(arguments: argparse.Namespace) -> Path:
    folder = arguments.archives or arguments.folder
    if "://" in folder:
        flag = "--archives" if arguments.archives else "FOLDER"
        raise ValueError(
            f"{flag}={folder}: archives are read where they lie, on a local disk; name "
            "a folder there with --archives."
        )
    return Path(folder).expanduser()


def _fetch_archives(published, folder: Path) -> None:
    """Downloads what is missing, or says which files to put where."""
    from tqdm import tqdm

    from vit_jax.data.download import fetch, verify

    absent = [
        archive.name
        for archive in published.archives
        if not archive.url and not (folder / archive.name).exists()
    ]
    if absent:
        raise FileNotFoundError(
            f"put {', '.join(absent)} into {folder}; their publisher gives them only "
            "to who has logged in."
        )
    for archive in published.archives:
        file = folder / archive.name
        with tqdm(desc=archive.name, unit="B", unit_scale=True, leave=False) as bar:

            def progress(there: int, total: int | None, bar=bar) -> None:
                bar.total = total
                bar.update(there - bar.n)

            if archive.url:
                fetch(archive.url, file, archive.md5, progress=progress)
            else:
                verify(file, archive.md5, "get it anew", progress=progress)


def _images_bar(
    stack: contextlib.ExitStack, split: str, total: int, there: int
) -> Callable[[int], None]:
    """What moves a progress bar on by so many images."""
    from tqdm import tqdm

    bar = tqdm(desc=split, total=total, initial=there, unit="image")
    return stack.enter_context(bar).update


_ACTIONS = {"prepare": _prepare, "show": _show}
