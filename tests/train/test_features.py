"""Features computed once against images seen at every step."""

import itertools

import jax
import numpy as np
import pytest
from PIL import Image

import vit_jax
from tests.train.digits import tiny_config
from tests.train.journals import losses
from vit_jax.train.assemble import assemble
from vit_jax.train.features import cached_batches, compute_features
from vit_jax.train.inputs import open_inputs, training_pass
from vit_jax.train.loop import train_and_evaluate
from vit_jax.train.stages import plan_stages

FREEZE = ("(?!head/).*",)


def probing(**changes):
    changes = {
        "train__freeze": FREEZE,
        "train__cache_features": True,
        "augment__crop": "resize",
        "augment__shift": 0,
        "augment__flip": 0.0,
        "augment__label_smoothing": 0.1,
        "schedule__total_steps": 4,
        "schedule__base_learning_rate": 0.1,
        "optimizer__weight_decay": 0.1,
    } | changes
    return tiny_config(**changes)


@pytest.mark.slow
def test_cached_features_train_the_same_head(tmp_path, capsys):
    train_and_evaluate(probing(), tmp_path / "cached")
    assert "computing the features of 1,437 images once" in capsys.readouterr().err
    train_and_evaluate(probing(train__cache_features=False), tmp_path / "plain")
    np.testing.assert_allclose(
        losses(tmp_path / "cached"), losses(tmp_path / "plain"), rtol=1e-5
    )
    cached, plain = (vit_jax.load(tmp_path / run).params for run in ("cached", "plain"))
    for ours, theirs in zip(
        jax.tree.leaves(cached), jax.tree.leaves(plain), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
    assert np.any(cached["head"]["kernel"])


@pytest.mark.parametrize("repeats", [1, 3])
def test_cached_batches_hold_the_examples_that_a_run_on_images_takes(repeats):
    config = probing(
        augment__repeats=repeats,
        data__train__batch_size=479,
        data__eval__batch_size=1437,
    )
    inputs = open_inputs(config, evaluation=False)
    (stage,) = plan_stages(config, 4)
    (whole,) = training_pass(config, inputs.train_source, (0, 1), inputs.skipped)
    kept = {name: whole[name] for name in ("image", "label", "weight")}
    cached = itertools.islice(cached_batches(config, kept, (0, 1))(1, stage), 3)
    for plain, ours in zip(inputs.train_batches(1, stage), cached, strict=False):
        for name, values in ours.items():
            np.testing.assert_array_equal(values, plain[name])


@pytest.mark.parametrize(
    ("changes", "needs"),
    [
        ({"augment__crop": "shift"}, "augment.crop=shift must be resize"),
        ({"augment__flip": 0.5}, "augment.flip=0.5 must be 0"),
        ({"augment__mixup": 0.2}, "augment.mixup=0.2 must be 0"),
        ({"augment__preset": "light1"}, "augment.randaugment_layers=2 must be 0"),
        ({"model__dropout": 0.1}, "model.dropout=0.1 must be 0"),
        (
            {"train__freeze": ("encoder/.*",)},
            "train.freeze must hold all but the head, .* such as p",
        ),
        (
            {"schedule__stages": ((4, 0.5, 0), (8, 0.5, 0))},
            "schedule.stages must be empty",
        ),
    ],
)
def test_features_that_would_change_are_refused_by_name(changes, needs):
    with pytest.raises(ValueError, match=f"train.cache_features=true needs.*{needs}"):
        assemble(probing(**changes))


def test_several_processes_are_refused(monkeypatch):
    monkeypatch.setattr(jax, "process_count", lambda: 2)
    from vit_jax.train.features import cache_faults

    config = probing(model__num_classes=10)
    model = vit_jax.create_model(
        "Ti/16", width=16, depth=1, num_heads=2, mlp_dim=16, patch_size=4
    )
    images = jax.ShapeDtypeStruct((1, 8, 8, 1), np.float32)
    params = jax.eval_shape(model.init, jax.random.key(0), images)["params"]
    (fault,) = cache_faults(config, params)
    assert "there must be 1 process, not 2" in fault


def test_an_image_that_can_not_be_read_is_reported_with_cached_features(tmp_path):
    for name in "ab":
        place = tmp_path / "train" / name
        place.mkdir(parents=True)
        Image.new("L", (8, 8), 99).save(place / "1.png")
    (tmp_path / "train" / "b" / "2.png").write_text("no picture")
    config = probing(
        data__source=str(tmp_path),
        data__bad_images="skip",
        data__eval__split="",
        data__eval__batch_size=8,
        data__train__batch_size=8,
    )
    parts = assemble(config)
    params = parts.init(jax.random.key(0))
    found = compute_features(config, parts.inputs, parts.model, params, parts.mesh)
    assert found["weight"].tolist() == [1, 1, 0]
    (name,) = parts.inputs.skipped
    assert name.endswith("2.png")

    def stops():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compute_features(config, parts.inputs, parts.model, params, parts.mesh, stops)
