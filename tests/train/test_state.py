"""States: made where they lie, from one trace of the model."""

import dataclasses

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vit_jax.train import mesh as meshes
from vit_jax.train.optimizer import make_optimizer
from vit_jax.train.saving import items_of
from vit_jax.train.state import abstract_state, create_state, make_init, placed

TRACES = []


class Small(nn.Module):
    """One dense layer on pixels; notes when it is traced."""

    @nn.compact
    def __call__(self, images):
        TRACES.append(images.shape)
        return nn.Dense(8, name="head")(images.reshape(images.shape[0], -1))


def parts(*, ema=False, **axes):
    init = make_init(Small(), (2, 2, 1))
    params = jax.eval_shape(init, jax.random.key(0))
    optimizer = make_optimizer(lambda step: 0.1, params, name="adamw", peak=0.1)
    mesh = meshes.make_mesh(**({"data": -1, "fsdp": 1, "tensor": 1} | axes))
    return init, optimizer, abstract_state(params, optimizer, mesh, ema=ema)


def test_the_model_is_traced_once_for_shapes_and_weights():
    TRACES.clear()
    create_state(*parts(), seed=0)
    assert TRACES == [(1, 2, 2, 1)]


@pytest.mark.parametrize("ema", [False, True])
def test_a_state_has_the_shapes_types_and_places_that_were_foretold(ema):
    init, optimizer, abstract = parts(ema=ema, data=2, fsdp=2, tensor=2)
    state = create_state(init, optimizer, abstract, seed=0)
    found = jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype, leaf.sharding), state)
    expected = jax.tree.map(
        lambda leaf: (leaf.shape, leaf.dtype, leaf.sharding), abstract
    )
    assert jax.tree.leaves(found) == jax.tree.leaves(expected)
    kernel = placed(abstract).params["head"]["kernel"]
    assert kernel.spec == jax.P("fsdp", "tensor")


def test_the_seed_alone_decides_the_weights():
    init, optimizer, abstract = parts()
    one, same, other = (
        create_state(init, optimizer, abstract, seed).params["head"]["kernel"]
        for seed in (1, 1, 2)
    )
    assert (one == same).all()
    assert not (one == other).all()


def test_an_average_starts_as_a_copy_of_the_weights():
    init, optimizer, abstract = parts(ema=True)
    state = create_state(init, optimizer, abstract, seed=0)
    params, average = (
        tree["head"]["kernel"] for tree in (state.params, state.ema_params)
    )
    assert (params == average).all()
    params.delete()
    assert np.isfinite(np.asarray(average)).all()


def test_evaluation_uses_the_average_where_there_is_one():
    state = create_state(*parts(ema=True), seed=0)
    assert state.eval_params is state.ema_params
    assert dataclasses.replace(state, ema_params=None).eval_params is state.params


def test_what_a_checkpoint_keeps_beside_the_weights_is_all_the_rest():
    state = create_state(*parts(), seed=0)
    rest = items_of(state)["training"]
    # The average, where there is one, has an item of its own.
    assert set(rest) == {"step", "opt_state", "nonfinite_steps"}
    assert type(state)(params=state.params, **rest) == state
    assert jnp.issubdtype(rest["step"].dtype, jnp.integer)


def test_given_weights_go_to_their_places_alone_and_become_the_states_type(monkeypatch):
    init, optimizer, abstract = parts(data=2, fsdp=2, tensor=2)
    kernel = np.arange(32, dtype=np.float32).reshape(4, 8)
    parts_read, callback = [], jax.make_array_from_callback

    def noted(shape, sharding, make):
        parts_read.append(sharding.shard_shape(shape))
        return callback(shape, sharding, make)

    monkeypatch.setattr(jax, "make_array_from_callback", noted)
    given = {"head": {"kernel": kernel.astype(jnp.bfloat16)}}
    state = create_state(init, optimizer, abstract, 0, given)
    head = state.params["head"]
    assert parts_read == [(2, 4)]
    assert head["kernel"].dtype == jnp.float32
    assert head["kernel"].sharding == abstract.params["head"]["kernel"].sharding
    np.testing.assert_array_equal(head["kernel"], kernel)
    np.testing.assert_array_equal(head["bias"], 0)
