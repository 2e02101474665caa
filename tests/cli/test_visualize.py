"""`vit_jax visualize` from end to end, and what it refuses."""

import sys

import pytest

from tests.train.digits import tiny_config
from vit_jax.__main__ import main
from vit_jax.train.loop import train_and_evaluate


@pytest.fixture(scope="module")
def workdir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    train_and_evaluate(tiny_config(), folder)
    return folder


@pytest.mark.slow
def test_a_run_beside_itself_becomes_a_page(workdir, tmp_path, capsys):
    flags = [f"--workdir={workdir}", f"--output={tmp_path}/report", "--occluded=0"]
    flags += ["--mask=0,0,0.5,0.5", "--compare", str(workdir), "--examples=20"]
    assert main(["visualize", *flags]) == 0
    said = capsys.readouterr().out
    assert f"wrote {tmp_path}/report/report.html with curves, confusion" in said
    assert "occlusion" not in said
    assert (tmp_path / "report" / "region.png").stat().st_size > 1000


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--mask=1,2"], "--mask=1,2 must be four numbers"),
        (["--mask=a,b,c,d"], "--mask=a,b,c,d must be four numbers"),
        (["--layer=-1"], "--layer=-1 must be 0 or more"),
        (["--examples=0"], "--examples=0 must be 1 or more"),
        (["--config.seed=1"], "visualize takes no --config keys"),
        ([], "absent"),
    ],
)
def test_what_can_not_be_is_refused(tmp_path, capsys, flags, message):
    assert main(["visualize", f"--workdir={tmp_path}/absent", *flags]) == 2
    assert message in capsys.readouterr().err


def test_without_matplotlib_it_says_how_to_get_it(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert main(["visualize", "--workdir=any"]) == 2
    assert "pip install 'vit_jax[plots]'" in capsys.readouterr().err
