"""Tests vit_jax/models/encoder.py."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import vit_jax
from tests.models.drawn import redraw
from vit_jax import trees
from vit_jax.layers.position import Layout
from vit_jax.models.encoder import BlockOutput, Encoder, Template

LAYOUT = Layout(rows=1, columns=2, num_prefix=0)
IMAGES = jax.random.normal(jax.random.key(7), (4, 16, 24, 3))


class Noise(nn.Module):
    """A stand-in block that adds its parameter, its drop rate and its key's noise."""

    @nn.compact
    def __call__(self, x, layout, *, dropout_key, drop_rate, with_weights=False):
        x = x + self.param("kernel", nn.initializers.normal(1.0), (1, 1, 1))
        if dropout_key is not None:
            x = x + jax.random.normal(dropout_key, x.shape)
        return BlockOutput(x + (0 if drop_rate is None else drop_rate), None)


def _encoder(depth, **fields):
    return Encoder((Template(Noise()),), depth, norm=None, **fields)


def _zeros(depth):
    return {
        "params": {f"block_{i}": {"kernel": jnp.zeros((1, 1, 1))} for i in range(depth)}
    }


@pytest.mark.parametrize("scan", [False, True])
def test_layer_keys_are_folded_from_the_layers_number(scan):
    key, x = jax.random.key(3), jnp.zeros((1, 2, 4))
    out, _ = _encoder(3, scan=scan).apply(_zeros(3), x, LAYOUT, dropout_key=key)
    expected = sum(
        jax.random.normal(jax.random.fold_in(key, index), x.shape) for index in range(3)
    )
    np.testing.assert_allclose(out, expected, rtol=1e-6)


@pytest.mark.parametrize("scan", [False, True])
def test_stochastic_depth_rises_linearly_from_zero(scan):
    encoder = _encoder(4, stochastic_depth=0.3, scan=scan)
    out, layers = encoder.apply(
        _zeros(4), jnp.zeros((1, 1, 1)), LAYOUT, with_layers=True
    )
    np.testing.assert_allclose(out, 0 + 0.1 + 0.2 + 0.3, rtol=1e-6)
    rates = [float(layer.tokens[0, 0, 0]) for layer in layers]
    np.testing.assert_allclose(rates, np.cumsum([0, 0.1, 0.2, 0.3]), rtol=1e-6)
    out, _ = _encoder(1, stochastic_depth=0.3).apply(
        _zeros(1), jnp.zeros((1, 1, 1)), LAYOUT
    )
    assert float(out[0, 0, 0]) == 0


def test_first_weights_come_from_the_layers_number_alone():
    def weights(depth, period):
        encoder = Encoder((Template(Noise()),) * period, depth, norm=None)
        params = encoder.init(jax.random.key(0), jnp.zeros((1, 2, 4)), LAYOUT)["params"]
        return [float(params[f"block_{i}"]["kernel"][0, 0, 0]) for i in range(depth)]

    assert len(set(weights(6, 1))) == 6
    assert weights(6, 1) == weights(6, 3)
    assert weights(6, 1)[:4] == weights(4, 1)


def test_missing_layer_is_named():
    with pytest.raises(
        ValueError, match="must have 4 encoder blocks.*block_3 is missing"
    ):
        _encoder(4).apply(_zeros(3), jnp.zeros((1, 2, 4)), LAYOUT)


def _model(**options):
    return vit_jax.create_model(
        "cifar10_tiny",
        width=32,
        num_heads=2,
        mlp_dim=48,
        stochastic_depth=0.2,
        **{"position": "learned_1d", "window_size": 2, "global_every": 2, **options},
    )


FORMS = [
    pytest.param({"scan": True}, marks=pytest.mark.slow),
    pytest.param({"remat": "full"}, marks=pytest.mark.slow),
    {"scan": True, "remat": "dots"},
]


def _train(model):
    """Losses of ten steps with dropout, the first gradient and the last parameters."""
    optimizer = optax.adam(1e-3)
    labels = jnp.arange(4)

    def loss_of(params, step):
        rngs = {"dropout": jax.random.fold_in(jax.random.key(5), step)}
        logits = model.apply({"params": params}, IMAGES, train=True, rngs=rngs)
        losses = optax.softmax_cross_entropy_with_integer_labels(logits, labels)
        return losses.mean()

    @jax.jit
    def step(carry, index):
        params, state = carry
        loss, gradient = jax.value_and_grad(loss_of)(params, index)
        updates, state = optimizer.update(gradient, state)
        return (optax.apply_updates(params, updates), state), loss, gradient

    params = redraw(jax.eval_shape(model.init, jax.random.key(0), IMAGES)["params"])
    carry, losses, first = (params, optimizer.init(params)), [], None
    for index in range(10):
        carry, loss, gradient = step(carry, index)
        losses.append(float(loss))
        first = gradient if first is None else first
    return losses, trees.flatten(first), trees.flatten(carry[0])


@pytest.fixture(scope="module")
def plain_run():
    return _train(_model())


@pytest.mark.parametrize("form", FORMS)
def test_scan_and_remat_change_no_loss_gradient_or_parameter(form, plain_run):
    losses, gradient, params = plain_run
    assert losses[-1] < losses[0]
    other_losses, other_gradient, other_params = _train(_model(**form))
    np.testing.assert_allclose(other_losses, losses, rtol=1e-5)
    assert other_params.keys() == params.keys()
    for name in params:
        np.testing.assert_allclose(
            other_gradient[name], gradient[name], atol=1e-6, err_msg=name
        )
        if not name.endswith("key/bias"):  # Adam blows up its rounding noise
            np.testing.assert_allclose(
                other_params[name], params[name], atol=1e-5, err_msg=name
            )


@pytest.mark.slow
def test_scan_keeps_names_and_first_values():
    one, other = (
        trees.flatten(jax.jit(model.init)(jax.random.key(0), IMAGES)["params"])
        for model in (_model(depth=2), _model(depth=2, scan=True))
    )
    assert list(one) == list(other)
    for name, leaf in one.items():
        np.testing.assert_array_equal(other[name], leaf, err_msg=name)
