"""A ViT from scratch on a few thousand to a few hundred thousand images.

Paper: the architecture of Dosovitskiy et al. 2021, arXiv 2010.11929, with the
    convolutional stem of Xiao et al. 2021, arXiv 2106.14881, and the augmentation of
    Steiner et al. 2021, arXiv 2106.10270. The rates are common advice: 5e-4 to start
    with on small sets, 1e-4 on tiny ones, a warmup of 5 to 10 % of all steps. They are
    taken for the batch of 128 here, and scale with another.
Arguments: size (small: from some 10,000 images on; tiny: fewer), variant, image_size
    (a multiple of the variant's patch).
Data: a folder of class folders, FOLDER/CLASS/…, of which a tenth is held out; with
    FOLDER/train/CLASS/… and FOLDER/val/CLASS/… add --config.data.train.split=train
    --config.data.eval.split=val.
Command: vit_jax train --config=small_data:size=small --workdir=runs/small \
    --config.data.source=FOLDER
Expected: nothing that a table has; it depends on the data. Weights to start from, where
    there are any, give far more.
Cost: 100 epochs (small) or 200 (tiny): for 10,000 images a million to train on, some 20
    minutes at 1,000 images/s.
"""

from vit_jax.config import default_config

# Rate, epochs, share of the steps that is warmup, level of augmentation.
_SIZES = {
    "small": (5e-4, 100.0, 0.05, "medium1"),
    "tiny": (1e-4, 200.0, 0.1, "medium2"),
}


def get_config(size: str = "small", variant: str = "S/16", image_size: int = 224):
    """The recipe."""
    if size not in _SIZES:
        raise ValueError(f"size={size} must be one of {', '.join(_SIZES)}.")
    rate, epochs, warmup, level = _SIZES[size]
    config = default_config()
    config.model.variant = variant
    config.model.image_size = (image_size,)
    config.model.stem = "conv"
    config.model.pool = "gap"
    config.model.stochastic_depth = 0.1

    config.data.train.split = "all[:90%]"
    config.data.train.batch_size = 128
    config.data.eval.split = "all[90%:]"
    config.data.eval.batch_size = 128
    config.data.eval.resize = "center"

    config.augment.crop_area = (0.2, 1.0)
    config.augment.preset = level

    config.optimizer.weight_decay = 0.05
    config.schedule.base_learning_rate = rate
    config.schedule.base_batch_size = 128
    config.schedule.total_epochs = epochs
    config.schedule.warmup_share = warmup

    config.evals.every_steps = 500
    return config
