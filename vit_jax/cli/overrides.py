"""`--config.KEY=VALUE` arguments, told apart before argparse sees the rest.

argparse can't declare them: the keys are those of `vit_jax.config`, and all faults are
reported together. No import of ours here, so that `--help` is instant.
"""

_PREFIX = "--config."


def take_overrides(arguments: list[str]) -> tuple[dict[str, str], list[str]]:
    """({key: text} of all `--config.KEY=VALUE`, the other arguments).

    The value may also be the next argument. The last of two for one key counts.

    Raises:
      ValueError: a key has no value.
    """
    overrides, others = {}, []
    rest = iter(arguments)
    for argument in rest:
        if not argument.startswith(_PREFIX):
            others.append(argument)
            continue
        key, equals, value = argument.removeprefix(_PREFIX).partition("=")
        if not equals:
            value = next(rest, "--")
            if value.startswith("--"):
                raise ValueError(f"{argument} has no value; write {argument}=VALUE.")
        overrides[key] = value
    return overrides, others
