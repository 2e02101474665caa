"""The training step on a small model: frozen, accumulated, averaged, passed over."""

import chex
import flax.linen as nn
import jax
import numpy as np
import pytest

from vit_jax import trees
from vit_jax.train import mesh as meshes
from vit_jax.train.optimizer import make_optimizer, trained_mask
from vit_jax.train.state import abstract_state, create_state, make_init, placed
from vit_jax.train.step import make_train_step, step_keys

SIZE, CLASSES, RATE = 16, 3, 0.1


class Small(nn.Module):
    """A hidden layer, dropout and a head."""

    dropout: float = 0.0

    @nn.compact
    def __call__(self, images, train=False):
        x = nn.tanh(nn.Dense(8, name="stem")(images.reshape(images.shape[0], -1)))
        x = nn.Dropout(self.dropout, deterministic=not train)(x)
        return nn.Dense(CLASSES, name="head")(x)


def prepare(batch, key):
    return batch["image"], jax.nn.one_hot(batch["label"], CLASSES)


def batch(seed=0, **changes):
    rng = np.random.default_rng(seed)
    values = {
        "image": rng.normal(size=(SIZE, 2, 2, 1)).astype(np.float32),
        "label": rng.integers(0, CLASSES, SIZE, np.int32),
        "weight": np.ones(SIZE, np.float32),
    }
    return values | changes


def run(batches, *, dropout=0.0, freeze=(), name="adamw", **arguments):
    """(first state, last state, figures of each step)."""
    model = Small(dropout)
    mesh = meshes.make_mesh(data=-1, fsdp=1, tensor=1)
    init = make_init(model, (2, 2, 1))
    params = jax.eval_shape(init, jax.random.key(0))

    def schedule(step):
        return RATE / (1 + step)

    optimizer = make_optimizer(
        schedule, params, name=name, peak=RATE, weight_decay=0.1, freeze=freeze
    )
    abstract = abstract_state(
        params, optimizer, mesh, ema=bool(arguments.get("ema_decay"))
    )
    step = make_train_step(
        model,
        optimizer,
        schedule,
        loss="softmax",
        seed=0,
        shardings=(placed(abstract), meshes.replicated(mesh)),
        trained=trained_mask(params, freeze),
        **({"prepare": prepare} | arguments),
    )
    state = create_state(init, optimizer, abstract, seed=0)
    first, figures = jax.device_get(state), []
    for values in batches:
        state, found = step(state, meshes.put_batch(values, mesh))
        figures.append({key: float(value) for key, value in found.items()})
    return first, jax.device_get(state), figures


def test_a_step_lowers_the_loss_and_reports_its_figures():
    _, last, figures = run([batch()] * 5)
    assert [f["learning_rate"] for f in figures] == pytest.approx(
        [RATE / (1 + step) for step in range(5)]
    )
    assert figures[-1]["loss"] < figures[0]["loss"]
    assert all(f["gradient_norm"] > 0 for f in figures)
    assert all(f["nonfinite_steps"] == 0 for f in figures)
    assert last.step == 5
    assert last.ema_params is None


@pytest.mark.parametrize("weights", [np.ones(SIZE), np.arange(SIZE) % 4 != 1])
def test_two_parts_make_the_step_of_the_whole_batch(weights):
    values = batch(weight=weights.astype(np.float32))
    _, whole, (one,) = run([values], name="sgd")
    _, parts, (two,) = run([values], name="sgd", accumulation_steps=2)
    chex.assert_trees_all_close(parts.params, whole.params, rtol=1e-5, atol=1e-7)
    assert two == pytest.approx(one, rel=1e-5)
    assert parts.step == whole.step == 1


def test_examples_of_weight_zero_change_nothing():
    weights = np.ones(SIZE, np.float32)
    weights[::5] = 0
    images = batch()["image"].copy()
    images[::5] = 7.0
    values = [batch(weight=weights), batch(weight=weights, image=images)]
    chex.assert_trees_all_equal(*(run([v], name="sgd")[1].params for v in values))


def test_dropout_changes_the_step_and_depends_on_seed_and_step_alone():
    plain, noisy, again = (
        run([batch()] * 2, dropout=rate)[2] for rate in (0.0, 0.5, 0.5)
    )
    assert plain != noisy
    assert noisy == again


def test_keys_differ_by_step_and_by_use():
    drawn = [float(jax.random.uniform(key)) for n in (0, 1) for key in step_keys(0, n)]
    assert len(set(drawn)) == 4


def test_frozen_parameters_keep_every_bit_and_only_the_rest_makes_the_norm():
    first, last, figures = run([batch()] * 5, freeze=("stem/.*",), ema_decay=0.5)
    for tree in (last.params, last.ema_params):
        for name, leaf in trees.flatten(tree["stem"]).items():
            before = trees.flatten(first.params["stem"])[name]
            assert leaf.tobytes() == before.tobytes()
    assert not np.array_equal(
        first.params["head"]["kernel"], last.params["head"]["kernel"]
    )
    _, _, whole = run([batch()])
    assert figures[0]["gradient_norm"] < whole[0]["gradient_norm"]


def test_the_average_follows_the_weights():
    first, last, _ = run([batch()], ema_decay=0.75)
    expected = jax.tree.map(
        lambda old, new: 0.75 * old + 0.25 * new, first.params, last.params
    )
    chex.assert_trees_all_close(last.ema_params, expected, atol=1e-7)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_loss_or_gradient_that_is_no_number_changes_only_the_counts(bad):
    images = batch()["image"].copy()
    images[3] = bad
    _, sound, _ = run([batch(0)], ema_decay=0.5)
    _, last, figures = run([batch(0), batch(image=images)], ema_decay=0.5)
    assert (last.step, last.nonfinite_steps) == (2, 1)
    for part in ("params", "opt_state", "ema_params"):
        chex.assert_trees_all_equal(getattr(last, part), getattr(sound, part))
    assert not np.isfinite(figures[1]["gradient_norm"])
    assert figures[1]["nonfinite_steps"] == 1


def test_the_schedule_goes_on_over_a_step_that_is_passed_over():
    images = np.full((SIZE, 2, 2, 1), np.nan, np.float32)
    _, last, figures = run([batch(), batch(image=images), batch(1)])
    assert [f["learning_rate"] for f in figures] == pytest.approx(
        [RATE, RATE / 2, RATE / 3]
    )
    assert np.isfinite(last.params["head"]["kernel"]).all()
    assert last.step == 3


def test_the_step_is_traced_once_whatever_the_state_holds():
    counted = chex.assert_max_traces(prepare, n=1)
    _, last, _ = run(
        [batch()] * 3, ema_decay=0.5, accumulation_steps=2, prepare=counted
    )
    assert last.step == 3
