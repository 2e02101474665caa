"""A head on a frozen backbone, whose features are computed once.

Paper: the linear evaluation of He et al. 2022, arXiv 2111.06377, appendix A.1, without
its random crops: images stay the same, so that features can be kept in memory.
Command: vit_jax train --config=linear_probe --workdir=runs/probe \
    --config.init.weights=runs/pretrained --config.data.source=FOLDER
With B/16 and ten classes 7,690 parameters train. `vit_jax probe` gives a linear
classifier in closed form, without training, for any layer.
Expected: what the features are worth; ImageNet-1k from MAE B/16 67.8 % (with crops).
Cost: one forward pass over the images (18 GFLOPs an image for B/16 at 224 pixels), then
an epoch of 50,000 images takes seconds. Memory: 4 bytes times width times images.
"""

from vit_jax.config import default_config


def get_config():
    """The recipe."""
    config = default_config()
    config.model.variant = "auto"
    config.model.image_size = (224,)
    config.model.dropout = 0.0
    config.model.attention_dropout = 0.0
    config.model.stochastic_depth = 0.0
    config.init.head = "reset"

    config.data.source = "tfds:cifar10"
    config.data.train.batch_size = 1024

    config.augment.crop = "resize"
    config.augment.flip = 0.0

    config.optimizer.name = "sgd"
    config.optimizer.momentum = 0.9
    config.optimizer.clip_norm = 0.0
    config.schedule.base_learning_rate = 0.1
    config.schedule.base_batch_size = 256
    config.schedule.decay = "cosine"
    config.schedule.total_epochs = 90.0
    config.schedule.warmup_share = 0.1

    config.train.freeze = ("(?!head/).*",)
    config.train.cache_features = True
    config.checkpoint.best_metric = "eval/accuracy"
    config.checkpoint.every_steps = 2000
    config.evals.every_steps = 500
    return config
