"""A head on a frozen backbone, whose features are computed once.

Paper: the linear evaluation of He et al. 2022, arXiv 2111.06377, appendix A.1: its
rate for a batch of 256, epochs and warmup. Four things are otherwise here: no random
crops (images stay the same, so that features can be kept in memory), SGD with momentum
instead of LARS, no batch norm before the head, a batch of 1,024 instead of 16,384.
Command: vit_jax train --config=linear_probe --workdir=runs/probe \
    --config.init.weights=runs/pretrained --config.data.source=FOLDER
With B/16 and ten classes 7,690 parameters train. `vit_jax probe` gives a linear
classifier in closed form, without training, for any layer.
The last tenth of the training split chooses the best checkpoint. For the figure to
report: vit_jax evaluate --workdir=runs/probe --checkpoint=best --split=test
Expected: what the features are worth. The paper's 67.8 % on ImageNet-1k from MAE B/16
is of its own four settings, not of these.
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
    config.data.train.split = "train[:90%]"
    config.data.train.batch_size = 1024
    config.data.eval.split = "train[90%:]"

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
