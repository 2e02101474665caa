"""Tests vit_jax/convert/rules.py and layers.py: the engine and its atoms."""

import numpy as np
import pytest

from vit_jax.convert import layers
from vit_jax.convert.rules import Rule, folds, foreign_shapes, to_ours, to_theirs

TABLE = [
    *layers.dense("head", "fc"),
    *layers.fused_heads("attention", "qkv.weight", 3, "qkv.bias"),
    *layers.out_projection("attention/out", "proj", 3),
    *layers.conv("stem", "conv"),
    *layers.norm("norm", "ln"),
    *layers.packed(("mlp/gate", "mlp/hidden"), "w12"),
]
SHAPES = {
    "head/kernel": (6, 2),
    "head/bias": (2,),
    **{f"attention/{p}/kernel": (6, 3, 2) for p in ("query", "key", "value")},
    **{f"attention/{p}/bias": (3, 2) for p in ("query", "key", "value")},
    "attention/out/kernel": (3, 2, 6),
    "attention/out/bias": (6,),
    "stem/kernel": (4, 5, 3, 6),
    "stem/bias": (6,),
    "norm/scale": (6,),
    "norm/bias": (6,),
    "mlp/gate/kernel": (6, 8),
    "mlp/gate/bias": (8,),
    "mlp/hidden/kernel": (6, 8),
    "mlp/hidden/bias": (8,),
}


def drawn(shapes=SHAPES, dtype=np.float32):
    rng = np.random.default_rng(0)
    return {n: rng.normal(size=s).astype(dtype) for n, s in shapes.items()}


def test_there_and_back_is_bit_exact_and_shares_no_memory():
    """Case 34: a round trip."""
    for dtype in (np.float32, np.float16, np.float64):
        ours = drawn(dtype=dtype)
        theirs = to_theirs(TABLE, ours, layout="x")
        back = to_ours(TABLE, theirs, SHAPES, source="x")
        assert back.keys() == ours.keys()
        for name, array in ours.items():
            assert back[name].dtype == dtype and back[name].flags.c_contiguous
            np.testing.assert_array_equal(back[name], array)
            assert not np.shares_memory(back[name], array)
        for array in theirs.values():
            assert array.flags.c_contiguous and array.flags.owndata
            assert not any(np.shares_memory(array, other) for other in ours.values())


def test_arrays_that_nobody_else_has_are_taken_over_if_they_stay_as_they_are():
    theirs = to_theirs(TABLE, drawn(), layout="x")
    large = np.zeros((2, 6), "f")
    theirs["ln.weight"] = large[1]
    back = to_ours(TABLE, theirs, SHAPES, source="x", take=True)
    assert back["norm/bias"] is theirs["ln.bias"]
    # A part would hold all of the larger array.
    assert not np.shares_memory(back["norm/scale"], large)
    assert not np.shares_memory(back["head/kernel"], theirs["fc.weight"])


def test_atoms_compute_what_torchs_layers_do():
    ours = drawn()
    theirs = to_theirs(TABLE, ours, layout="x")
    x = np.random.default_rng(1).normal(size=(4, 6)).astype("f")
    query, key, value = np.split(x @ theirs["qkv.weight"].T + theirs["qkv.bias"], 3, 1)
    for name, found in zip(("query", "key", "value"), (query, key, value), strict=True):
        kernel, bias = (ours[f"attention/{name}/{leaf}"] for leaf in ("kernel", "bias"))
        expected = np.einsum("nd,dhk->nhk", x, kernel) + bias
        np.testing.assert_allclose(found.reshape(4, 3, 2), expected, atol=1e-5)
    joined = query @ theirs["proj.weight"].T
    expected = np.einsum(
        "nhk,hkd->nd", query.reshape(4, 3, 2), ours["attention/out/kernel"]
    )
    np.testing.assert_allclose(joined, expected, atol=1e-5)


