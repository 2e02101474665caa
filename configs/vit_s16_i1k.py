"""A plain ViT-S/16 on ImageNet-1k from scratch, for 90, 150 or 300 epochs.

Paper: Beyer et al. 2022, "Better plain ViT baselines for ImageNet-1k", arXiv
    2205.01580; values from big_vision's configs/vit_s16_i1k.py.
Arguments: epochs (the paper has 90, 150 and 300).
Data: ImageNet-1k, 99 % of the training split, by `vit_jax data prepare imagenet2012`.
Command: vit_jax train --config=vit_s16_i1k:epochs=90 --workdir=runs/s16 \
    --config.data.source=FOLDER
Expected: 76.5 %, 78.5 % and 80.0 % top-1 after 90, 150 and 300 epochs (published; with
    the paper's RandAugment, whose operations differ a little).
Cost: 6 to 7 hours for 90 epochs on a TPU v3-8 (published).
"""

from vit_jax.config import default_config


def get_config(epochs: int = 90):
    """The recipe."""
    config = default_config()
    config.model.variant = "S/16"
    config.model.pool = "gap"
    config.model.position = "sincos_2d"
    config.model.representation_size = 384

    config.data.source = "tfds:imagenet2012"
    config.data.train.split = "train[:99%]"
    config.data.train.batch_size = 1024
    config.data.eval.split = "validation"
    config.data.eval.resize = "center"
    config.data.workers = 16

    # RandAugment of 2 layers at magnitude 10 and Mixup of 0.2.
    config.augment.preset = "light2"

    config.optimizer.moment_dtype = "bfloat16"
    config.optimizer.weight_decay = 1e-4
    config.optimizer.decay_convention = "independent"
    config.schedule.base_learning_rate = 1e-3
    config.schedule.base_batch_size = 1024
    config.schedule.total_epochs = float(epochs)
    config.schedule.warmup_steps = 10_000

    config.train.compute_dtype = "bfloat16"
    config.checkpoint.every_steps = 1000
    config.evals.every_steps = 2500
    return config
