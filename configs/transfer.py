"""Fine-tuning a pretrained ViT as big_vision does: SGD, no decay, 384 pixels.

Paper: Dosovitskiy et al. 2021, arXiv 2010.11929, appendix B.1.1 and table 4; numbers of
steps and rates as in big_vision's configs/transfer.py.
Command: vit_jax train --config=transfer --workdir=runs/pets \
    --config.init.weights=runs/pretrained --config.data.source=FOLDER
The model is that of the weights; its position table is resized, its head starts anew.
The three keys of schedule, of which the last line is the recipe's:
    data              total_steps  warmup_steps  base_learning_rate
    ImageNet          20,000       500           0.03
    CIFAR-10          10,000       500           0.003
    CIFAR-100         10,000       500           0.01
    Pets, Flowers     500          100           0.003
The last tenth of the training split chooses the best checkpoint. For the figure to
report: vit_jax evaluate --workdir=runs/pets --checkpoint=best --split=test
Expected: from B/32 pretrained on ImageNet-21k (big_vision) ImageNet 83.3 %, CIFAR-10
98.6 %, CIFAR-100 91.4 %, Pets 93.8 %, Flowers 99.4 %. For CIFAR those are of random
crops at the images' own scale, which these of any scale and aspect are not.
Cost: B/32 at 384 pixels is 13 GFLOPs an image forward; 500 steps of 512 take minutes on
eight TPU v3 cores, and an accelerator that holds 64 images takes
train.accumulation_steps=8.
"""

from vit_jax.config import default_config


def get_config():
    """The recipe."""
    config = default_config()
    config.model.variant = "auto"
    config.model.image_size = (384,)
    config.init.head = "reset"

    config.data.source = "tfds:oxford_iiit_pet"
    config.data.train.split = "train[:90%]"
    config.data.train.batch_size = 512
    config.data.eval.split = "train[90%:]"
    # The shorter side becomes 448, of which the middle 384 stay.
    config.data.eval.resize = "center"
    config.data.eval.crop_fraction = 384 / 448

    config.augment.crop = "random_resized"
    config.augment.flip = 0.5

    config.optimizer.name = "sgd"
    config.optimizer.momentum = 0.9
    config.optimizer.moment_dtype = "bfloat16"
    config.optimizer.clip_norm = 1.0
    config.schedule.base_learning_rate = 0.003
    config.schedule.base_batch_size = 512
    config.schedule.decay = "cosine"
    config.schedule.total_steps = 500
    config.schedule.warmup_steps = 100

    config.train.compute_dtype = "bfloat16"
    config.checkpoint.best_metric = "eval/accuracy"
    config.checkpoint.every_steps = 500
    config.evals.every_steps = 100
    return config
