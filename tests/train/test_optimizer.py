"""The optimizer chain against torch, timm and known values."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import vit_jax
from vit_jax import trees
from vit_jax.train.layer_decay import layer_multipliers
from vit_jax.train.optimizer import CONVENTIONS, make_optimizer, trained_mask

torch = pytest.importorskip("torch")

NAMES = ("kernel", "bias")
DECAYED = 0.1


def drawn(seed):
    return np.random.default_rng(seed).normal(size=(4, 3)).astype(np.float32)


def ours(steps, rate, **arguments):
    """A kernel and a bias after so many steps."""
    params = {name: jnp.asarray(drawn(n)) for n, name in enumerate(NAMES)}
    optimizer = make_optimizer(lambda step: rate, params, peak=rate, **arguments)
    state = optimizer.init(params)
    for step in range(steps):
        gradients = {
            name: jnp.asarray(drawn(10 + 2 * step + n)) for n, name in enumerate(NAMES)
        }
        updates, state = optimizer.update(gradients, state, params, step=step)
        params = optax.apply_updates(params, updates)
    return [np.asarray(params[name]) for name in NAMES]


def theirs(steps, make):
    tensors = [torch.nn.Parameter(torch.tensor(drawn(n))) for n in range(2)]
    kernel, bias = tensors
    decayed = {"params": [kernel], "weight_decay": DECAYED}
    optimizer = make([decayed, {"params": [bias], "weight_decay": 0.0}])
    for step in range(steps):
        for n, tensor in enumerate(tensors):
            tensor.grad = torch.tensor(drawn(10 + 2 * step + n))
        optimizer.step()
    return [tensor.detach().numpy() for tensor in tensors]


def assert_equal(found, expected):
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_adamw_steps_equal_torchs():
    found = ours(3, 1e-2, name="adamw", weight_decay=DECAYED)
    assert_equal(found, theirs(3, lambda groups: torch.optim.AdamW(groups, lr=1e-2)))


def test_adam_steps_with_decay_in_the_gradient_equal_torchs():
    found = ours(3, 1e-2, name="adam", weight_decay=DECAYED)
    assert_equal(found, theirs(3, lambda groups: torch.optim.Adam(groups, lr=1e-2)))


@pytest.mark.parametrize("convention", [None, "gradient"])
def test_sgd_steps_with_decay_in_the_gradient_equal_torchs(convention):
    found = ours(3, 1e-2, name="sgd", weight_decay=DECAYED, decay_convention=convention)
    expected = theirs(3, lambda groups: torch.optim.SGD(groups, lr=1e-2, momentum=0.9))
    assert_equal(found, expected)


def test_lamb_steps_equal_timms():
    optim = pytest.importorskip("timm.optim")
    found = ours(3, 1e-2, name="lamb", weight_decay=DECAYED, epsilon=1e-6)
    expected = theirs(
        3, lambda groups: optim.Lamb(groups, lr=1e-2, eps=1e-6, max_grad_norm=None)
    )
    assert_equal(found, expected)


def test_the_gradient_is_clipped_to_its_global_norm():
    found, _ = ours(1, 1.0, name="sgd", clip_norm=0.5)
    norm = np.linalg.norm([drawn(10), drawn(11)])
    np.testing.assert_allclose(found, drawn(0) - drawn(10) * 0.5 / norm, atol=1e-6)


@pytest.mark.parametrize("name", CONVENTIONS)
def test_moments_in_bfloat16_stay_so_and_weights_stay_float32(name):
    params = {"kernel": jnp.ones((4, 3))}
    optimizer = make_optimizer(
        lambda step: 0.1, params, name=name, peak=0.1, moment_dtype="bfloat16"
    )
    state = optimizer.init(params)
    shapes = jax.eval_shape(lambda: state)
    for step in range(3):
        updates, state = optimizer.update(params, state, params, step=step)
        params = optax.apply_updates(params, updates)
    assert jax.eval_shape(lambda: state) == shapes
    moments = [leaf for leaf in jax.tree.leaves(state) if leaf.ndim]
    dtypes = {leaf.dtype.name for leaf in moments}
    assert dtypes == ({"bfloat16"} if name == "sgd" else {"bfloat16", "float32"})
    assert params["kernel"].dtype == jnp.float32


@pytest.fixture(scope="module")
def weights():
    model = vit_jax.create_model(
        "Ti/16", depth=2, width=8, num_heads=2, mlp_dim=8, num_classes=3
    )
    params = jax.jit(model.init)(jax.random.key(0), jnp.ones((1, 32, 32, 3)))["params"]
    return jax.tree.map(lambda leaf: leaf + 1.0, params)


def shrunk(params, **arguments):
    """Name -> by what a step without gradient multiplies a parameter."""
    values = {"name": "adamw", "weight_decay": 0.1, "peak": 1e-3} | arguments
    optimizer = make_optimizer(lambda step: 1e-3, params, **values)
    zeros = jax.tree.map(jnp.zeros_like, params)
    updates, _ = optimizer.update(zeros, optimizer.init(params), params, step=0)
    after = trees.flatten(optax.apply_updates(params, updates))
    before = trees.flatten(params)
    return {name: np.mean(after[name] / before[name]) for name in before}


def moved(params, gradient=1.0, name="sgd", **arguments):
    """Name -> how far plain gradient descent of rate 1 moves a parameter."""
    optimizer = make_optimizer(
        lambda step: 1.0, params, name=name, momentum=0.0, peak=1.0, **arguments
    )
    gradients = jax.tree.map(lambda leaf: jnp.full_like(leaf, gradient), params)
    updates, _ = optimizer.update(gradients, optimizer.init(params), params, step=0)
    return {name: -np.mean(leaf) for name, leaf in trees.flatten(updates).items()}


@pytest.mark.parametrize(
    "arguments",
    [{}, {"weight_decay": 1e-4, "decay_convention": "independent"}],
)
def test_both_conventions_shrink_all_kernels_alike_and_nothing_else(weights, arguments):
    factors = shrunk(weights, **arguments)
    decayed = {name for name, factor in factors.items() if factor != 1}
    assert decayed == {name for name in factors if name.endswith("kernel")}
    assert len(decayed) == 14  # stem, head, and query, key, value, out, MLP of two
    for name in decayed:
        np.testing.assert_allclose(factors[name], 0.9999, rtol=1e-6)


def test_only_decay_times_the_rate_follows_the_peak():
    for convention, expected in (("times_rate", 0.99), ("independent", 0.9)):
        params = {"kernel": jnp.ones((2, 2))}
        optimizer = make_optimizer(
            lambda step: 0.1,
            params,
            name="adamw",
            peak=0.1,
            weight_decay=0.1,
            decay_convention=convention,
        )
        zeros = jax.tree.map(jnp.zeros_like, params)
        updates, _ = optimizer.update(zeros, optimizer.init(params), params, step=0)
        np.testing.assert_allclose(1 + updates["kernel"], expected, rtol=1e-6)


def test_layer_decay_falls_from_the_head_to_the_stem(weights):
    steps = moved(weights, layer_decay=0.5)
    assert steps["head/kernel"] == steps["encoder/norm/scale"] == 1
    assert steps["encoder/block_1/mlp/out/bias"] == 0.5
    assert steps["encoder/block_0/attention/query/kernel"] == 0.25
    for name in ("stem/projection/kernel", "prefix/class_token", "position/table"):
        assert steps[name] == 0.125


def test_layer_decay_groups_parameters_as_timm_does_but_for_the_last_norm(weights):
    timm = pytest.importorskip("timm")
    optim = pytest.importorskip("timm.optim")
    theirs = timm.models.VisionTransformer(
        img_size=32, patch_size=16, embed_dim=8, depth=2, num_heads=2, num_classes=3
    )
    groups = optim.param_groups_layer_decay(theirs, layer_decay=0.5)
    scales = {id(one): row["lr_scale"] for row in groups for one in row["params"]}
    names = {
        "cls_token": "prefix/",
        "pos_embed": "position/",
        "patch_embed.": "stem/",
        "blocks.0.": "encoder/block_0/",
        "blocks.1.": "encoder/block_1/",
        "head.": "head/",
    }
    found = trees.flatten(layer_multipliers(weights, 0.5))
    for prefix, ours in names.items():
        expected = {
            scales[id(tensor)]
            for name, tensor in theirs.named_parameters()
            if name.startswith(prefix)
        }
        assert expected
        assert {found[name] for name in found if name.startswith(ours)} == expected
    # Before a class token's head timm's norm goes with the last block; in BEiT, MAE and
    # here with the head.
    rest = {name for name in found if not name.startswith(tuple(names.values()))}
    assert rest == {"encoder/norm/scale", "encoder/norm/bias"}
    assert {found[name] for name in rest} == {1.0}
    assert scales[id(theirs.norm.weight)] == 0.5


def test_layer_decay_scales_decay_times_the_rate_but_not_independent_decay(weights):
    values = {"layer_decay": 0.5, "weight_decay": 1.0}
    name = "encoder/block_1/mlp/out/kernel"
    np.testing.assert_allclose(shrunk(weights, **values)[name], 0.9995, rtol=1e-6)
    values |= {"decay_convention": "independent", "weight_decay": 1e-3}
    np.testing.assert_allclose(shrunk(weights, **values)[name], 0.999, rtol=1e-6)


def test_the_first_rule_that_matches_sets_the_rate(weights):
    rules = (("head/bias", 3.0), ("head/.*", 2.0), (".*/block_0/.*", 0.0))
    steps = moved(weights, rate_multipliers=rules)
    assert (steps["head/bias"], steps["head/kernel"]) == (3, 2)
    assert steps["encoder/block_0/mlp/out/kernel"] == 0
    assert steps["encoder/block_1/mlp/out/kernel"] == 1


def test_rules_of_decay_come_before_the_one_for_kernels(weights):
    rules = (("head/kernel", 100.0), ("position/table", 1.0), ("stem/.*", 0.0))
    factors = shrunk(weights, decay_multipliers=rules)
    np.testing.assert_allclose(factors["head/kernel"], 0.99, rtol=1e-6)
    np.testing.assert_allclose(factors["position/table"], 0.9999, rtol=1e-6)
    np.testing.assert_allclose(
        factors["encoder/block_0/mlp/out/kernel"], 0.9999, rtol=1e-6
    )
    assert factors["stem/projection/kernel"] == factors["head/bias"] == 1


@pytest.mark.parametrize("name", CONVENTIONS)
def test_frozen_parameters_keep_every_bit_and_have_no_moments(weights, name):
    freeze = ("(?!head/).*",)
    optimizer = make_optimizer(
        lambda step: 0.1, weights, name=name, peak=0.1, weight_decay=0.1, freeze=freeze
    )
    params, state = weights, optimizer.init(weights)
    held = {tuple(leaf.shape) for leaf in jax.tree.leaves(state)}
    assert held == ({(8, 3), (3,)} if name == "sgd" else {(), (8, 3), (3,)})
    for step in range(5):
        updates, state = optimizer.update(weights, state, params, step=step)
        params = optax.apply_updates(params, updates)
    before, after = trees.flatten(weights), trees.flatten(params)
    changed = {n for n in before if before[n].tobytes() != after[n].tobytes()}
    assert changed == {"head/kernel", "head/bias"}


def test_frozen_gradients_do_not_count_for_clipping(weights):
    size = np.sqrt(8 * 3 + 3)
    steps = moved(weights, 1.0, clip_norm=size / 2, freeze=("(?!head/).*",))
    np.testing.assert_allclose(steps["head/kernel"], 0.5, rtol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"freeze": ("haed/.*",)}, r"train\.freeze: pattern 'haed/\.\*' matches none"),
        ({"freeze": (".*",)}, r"train\.freeze=\.\* freezes every parameter"),
        (
            {"rate_multipliers": (("haed", 2.0),)},
            r"optimizer\.rate_multipliers: pattern 'haed' matches none",
        ),
        (
            {"decay_multipliers": (("haed", 2.0),)},
            r"optimizer\.decay_multipliers: pattern 'haed' matches none",
        ),
        ({"decay_convention": "gradient"}, "does not go with optimizer.name=adamw"),
        (
            {"decay_convention": "independent", "peak": 0.0},
            "needs a schedule.base_learning_rate above 0",
        ),
    ],
)
def test_rules_that_can_not_hold_are_refused(weights, arguments, message):
    with pytest.raises(ValueError, match=message):
        make_optimizer(
            lambda step: 0.1, weights, **({"name": "adamw", "peak": 0.1} | arguments)
        )


def test_layer_decay_without_encoder_blocks_is_refused():
    with pytest.raises(ValueError, match=r"optimizer\.layer_decay=0\.5 needs a model"):
        moved({"kernel": jnp.ones((2, 2))}, layer_decay=0.5)


def test_the_mask_of_trained_parameters_names_what_is_not_frozen(weights):
    mask = trees.flatten(trained_mask(weights, ("encoder/.*", "stem/.*")))
    live = {name for name, value in mask.items() if value}
    assert live == {"head/kernel", "head/bias", "position/table", "prefix/class_token"}


def test_the_rate_is_that_of_the_step_that_update_is_told():
    params = {"kernel": jnp.zeros((2, 2))}
    optimizer = make_optimizer(
        lambda step: step / 10, params, name="sgd", momentum=0.0, peak=1.0
    )
    state = optimizer.init(params)
    ones = jax.tree.map(jnp.ones_like, params)
    for step in (3, 7):
        updates, state = optimizer.update(ones, state, params, step=step)
        np.testing.assert_allclose(updates["kernel"], -step / 10, rtol=1e-6)


def test_without_any_decay_lamb_adapts_nothing_and_is_adam(weights):
    lamb, adam = (moved(weights, 0.1, name=name) for name in ("lamb", "adamw"))
    for name, value in lamb.items():
        np.testing.assert_array_equal(value, adam[name])
    doubled = jax.tree.map(lambda leaf: 2 * leaf, weights)
    adapted = moved(doubled, 0.1, name="lamb", weight_decay=1e-6)
    assert not np.allclose(adapted["head/kernel"], lamb["head/kernel"], rtol=0.1)


def test_independent_decay_follows_the_schedule_without_the_batch_of_a_stage():
    params = {"kernel": jnp.full((2, 2), 8.0)}
    optimizer = make_optimizer(
        lambda step: 2.0 / (1 + step),
        params,
        name="sgd",
        peak=1.0,
        weight_decay=0.1,
        decay_convention="independent",
        decay_schedule=lambda step: 1.0 / (1 + step),
    )
    state = optimizer.init(params)
    zeros = jax.tree.map(jnp.zeros_like, params)
    for step in (0, 1):
        updates, state = optimizer.update(zeros, state, params, step=step)
        np.testing.assert_allclose(updates["kernel"], -0.8 / (1 + step), rtol=1e-6)
