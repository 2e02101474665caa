"""`vit_jax convert`: weights from one layout into another."""

import argparse
from typing import Any

from vit_jax.cli import weights

HELP = "bring weights from one layout into another"
EXAMPLES = """\
examples:
  vit_jax convert runs/digits exported/ --to=timm
  vit_jax convert ViT-B_16.npz vit_b_16/ --to=huggingface
  vit_jax convert deit3_small.pth deit3_small.safetensors --to=timm
  vit_jax convert pytorch_model.bin model/ --to=orbax \\
      --variant=vit_base_patch16_siglip_224

SOURCE is a training workdir (its newest weights, or those that --checkpoint says), a
folder of Hugging Face's or timm's, an .npz, safetensors or PyTorch file, a link, or a
published name (augreg:B/16); its layout is told by its content. DEST.pth becomes a
state dict for torch.load, DEST.safetensors the same without PyTorch, DEST.npz NumPy's;
any other DEST a folder. What was written is read back and compared, bit by bit, before
it gets its name."""

_LAYOUTS = ("timm", "huggingface", "torchvision", "npz", "orbax")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the flags of the command."""
    parser.add_argument("source", metavar="SOURCE", help="workdir, folder or file")
    parser.add_argument("dest", metavar="DEST", help="file or folder to write")
    parser.add_argument("--to", required=True, choices=_LAYOUTS, help="layout of DEST")
    weights.add_arguments(parser, "SOURCE")
    parser.add_argument(
        "--checkpoint",
        default="latest",
        help="of a workdir: latest (default), best or a step",
    )
    parser.add_argument(
        "--no_ema",
        action="store_true",
        help="of a workdir that keeps a moving average: the weights themselves",
    )
    parser.add_argument(
        "--overwrite",
        action="store_true",
        help="replace DEST: a file, or a folder that this command wrote",
    )


def run(arguments: argparse.Namespace, overrides: dict[str, str]) -> int:
    """Converts and says what was found; returns the exit status."""
    from vit_jax.convert.target import write
    from vit_jax.weights import read_weights

    if overrides:
        raise ValueError("convert takes no --config keys; --variant names the model.")
    found = read_weights(
        arguments.source,
        arguments.checkpoint,
        ema=not arguments.no_ema,
        **weights.said_by(arguments),
    )
    print(f"found {_summary(found)}")
    for note in found.notes:
        print(f"note: {note}")
    notes = write(found, arguments.dest, arguments.to, overwrite=arguments.overwrite)
    for note in notes:
        print(f"note: {note}")
    print(f"wrote {arguments.dest} ({arguments.to}); read back, every array is equal")
    return 0


def _summary(found: Any) -> str:
    """A line: layout, variant, classes, grid, pool, activation and epsilon."""
    from vit_jax.convert.layout import stem_stride
    from vit_jax.models.spec import ResNetSpec
    from vit_jax.models.variants import as_overrides

    spec = found.spec
    rows, columns = found.preprocessing["image_size"]
    name, changed = as_overrides(spec)
    parts = [f"{found.layout}: {name}"]
    sizes = ("width", "depth", "num_heads", "mlp_dim", "patch_size")
    parts += [f"{key}={changed[key]}" for key in sizes if key in changed]
    parts += [f"{spec.num_classes} classes", f"images {rows} x {columns}"]
    if not isinstance(spec, ResNetSpec):
        stride = stem_stride(spec)
        parts.append(f"grid {rows // stride} x {columns // stride}")
        parts.append(f"pool {spec.pool}")
        gated = spec.mlp == "swiglu"
        parts.append("SwiGLU" if gated else f"GELU {spec.gelu}")
        parts.append(f"epsilon {spec.norm_epsilon:g}")
    return ", ".join(parts)
