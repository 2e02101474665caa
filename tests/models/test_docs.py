"""docs/models.md: its examples run, its quotations and its table are the code's."""

import dataclasses
import re
from pathlib import Path

import pytest

import vit_jax
from vit_jax.models.flops import count_parameters, forward_flops
from vit_jax.models.spec import ResNetSpec, VitSpec
from vit_jax.models.variants import VARIANTS

ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "docs" / "models.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", DOCUMENT, re.DOTALL)
QUOTED = re.findall(r"\| `([^`]+)` \| `((?:models|layers)/\w+\.py)` \|", DOCUMENT)


def runs_the_model(code):
    return "apply" in code


@pytest.mark.parametrize(
    "code",
    [
        pytest.param(code, marks=pytest.mark.slow) if runs_the_model(code) else code
        for code in BLOCKS
    ],
)
def test_examples_run(code):
    namespace = {"vit_jax": vit_jax}
    exec(code, namespace)
    if runs_the_model(code):
        taps = namespace["taps"]
        assert namespace["logits"].shape == (2, 10)
        assert taps["layers"][0].shape == (2, 97, 64)
        assert taps["attention"][0].shape == (2, 4, 97, 97)


@pytest.mark.parametrize(("line", "file"), QUOTED)
def test_quoted_lines_are_the_codes(line, file):
    assert line in (ROOT / "vit_jax" / file).read_text()


def test_all_eight_equations_are_quoted():
    assert len(QUOTED) == 13
    for number in range(1, 9):
        assert f"| ({number}) " in DOCUMENT


@pytest.mark.parametrize("spec", [VitSpec, ResNetSpec])
def test_every_field_is_named(spec):
    words = set(re.findall(r"\b[a-z]\w+\b", DOCUMENT))
    assert {field.name for field in dataclasses.fields(spec)} <= words


def test_choices_are_all_named():
    for field in dataclasses.fields(VitSpec):
        for choice in field.metadata.get("choices", ()):
            assert re.search(rf'[`"]{choice}[`"]', DOCUMENT), (field.name, choice)


def test_the_table_is_the_formulas():
    rows = re.findall(r"^\| `(\S+)` \|(.*)\|$", DOCUMENT, re.MULTILINE)
    rows = {name: [cell.strip() for cell in cells.split("|")] for name, cells in rows}
    for name, spec in VARIANTS.items():
        shape = (spec.image_size, spec.image_size)
        channels = 1 if name == "digits_tiny" else 3
        *sizes, parameters, flops = rows[name]
        assert int(parameters.replace(",", "")) == count_parameters(
            spec, shape, channels
        )
        expected = forward_flops(spec, shape, channels) / 1e9
        assert abs(float(flops.replace(",", "")) / expected - 1) < 0.05
        if isinstance(spec, VitSpec):
            given = [spec.width, spec.depth, spec.num_heads, spec.mlp_dim]
            assert list(map(int, sizes)) == given
