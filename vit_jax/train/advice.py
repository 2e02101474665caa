"""What a run says of its batch and its data before it starts."""

import numpy as np
from ml_collections import ConfigDict

from vit_jax.data.decode import has_colour
from vit_jax.models.described import model_fields
from vit_jax.models.spec import ResNetSpec
from vit_jax.models.variants import resolve
from vit_jax.train import mesh as meshes
from vit_jax.train.assemble import Parts
from vit_jax.train.augment import augment_values

# A plain ViT from scratch stays behind a convolutional network well above this
# (Dosovitskiy et al. 2021, section 4.3: on ImageNet's 1.3 million).
_FEW_IMAGES = 100_000
_CLASSES_SHOWN = 5
_WAYS_OUT = (
    "weights to start from (init.weights), a convolutional stem (model.stem=conv) or "
    "strong augmentation (augment.preset=medium1)"
)


def micro_batches(parts: Parts, batch_size: int) -> str:
    """How accumulation cuts what a device has of a batch; empty where it doesn't."""
    steps = parts.config.train.accumulation_steps
    if steps == 1:
        return ""
    size = batch_size // meshes.batch_devices(parts.mesh)
    return f", in {steps} micro-batches of {size // steps}"


def large_batch(parts: Parts) -> str:
    """A line where a batch holds the same images several times; else empty."""
    count = parts.inputs.num_examples
    size = max(stage.batch_size for stage in parts.stages)
    if size <= count:
        return ""
    return (
        f"note: a batch of {size} is more than the {count:,} training "
        "images, so each step sees some of them several times"
    )


def empty_classes(parts: Parts) -> str:
    """A line naming classes that have no training image; empty where all have some.

    TFDS is not asked: its labels lie inside the records, which would all be read.
    """
    if parts.config.data.source.startswith("tfds:"):
        return ""
    names = parts.inputs.class_names
    counts = np.bincount(parts.inputs.train_source.labels(), minlength=len(names))
    empty = [name for name, count in zip(names, counts, strict=True) if not count]
    if not empty:
        return ""
    more = ", …" if len(empty) > _CLASSES_SHOWN else ""
    return (
        f"note: {len(empty)} of {len(names)} classes have no training image and are "
        f"never learnt: {', '.join(empty[:_CLASSES_SHOWN])}{more}"
    )


def grey_model(parts: Parts) -> str:
    """A line where a model of grey images gets colour ones; else empty.

    The first training example tells.
    """
    if parts.config.model.channels != 1:
        return ""
    image, _, name = parts.inputs.train_source[0]
    if not has_colour(image):
        return ""
    return (
        f"note: images such as {name} have colours and become grey, since "
        "model.channels=1; set it to 3 to train on colours"
    )


def few_images(parts: Parts) -> str:
    """A line on what helps a ViT from scratch on few images; empty where not due."""
    count = parts.inputs.num_examples
    if parts.initial or not learns_little(parts.config, count):
        return ""
    return f"note: {count:,} images are few for a ViT from scratch; {_WAYS_OUT} help"


def learns_little(config: ConfigDict, num_examples: int) -> bool:
    """Whether a plain ViT starts from scratch on few images without augmentation."""
    spec = resolve(config.model.variant, model_fields(config.model.to_dict()))
    if isinstance(spec, ResNetSpec) or spec.stem != "patch":
        return False
    augment = augment_values(config)
    strong = any(augment[key] for key in ("randaugment_layers", "mixup", "cutmix"))
    return num_examples < _FEW_IMAGES and not strong
