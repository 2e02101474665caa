"""docs/weights.md: its commands and code run as they stand."""

import re
import shlex
from pathlib import Path

import numpy as np
import pytest
import transformers

from tests.convert.test_timm import REFUSED
from vit_jax.__main__ import main

DOCS = Path(__file__).parent.parent.parent / "docs" / "weights.md"


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", DOCS.read_text(), re.DOTALL)


@pytest.mark.slow
def test_the_examples_run_in_each_direction(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for line in "".join(blocks("bash")).splitlines():
        program, *arguments = shlex.split(line)
        assert program == "vit_jax"
        assert main(arguments) == 0, line
    _, info = transformers.ViTForImageClassification.from_pretrained(
        "digits_hf/", output_loading_info=True
    )
    assert not any(info.values())
    images = np.zeros((1, 8, 8, 1), "f")
    for code in blocks("python"):
        namespace = {"images": images}
        exec(code, namespace)
        if "logits" in namespace:
            assert namespace["logits"].shape == (1, 10)


def test_the_table_covers_all_families():
    text = DOCS.read_text()
    table = text.partition("<!-- coverage -->")[2].partition("<!-- end")[0]
    assert re.search(r"\| vision_transformer \| 163 \| 153 \| \d\.\de-0[5-9] \|", table)
    assert re.search(r"\| deit \| 16 \| 16 \| \d\.\de-0[5-9] \|", table)
    assert re.search(r"hybrid \(ResNetV2\) \| 9 \| 9 \| \d\.\de-0[5-9] \|", table)
    listed = table.partition("Refused by name:")[2].splitlines()
    for name, reason in REFUSED.items():
        (line,) = [line for line in listed if f"`{name}`" in line]
        assert reason in line
    assert table.count("`") == 2 * len(REFUSED)
