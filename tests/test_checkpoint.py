"""Saving and restoring, whole and damaged checkpoints."""

import contextlib
import errno
import resource
import shutil
import time

import jax
import jax.numpy as jnp
import numpy as np
import optax
import orbax.checkpoint as ocp
import pytest
from jax.sharding import NamedSharding, PartitionSpec

from vit_jax import processes
from vit_jax.checkpoint import (
    Checkpoints,
    DamagedCheckpoint,
    SaveFailed,
    StorageAway,
    complete_steps,
    reading,
    restore,
    restore_params,
    set_aside,
)


def trees(value=1.0):
    """A checkpoint's items."""
    params = {"a": {"kernel": jnp.full((16, 4), value)}, "b": jnp.arange(3.0)}
    opt_state = optax.adam(1e-3, mu_dtype=jnp.bfloat16).init(params)
    return {
        "params": params,
        "training": {"step": jnp.int32(7), "opt_state": opt_state},
    }


def abstract(tree, sharding=None):
    return jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding),
        tree,
    )


def save(folder, *steps, keep=5):
    checkpoints = Checkpoints(folder, keep=keep)
    for step in steps:
        checkpoints.save(step, trees(float(step)))
    checkpoints.close()


def test_restore_gives_back_values_types_and_named_tuples(tmp_path):
    save(tmp_path, 7)
    items = trees(7.0)
    found = restore(tmp_path, 7, abstract(items))
    assert jax.tree.structure(found) == jax.tree.structure(items)
    for ours, theirs in zip(
        jax.tree.leaves(found), jax.tree.leaves(items), strict=True
    ):
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)


def test_restore_places_arrays_on_another_mesh(tmp_path):
    mesh = jax.make_mesh((8,), ("data",))
    split = NamedSharding(mesh, PartitionSpec("data"))
    kernel = jax.device_put(jnp.arange(64.0).reshape(16, 4), split)
    checkpoints = Checkpoints(tmp_path, keep=1)
    checkpoints.save(1, {"params": {"kernel": kernel}})
    checkpoints.close()
    _, found = restore_params(tmp_path, abstract({"kernel": kernel}))
    assert found["kernel"].sharding.device_set == {jax.devices()[0]}
    np.testing.assert_array_equal(found["kernel"], kernel)


def test_only_the_newest_stay(tmp_path):
    save(tmp_path, 1, 2, 3, 4, keep=2)
    assert complete_steps(tmp_path) == [3, 4]


def test_weights_are_read_without_the_optimizer(tmp_path):
    save(tmp_path, 3, 5)
    step, params = restore_params(tmp_path, abstract(trees()["params"]))
    assert step == 5
    assert float(params["a"]["kernel"][0, 0]) == 5.0


@pytest.mark.parametrize("content", [None, "file"])
def test_a_half_written_step_does_not_count_and_can_be_saved_again(tmp_path, content):
    save(tmp_path, 1)
    (tmp_path / "2").mkdir()
    if content:
        (tmp_path / "2" / "params").write_text(content)
    assert complete_steps(tmp_path) == [1]
    save(tmp_path, 2)
    assert complete_steps(tmp_path) == [1, 2]


def test_a_folder_without_checkpoints_has_no_steps(tmp_path):
    assert complete_steps(tmp_path / "absent") == []
    with pytest.raises(FileNotFoundError, match="holds no complete checkpoint"):
        restore_params(tmp_path, {})


def test_a_copied_checkpoint_restores(tmp_path):
    save(tmp_path / "here", 4)
    shutil.copytree(tmp_path / "here", tmp_path / "there")
    assert restore_params(tmp_path / "there", abstract(trees()["params"]))[0] == 4


