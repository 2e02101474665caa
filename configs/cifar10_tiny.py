"""The articles' seed model: a ViT of 142,026 parameters on 5,000 CIFAR-10 images.

Paper: the architecture of Dosovitskiy et al. 2021, arXiv 2010.11929, at toy size.
Data: CIFAR-10 as a folder of class folders (data.source=FOLDER) or tfds:cifar10.
Command: vit_jax train --config=cifar10_tiny --workdir=runs/cifar10_tiny \
    --config.data.source=FOLDER
Expected: about 50 % test accuracy after 50 epochs of 5,000 images.
Cost: 14 minutes on two CPU cores.
"""

from vit_jax.config import default_config


def get_config():
    """The recipe."""
    config = default_config()
    config.model.variant = "cifar10_tiny"
    config.model.image_size = (32,)

    config.data.source = "tfds:cifar10"
    config.data.train.batch_size = 64
    config.data.eval.batch_size = 512

    config.augment.crop = "shift"
    config.augment.shift = 4
    config.augment.flip = 0.5

    config.optimizer.weight_decay = 0.05
    config.schedule.base_learning_rate = 1e-3
    config.schedule.base_batch_size = 64
    config.schedule.total_epochs = 50.0
    config.schedule.warmup_share = 0.05

    config.checkpoint.every_steps = 1000
    config.evals.every_steps = 500
    return config
