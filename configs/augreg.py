"""Pretraining with any of AugReg's levels of augmentation and regularization.

Paper: Steiner et al. 2021, "How to train your ViT?", arXiv 2106.10270, section 3;
    values from big_vision's configs/vit_i1k.py and vit_i21k.py.
Arguments: variant (Ti/16, S/32, S/16, B/32, B/16, L/16, R+Ti/16, R26+S/32, R50+L/32, or
    any other), level (none, light1, light2, medium1, medium2, strong1, strong2), data
    (imagenet, imagenet21k), weight_decay (0.03 or 0.1, times the rate), dropout (0 or
    0.1, of dropout and stochastic depth alike).
Data: ImageNet-1k by `vit_jax data prepare imagenet2012`; ImageNet-21k as a folder of
    class folders, FOLDER/CLASS/…, or prepared from one by `vit_jax data prepare FOLDER
    PREPARED --splits all`; 1 % of it is held out.
Command: vit_jax train --config=augreg:variant=B/16,level=medium1,data=imagenet21k \
    --workdir=runs/augreg --config.data.source=FOLDER
Expected: from scratch on ImageNet-1k at 224 pixels, B/16 about 79 % and S/16 about 79 %
    top-1; from ImageNet-21k, fine-tuned at 384 pixels, B/16 (medium1) 85.5 %, S/16
    (light1, 0.03) 83.7 %, L/16 (strong1) 85.6 %, Ti/16 (none, 0.03) 78.2 %.
Cost: 300 epochs; look at images_per_second of the first minutes for your machine.
"""

from vit_jax.config import default_config

# First bias of the head: the log odds of one class in that many.
_BIASES = {"imagenet": -6.9, "imagenet21k": -10.0}


def get_config(
    variant: str = "B/16",
    level: str = "medium1",
    data: str = "imagenet",
    weight_decay: float = 0.1,
    dropout: float = 0.0,
):
    """The recipe."""
    if data not in _BIASES:
        raise ValueError(f"data={data} must be one of {', '.join(_BIASES)}.")
    config = default_config()
    config.model.variant = variant
    config.model.head_bias_init = _BIASES[data]
    config.model.dropout = dropout
    config.model.stochastic_depth = dropout

    if data == "imagenet":
        config.data.source = "tfds:imagenet2012"
        config.data.train.split = "train[:99%]"
        config.data.eval.split = "validation"
    else:
        config.data.train.split = "all[:99%]"
        config.data.eval.split = "all[99%:]"
    config.data.train.batch_size = 4096
    config.data.eval.resize = "center"
    config.data.workers = 16
    config.augment.preset = level

    config.optimizer.weight_decay = weight_decay
    config.optimizer.moment_dtype = "bfloat16"
    config.schedule.base_learning_rate = 1e-3
    config.schedule.base_batch_size = 4096
    config.schedule.total_epochs = 300.0
    config.schedule.warmup_steps = 10_000

    config.train.loss = "sigmoid"
    config.train.compute_dtype = "bfloat16"
    config.evals.every_steps = 5000
    return config
