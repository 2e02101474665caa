"""What a run says of itself before it starts."""

import jax
from ml_collections import ConfigDict

from vit_jax.models.variants import ResNetSpec, in_words, resolve
from vit_jax.train import mesh as meshes
from vit_jax.train.assemble import Parts
from vit_jax.train.inputs import augment_values
from vit_jax.weights import model_fields

# Below this a plain ViT that starts from scratch stays behind a convolutional network
# (Dosovitskiy et al. 2021, section 4.3, has 1.3 million as few; DeiT needs strong
# augmentation there).
_FEW_IMAGES = 100_000
_WAYS_OUT = (
    "a convolutional stem (model.stem=conv) or strong augmentation "
    "(augment.preset=medium1)"
)


def introduction(parts: Parts, *, first: bool) -> str:
    """What is about to happen, in numbers that can be checked against a recipe.

    Args:
      first: whether the run starts, rather than goes on.
    """
    config, devices = parts.config, jax.devices()
    batch, processes = config.data.train.batch_size, jax.process_count()
    per_device = batch // meshes.batch_devices(parts.mesh)
    micro = config.train.accumulation_steps
    cut = f", in {micro} micro-batches of {per_device // micro}" if micro > 1 else ""
    model = in_words(config.model.variant, model_fields(config.model.to_dict()))
    lines = [
        f"{config.data.source}: {parts.inputs.num_examples:,} training images, "
        f"{len(parts.inputs.class_names)} classes; {model}: "
        f"{parts.num_params:,} parameters",
        f"batch {batch} ({batch // processes} a process, {per_device} a device{cut}) "
        f"on {processes} process(es) with {len(devices)} device(s) of kind "
        f"{devices[0].device_kind}; peak learning rate "
        f"{parts.peak_learning_rate:g}, {parts.total_steps:,} steps",
    ]
    if first and learns_little(config, parts.inputs.num_examples):
        lines.append(
            f"note: {parts.inputs.num_examples:,} images are few for a ViT from "
            f"scratch; {_WAYS_OUT} help"
        )
    return "\n".join(lines)


def learns_little(config: ConfigDict, num_examples: int) -> bool:
    """Whether a plain ViT starts from scratch on few images without augmentation."""
    spec = resolve(config.model.variant, model_fields(config.model.to_dict()))
    if isinstance(spec, ResNetSpec) or spec.stem != "patch":
        return False
    augment = augment_values(config)
    strong = any(augment[key] for key in ("randaugment_layers", "mixup", "cutmix"))
    return num_examples < _FEW_IMAGES and not strong