def test_a_truncated_file_is_refused_with_the_step_named(tmp_path):
    save(tmp_path, 1, 2)
    items = abstract(trees())
    for name in ("_METADATA", "manifest.ocdbt"):
        file = tmp_path / "2" / "training" / name
        whole = file.read_bytes()
        file.write_bytes(whole[: len(whole) // 2])
        with pytest.raises(
            DamagedCheckpoint, match=rf"{tmp_path}/2 is damaged.*go on from step 1"
        ):
            restore(tmp_path, 2, items)
        file.write_bytes(whole)
    restore(tmp_path, 1, items)


def test_another_models_checkpoint_is_refused_by_name_and_shape(tmp_path):
    save(tmp_path, 1)
    other = {"a": {"kernel": jnp.zeros((16, 8))}, "c": trees()["params"]["b"]}
    with pytest.raises(ValueError, match=r"a/kernel: \(16, 4\) in the checkpoint"):
        restore_params(tmp_path, abstract(other))
    with pytest.raises(ValueError, match=r"c: absent in the checkpoint"):
        restore_params(tmp_path, abstract(other))


def test_another_optimizers_state_is_told_from_another_model(tmp_path):
    save(tmp_path, 1)
    items = trees()
    moments = optax.sgd(0.1, momentum=0.9).init(items["params"])
    other = {"training": items["training"] | {"opt_state": moments}}
    with pytest.raises(ValueError, match="holds another optimizer state"):
        restore(tmp_path, 1, abstract(other))


def test_what_is_no_damage_is_not_called_so(tmp_path, monkeypatch):
    save(tmp_path, 1)

    def refuse(self, *arguments, **keywords):
        raise PermissionError("locked")

    monkeypatch.setattr("orbax.checkpoint.StandardCheckpointer.restore", refuse)
    with pytest.raises(PermissionError, match="locked"):
        restore_params(tmp_path, abstract(trees()["params"]))


@contextlib.contextmanager
def room_for(size):
    """A context in which no file may grow beyond `size` bytes, as on a full disk."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def large(value):
    """More than a megabyte that doesn't compress."""
    numbers = np.random.default_rng(0).normal(size=300_000).astype(np.float32)
    return {"params": {"a": jnp.asarray(numbers + value)}}


def test_a_save_that_fails_in_the_background_is_raised_with_its_step(tmp_path):
    checkpoints = Checkpoints(tmp_path, keep=1)
    checkpoints.save(1, large(1.0))
    checkpoints.wait()
    words = r"checkpoint of step 2 .* the disk is full; checkpoints/1 before it is whol"
    with room_for(200_000):
        checkpoints.save(2, large(2.0))
        deadline = time.monotonic() + 30
        with pytest.raises(SaveFailed, match=words):
            while time.monotonic() < deadline:
                checkpoints.check()
                time.sleep(0.01)
    checkpoints.close()
    assert complete_steps(tmp_path) == [1]
    found = restore(tmp_path, 1, abstract(large(1.0)))
    np.testing.assert_array_equal(found["params"]["a"], large(1.0)["params"]["a"])
    save(tmp_path, 2)
    assert complete_steps(tmp_path) == [1, 2]


def test_a_save_that_fails_is_raised_at_exit(tmp_path):
    checkpoints = Checkpoints(tmp_path, keep=1)
    with room_for(200_000):
        checkpoints.save(1, large(1.0))
        with pytest.raises(SaveFailed, match="of step 1 .* there is none before it"):
            checkpoints.close()


def test_a_save_into_a_folder_that_is_gone_is_raised(tmp_path):
    checkpoints = Checkpoints(tmp_path / "here", keep=1)
    shutil.rmtree(tmp_path / "here")
    (tmp_path / "here").write_text("in the way")
    with pytest.raises(SaveFailed, match="of step 1 can't be written"):
        checkpoints.save(1, trees())
        checkpoints.wait()
    checkpoints.close()


def test_a_step_set_aside_is_kept_under_another_name(tmp_path):
    save(tmp_path, 1, 2)
    aside = set_aside(tmp_path, 2, "damaged")
    assert aside.name.startswith("2.damaged-")
    assert (aside / "params").exists()
    assert complete_steps(tmp_path) == [1]


@pytest.fixture
def failing(monkeypatch):
    """Errors that the next restores raise, one each, before they work again."""
    errors, restore_ = [], ocp.StandardCheckpointer.restore

    def restore(self, *arguments):
        if errors:
            raise errors.pop(0)
        return restore_(self, *arguments)

    monkeypatch.setattr(ocp.StandardCheckpointer, "restore", restore)
    monkeypatch.setattr(reading, "_SECOND_TRY_SECONDS", 0.0)
    return errors


AWAY = [
    OSError(errno.EIO, "Input/output error"),
    TimeoutError("no answer"),
    ConnectionResetError("reset by peer"),
    ValueError("UNAVAILABLE: the store is closed"),
]


@pytest.mark.parametrize("error", AWAY, ids=lambda error: type(error).__name__)
def test_storage_that_is_away_is_tried_twice_and_is_no_damage(tmp_path, failing, error):
    save(tmp_path, 1)
    items = abstract({"params": trees()["params"]})
    failing.append(error)
    assert "a" in restore(tmp_path, 1, items)["params"]
    failing += [error, error]
    with pytest.raises(StorageAway, match=f"{tmp_path}/1 can't be read now: its param"):
        restore(tmp_path, 1, items)
    failing += [error, ValueError("bad magic")]
    with pytest.raises(DamagedCheckpoint, match="bad magic"):
        restore(tmp_path, 1, items)
    assert complete_steps(tmp_path) == [1]


def test_process_0_alone_sets_half_written_steps_aside(tmp_path, monkeypatch):
    (tmp_path / "2").mkdir()
    monkeypatch.setattr(processes, "lead", lambda act, failed: None)
    Checkpoints(tmp_path, keep=1).close()
    assert (tmp_path / "2").exists()
    monkeypatch.undo()
    Checkpoints(tmp_path, keep=1).close()
    assert not (tmp_path / "2").exists()


def test_a_typed_key_comes_back_as_it_was(tmp_path):
    items = {"training": {"key": jax.random.key(7), "raw": jax.random.PRNGKey(7)}}
    checkpoints = Checkpoints(tmp_path, keep=1)
    checkpoints.save(1, items)
    checkpoints.close()
    found = restore(tmp_path, 1, abstract(items))["training"]
    assert found["key"].dtype == items["training"]["key"].dtype
    np.testing.assert_array_equal(
        jax.random.key_data(found["key"]), items["training"]["raw"]
    )
    np.testing.assert_array_equal(found["raw"], items["training"]["raw"])
