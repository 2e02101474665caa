"""The smallest config that trains: one block on the bundled digits."""

from ml_collections import ConfigDict

from vit_jax import config as configuration


def tiny_config(**changes) -> ConfigDict:
    """A config of six steps; `changes` has keys with __ for dots."""
    config = configuration.default_config()
    values = {
        "model.variant": "Ti/16",
        "model.patch_size": 4,
        "model.image_size": (8,),
        "model.channels": 1,
        "model.width": 16,
        "model.depth": 1,
        "model.num_heads": 2,
        "model.mlp_dim": 16,
        "data.source": "digits",
        "data.train.batch_size": 16,
        "data.eval.batch_size": 120,
        "augment.crop": "shift",
        "augment.shift": 1,
        "schedule.total_steps": 6,
        "log.every_steps": 1,
        "log.tensorboard": False,
        "log.progress": False,
        "checkpoint.every_steps": 2,
    }
    values |= {key.replace("__", "."): value for key, value in changes.items()}
    config.update_from_flattened_dict(values)
    return config
