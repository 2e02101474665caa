"""DeiT on ImageNet-1k from scratch, without distillation.

Paper: Touvron et al. 2021, arXiv 2012.12877, table 9; values from its published code.
Arguments: variant (Ti/16, S/16, B/16), epochs.
Data: ImageNet-1k by `vit_jax data prepare imagenet2012`.
Command: vit_jax train --config=deit:variant=S/16 --workdir=runs/deit_s \
    --config.data.source=FOLDER
Expected: Ti 72.2 %, S 79.9 %, B 81.8 % top-1 (published). Each image comes three
    times in a batch, as published; RandAugment's operations are torchvision's and not
    timm's (docs/data.md). Evaluated is the moving average, published the weights
    themselves (`vit_jax.load(path, ema=False)`); at the end they differ little.
Cost: for 300 epochs, B 53 hours on eight V100, S under three days on four (published).
"""

from vit_jax.config import default_config

_VARIANTS = ("Ti/16", "S/16", "B/16")


def get_config(variant: str = "S/16", epochs: int = 300):
    """The recipe."""
    if variant not in _VARIANTS:
        raise ValueError(f"variant={variant} must be one of {', '.join(_VARIANTS)}.")
    config = default_config()
    config.model.variant = variant
    config.model.gelu = "exact"
    config.model.head_init_std = 0.02
    config.model.stochastic_depth = 0.1

    config.data.source = "tfds:imagenet2012"
    config.data.mean = (0.485, 0.456, 0.406)
    config.data.std = (0.229, 0.224, 0.225)
    config.data.train.batch_size = 1024
    config.data.eval.split = "validation"
    config.data.eval.resize = "center"
    config.data.eval.interpolation = "bicubic"
    config.data.workers = 16

    config.augment.preset = "deit"

    config.optimizer.weight_decay = 0.05
    config.optimizer.clip_norm = 0.0
    config.schedule.base_learning_rate = 5e-4
    config.schedule.base_batch_size = 512
    config.schedule.start_rate = 1e-6
    config.schedule.end_rate = 1e-5
    config.schedule.total_epochs = float(epochs)
    config.schedule.warmup_epochs = 5.0

    config.train.compute_dtype = "bfloat16"
    config.train.ema_decay = 0.99996
    config.evals.every_steps = 5000
    return config
