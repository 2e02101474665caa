"""The optimizer chain against torch and known values."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import vit_jax
from vit_jax import trees
from vit_jax.train.optimizer import make_optimizer

torch = pytest.importorskip("torch")

OFF = {
    "beta1": 0.9,
    "beta2": 0.999,
    "momentum": 0.9,
    "weight_decay": 0.0,
    "clip_norm": 0.0,
}


def drawn(seed):
    return np.random.default_rng(seed).normal(size=(4, 3)).astype(np.float32)


def ours(steps, rate, **arguments):
    optimizer = make_optimizer(lambda step: rate, **(OFF | arguments))
    params = {"kernel": jnp.asarray(drawn(0))}
    state = optimizer.init(params)
    for step in range(steps):
        gradients = {"kernel": jnp.asarray(drawn(step + 1))}
        updates, state = optimizer.update(gradients, state, params)
        params = optax.apply_updates(params, updates)
    return np.asarray(params["kernel"])


def theirs(steps, make):
    tensor = torch.nn.Parameter(torch.tensor(drawn(0)))
    optimizer = make([tensor])
    for step in range(steps):
        tensor.grad = torch.tensor(drawn(step + 1))
        optimizer.step()
    return tensor.detach().numpy()


def test_adamw_steps_equal_torchs():
    found = ours(3, 1e-2, name="adamw", weight_decay=0.1)
    expected = theirs(
        3, lambda params: torch.optim.AdamW(params, lr=1e-2, weight_decay=0.1)
    )
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_sgd_steps_equal_torchs():
    found = ours(3, 1e-2, name="sgd")
    expected = theirs(3, lambda params: torch.optim.SGD(params, lr=1e-2, momentum=0.9))
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_the_gradient_is_clipped_to_its_global_norm():
    found = ours(1, 1.0, name="sgd", clip_norm=0.5)
    gradient = drawn(1)
    expected = drawn(0) - gradient * (0.5 / np.linalg.norm(gradient))
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_decay_shrinks_the_eight_kernels_of_one_block_and_nothing_else():
    model = vit_jax.create_model(
        "Ti/16", depth=1, width=8, num_heads=2, mlp_dim=8, num_classes=3
    )
    params = jax.jit(model.init)(jax.random.key(0), jnp.ones((1, 32, 32, 3)))["params"]
    params = jax.tree.map(lambda leaf: leaf + 1.0, params)
    optimizer = make_optimizer(
        lambda step: 1e-3, **(OFF | {"name": "adamw", "weight_decay": 0.1})
    )
    zeros = jax.tree.map(jnp.zeros_like, params)
    updates, _ = optimizer.update(zeros, optimizer.init(params), params)
    after = trees.flatten(optax.apply_updates(params, updates))
    before = trees.flatten(params)
    changed = {name for name in before if not (before[name] == after[name]).all()}
    assert changed == {name for name in before if name.endswith("kernel")}
    assert len(changed) == 8
    for name in changed:
        np.testing.assert_allclose(after[name], before[name] * 0.9999, rtol=1e-6)
