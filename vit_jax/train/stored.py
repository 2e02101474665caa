"""The config that a workdir's run had."""

from ml_collections import ConfigDict

from vit_jax import config as configuration
from vit_jax.workdir import Workdir, read_json


def stored_config(workdir: Workdir) -> ConfigDict:
    """Every key as the workdir's run had it.

    Raises:
      ValueError: the file is damaged, or has keys or values that no run has.
    """
    values = read_json(workdir.config)
    try:
        return configuration.from_values(values)
    except ValueError as error:
        raise ValueError(
            f"{workdir.config} is damaged, or of another version: {error} Mend it, or "
            "restore it from a copy."
        ) from error
