"""`vit_jax plan`: what a config will cost, with no accelerator at hand."""

import argparse
import json

HELP = "say what a config will cost, without an accelerator"
EXAMPLES = """\
examples:
  vit_jax plan --config=vit_s16_i1k
  vit_jax plan --config=vit_pretrain --config.model.variant=L/16 --target=gpu:h100:8
  vit_jax plan --config=vit_pretrain --config.model.variant=L/16 \\
      --target=tpu:v5e:4x4 --compile

TPUs are v4, v5e, v5p and v6e with a slice's sides, GPUs a100, h100, h200, l4 and
rtx4090 with a number. --compile compiles the training step for a TPU slice that is not
here, which takes minutes and needs libtpu (pip install 'vit_jax[compile]')."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the flags of the command."""
    parser.add_argument("--config", required=True, metavar="RECIPE", help="as of train")
    parser.add_argument(
        "--target",
        action="append",
        metavar="MACHINE",
        help="tpu:MODEL:TOPOLOGY or gpu:MODEL:COUNT, may be given again (default: one "
        "machine of each known device)",
    )
    parser.add_argument(
        "--examples",
        type=int,
        help="training images of an epoch (default: as many as the data has)",
    )
    parser.add_argument(
        "--utilisation",
        type=float,
        default=0.4,
        help="share of the device's peak FLOP/s that training reaches (default 0.4)",
    )
    parser.add_argument(
        "--compile",
        action="store_true",
        help="compile the step for the only --target and report what the compiler says",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace, overrides: dict[str, str]) -> int:
    """Plans and prints; returns the exit status."""
    import jax

    # Nothing is computed here, so that no accelerator need be started for it.
    jax.config.update("jax_platforms", "cpu")
    from vit_jax.cli.recipes import load_config
    from vit_jax.plan.make import make_plan
    from vit_jax.plan.table import as_dict, as_text

    config, faults = load_config(arguments.config, overrides)
    plan = make_plan(
        config,
        arguments.target or (),
        faults=faults,
        num_examples=arguments.examples,
        utilisation=arguments.utilisation,
        compiles=arguments.compile,
    )
    print(json.dumps(as_dict(plan), indent=2) if arguments.json else as_text(plan))
    return 0