def test_query_scale_is_folded_and_said():
    table = layers.fused_heads("a", "w", 2, "b", query_scale=0.5)
    theirs = {"w": np.ones((12, 4), "f"), "b": np.ones(12, "f")}
    shapes = {f"a/{p}/kernel": (4, 2, 2) for p in ("query", "key", "value")}
    shapes |= {f"a/{p}/bias": (2, 2) for p in ("query", "key", "value")}
    ours = to_ours(table, theirs, shapes, source="x")
    assert (ours["a/query/kernel"] == 0.5).all() and (ours["a/query/bias"] == 0.5).all()
    assert (ours["a/key/kernel"] == 1).all() and (ours["a/value/bias"] == 1).all()
    back = to_theirs(table, ours, layout="x")
    np.testing.assert_array_equal(back["w"], theirs["w"])
    assert folds(table) == ["the softmax scale is folded into the query"]
    assert folds(TABLE) == []


@pytest.mark.parametrize("channels_first", [False, True])
def test_flat_patches_multiply_as_a_convolution(channels_first):
    table = layers.flat_patches("stem", "fc", 2, channels_first=channels_first)
    ours = drawn({"stem/kernel": (2, 2, 3, 5), "stem/bias": (5,)})
    theirs = to_theirs(table, ours, layout="x")
    patch = np.random.default_rng(2).normal(size=(2, 2, 3)).astype("f")
    flat = (patch.transpose(2, 0, 1) if channels_first else patch).reshape(-1)
    expected = np.einsum("yxc,yxcd->d", patch, ours["stem/kernel"])
    np.testing.assert_allclose(theirs["fc.weight"] @ flat, expected, atol=1e-5)
    shapes = {name: array.shape for name, array in ours.items()}
    back = to_ours(table, theirs, shapes, source="x")
    np.testing.assert_array_equal(back["stem/kernel"], ours["stem/kernel"])


def test_all_faults_of_a_file_come_in_one_list():
    theirs = to_theirs(TABLE, drawn(), layout="x")
    theirs["foo.bar"] = np.zeros(3)
    del theirs["proj.bias"]
    theirs["fc.weight"] = np.zeros((2, 7))
    with pytest.raises(ValueError, match=r"model.pth does not fit .*\(3 faults\)") as e:
        to_ours(TABLE, theirs, SHAPES, source="model.pth")
    text = str(e.value)
    assert "foo.bar: no place in the model, [3]" in text
    assert "proj.bias: missing, must be [6]" in text
    assert "fc.weight: [2, 7], must be [2, 6]" in text


def test_long_lists_are_cut():
    with pytest.raises(ValueError, match=r"(?s)\(30 faults\).*and 18 more"):
        theirs = {f"x{i}": np.zeros(1) for i in range(30)}
        to_ours(TABLE[:0], theirs | {}, {}, source="x")


def test_a_table_that_does_not_cover_the_model_is_refused():
    ours = drawn() | {"extra/gamma": np.zeros(3)}
    with pytest.raises(ValueError, match="extra/gamma: the layout has no place for it"):
        to_theirs(TABLE, ours, layout="timm")
    del ours["extra/gamma"], ours["norm/bias"]
    with pytest.raises(ValueError, match="norm/bias: the layout needs it"):
        to_theirs(TABLE, ours, layout="timm")


def test_names_matched_twice_are_refused():
    twice = [*TABLE, layers.same("head/bias", "other"), layers.same("o", "fc.bias")]
    with pytest.raises(ValueError, match=r"(?s)head/bias: matched twice.*fc.bias: mat"):
        to_ours(twice, {}, SHAPES | {"o": (2,)}, source="x")


def test_foreign_shapes_need_no_arrays():
    shapes = foreign_shapes(TABLE, SHAPES)
    assert shapes["qkv.weight"] == (18, 6) and shapes["conv.weight"] == (6, 3, 4, 5)


def test_rules_may_add_what_only_they_have():
    table = [Rule((), ("mask",), lambda _: [np.zeros(2)], lambda _: [], "a mask")]
    assert to_theirs(table, {}, layout="x")["mask"].shape == (2,)
    assert to_ours(table, {"mask": np.zeros(2)}, {}, source="x") == {}
    assert folds(table) == ["a mask"]
