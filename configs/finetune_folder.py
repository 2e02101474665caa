"""Fine-tuning on a folder of your own photographs, a folder a class.

Paper: Steiner et al. 2022, arXiv 2106.10270, section 3.4 (SGD, short schedules); the
settings here are gentle ones for a few hundred to some ten thousand images. The rate is
for a batch of 64 and scales with another.
Command: vit_jax train --config=finetune_folder --workdir=runs/photos \
    --config.init.weights=runs/pretrained --config.data.source=photos
photos/train/CLASS/… trains and photos/val/CLASS/… evaluates; with one tree
photos/CLASS/… add --config.data.train.split='all[:90%]'
--config.data.eval.split='all[90%:]'.
Expected: with weights pretrained on ImageNet-21k 90 % and more on sets such as Pets or
Flowers, within 20 epochs. From scratch a few hundred images don't suffice.
Cost: B/16 at 224 pixels trains on 300 to 1,000 images/s on one recent GPU: 5,000 images
for 20 epochs take two to six minutes. Too little memory: train.accumulation_steps=4.
"""

from vit_jax.config import default_config


def get_config():
    """The recipe."""
    config = default_config()
    config.model.variant = "auto"
    config.model.image_size = (224,)
    config.model.stochastic_depth = 0.1
    config.init.head = "reset"

    config.data.source = "photos"
    config.data.eval.split = "val"
    config.data.eval.resize = "center"
    config.data.train.batch_size = 64
    config.data.eval.batch_size = 64

    config.augment.crop = "random_resized"
    config.augment.crop_area = (0.25, 1.0)
    config.augment.flip = 0.5
    config.augment.label_smoothing = 0.1

    config.optimizer.name = "sgd"
    config.optimizer.momentum = 0.9
    config.optimizer.clip_norm = 1.0
    config.schedule.base_learning_rate = 0.01
    config.schedule.base_batch_size = 64
    config.schedule.decay = "cosine"
    config.schedule.total_epochs = 20.0
    config.schedule.warmup_share = 0.1

    config.checkpoint.best_metric = "eval/accuracy"
    config.checkpoint.every_steps = 200
    config.evals.every_steps = 100
    return config
