"""A small ViT on scikit-learn's handwritten digits: the demo, on two CPU cores.

Paper: the architecture of Dosovitskiy et al. 2021, arXiv 2010.11929, at toy size.
Data: 1,437 training and 360 test images, 8x8, grey, bundled with scikit-learn.
Command: vit_jax train --config=digits --workdir=runs/digits
Expected: 97.5 to 98.6 % test accuracy. Cost: about 55 seconds on two CPU cores.
"""

from vit_jax.config import default_config


def get_config():
    """The recipe."""
    config = default_config()
    config.model.variant = "digits_tiny"
    config.model.image_size = (8,)
    config.model.channels = 1

    config.data.source = "digits"
    # Small inputs: four pixels of ink must not drown out the position table, whose
    # entries start at 0.02; with inputs of -1 to 1 accuracy falls by two points.
    config.data.std = (16.0,)
    config.data.train.batch_size = 64
    config.data.eval.batch_size = 360

    config.augment.crop = "shift"
    config.augment.shift = 1
    config.augment.flip = 0.0
    config.augment.label_smoothing = 0.1

    config.optimizer.weight_decay = 0.05
    config.schedule.base_learning_rate = 2e-3
    config.schedule.base_batch_size = 64
    config.schedule.total_epochs = 150.0
    config.schedule.warmup_share = 0.05

    config.checkpoint.every_steps = 500
    config.evals.every_steps = 0
    return config
