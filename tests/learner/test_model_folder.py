"""Model folders: what is saved comes back, and whatever is damaged is named."""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from safetensors.numpy import load_file

from blocklearn import durable
from blocklearn.learner.errors import ModelFolderError, ModelMissingError, RunFolderError
from blocklearn.learner.storage import model_folder
from blocklearn.learner.storage.model_folder import Saved, load, save
from blocklearn.learner.storage.tensor_file import read_tensors, write_tensors

WEIGHTS = np.arange(12.0, dtype=np.float32).reshape(3, 4)
NAMES = ["socket", "Straße", "日本"]


def write(path: Path, **changes: object) -> Path:
    model = {
        "kind": "lda",
        "config": {"kind": "lda", "topics": 4, "alpha": 0.1},
        "tensors": {"lambda": WEIGHTS},
        "names": NAMES,
        "row_names": ["ann", "bob", "zoë"],
        "fingerprint": "abc",
        "metrics": {"passes": 3, "perplexity": 12.5},
    }
    save(path, Saved(**(model | changes)))  # type: ignore[arg-type]
    return path


def files(path: Path) -> set[str]:
    return {file.name for file in path.iterdir()}


WRITTEN = set(model_folder.FILES) - {model_folder.HASHED}  # no column is hashed


def test_round_trip(tmp_path: Path) -> None:
    saved = load(write(tmp_path / "a" / "m"))
    assert (saved.kind, saved.fingerprint, saved.names) == ("lda", "abc", NAMES)
    assert saved.row_names == ["ann", "bob", "zoë"]
    assert saved.config == {"kind": "lda", "topics": 4, "alpha": 0.1}
    assert saved.metrics == {"passes": 3, "perplexity": 12.5}
    np.testing.assert_array_equal(saved.tensors["lambda"], WEIGHTS)
    assert saved.tensors["lambda"].flags.writeable
    assert "numpy" in saved.libraries
    assert files(tmp_path / "a" / "m") == WRITTEN
    assert files(tmp_path / "a") == {"m"}


def test_mapped_weights_are_shared_and_never_written(tmp_path: Path) -> None:
    path = write(tmp_path / "m")
    mapped = load(path, mapped="private").tensors["lambda"]
    assert not mapped.flags.owndata and mapped.flags.writeable
    mapped[:] = 7.0
    for again in (load(path), load(path, mapped=True), load(path, mapped="private")):
        np.testing.assert_array_equal(again.tensors["lambda"], WEIGHTS)
    assert not load(path, mapped=True).tensors["lambda"].flags.writeable


def test_readable_without_this_package(tmp_path: Path) -> None:
    import pyarrow as pa

    path = write(tmp_path / "m")
    np.testing.assert_array_equal(load_file(path / "weights.safetensors")["lambda"], WEIGHTS)
    with pa.ipc.open_file(str(path / "vocab.arrow")) as reader:
        assert reader.read_all().to_pydict() == {"name": NAMES}
    assert json.loads((path / "model.json").read_text())["tensors"]["lambda"]["shape"] == [3, 4]
    assert "float32 3 x 4" in (path / "README.md").read_text()


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    array=hnp.arrays(
        st.sampled_from("f2 f4 f8 >f4 i1 i2 i4 i8 >i8 u1 u4 ?".split()),
        hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5),
    ),
    order=st.sampled_from(["C", "F", "transposed", "reversed", "strided"]),
)
def test_arrays_of_any_layout(tmp_path: Path, array: np.ndarray, order: str) -> None:
    """safetensors alone stores what is not C-contiguous wrongly."""
    if order == "F":
        array = np.asfortranarray(array)
    elif order == "transposed":
        array = array.T
    elif array.ndim and order == "reversed":
        array = array[::-1]
    elif array.ndim and order == "strided":
        array = array[..., ::2]
    file = tmp_path / "weights.safetensors"
    tensors = read_tensors(file, write_tensors(file, {"a": array, "b": WEIGHTS.T}))
    assert tensors["a"].shape == array.shape
    np.testing.assert_array_equal(tensors["a"], array)
    np.testing.assert_array_equal(tensors["b"], WEIGHTS.T)


def test_numbers_that_are_not_finite(tmp_path: Path) -> None:
    odd = np.array([np.nan, np.inf, -0.0, 1e-45], np.float32)
    file = tmp_path / "weights.safetensors"
    assert read_tensors(file, write_tensors(file, {"a": odd}))["a"].tobytes() == odd.tobytes()
    saved = load(write(tmp_path / "m", metrics={"passes": 1, "x": np.nan}))
    assert saved.metrics["x"] is None


@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_weights_that_are_not_finite(tmp_path: Path, mapped: bool, number: float) -> None:
    weights = WEIGHTS.copy()
    weights[1, 2] = number
    path = write(tmp_path / "m", tensors={"lambda": weights})
    with pytest.raises(ModelFolderError, match=r"lambda\[1, 2\]=-?(nan|inf): "):
        load(path, mapped=mapped)


def test_dtypes_that_a_file_cannot_hold(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="'a' is object"):
        write(tmp_path / "m", tensors={"a": np.array([{}])})
    assert files(tmp_path) == set()


@pytest.mark.parametrize("name", ["weights.safetensors", "vocab.arrow", "metrics.json"])
def test_a_missing_file(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / "m")
    (path / name).unlink()
    with pytest.raises(ModelFolderError, match=f"{name}: missing"):
        load(path)


def test_no_model_at_all(tmp_path: Path) -> None:
    with pytest.raises(ModelMissingError, match="no model here .no model.json.$"):
        load(tmp_path)
    with pytest.raises(ModelMissingError, match="nowhere: no model here .no such folder"):
        load(tmp_path / "nowhere")
    path = write(tmp_path / "inside")
    with pytest.raises(ModelMissingError, match="no model.json; .*inside has one"):
        load(tmp_path)
    with pytest.raises(ModelMissingError, match="a file, not a folder. Name the folder of a run"):
        load(path / "model.json")
    (tmp_path / "run.json").touch()
    with pytest.raises(ModelMissingError, match="--resume auto"):
        load(tmp_path)


def test_files_of_two_models_do_not_mix(tmp_path: Path) -> None:
    one = write(tmp_path / "one")
    two = write(tmp_path / "two", tensors={"lambda": WEIGHTS + 1})
    shutil.copy(two / "weights.safetensors", one / "weights.safetensors")
    with pytest.raises(ModelFolderError, match=r"weights\.safetensors: damaged"):
        load(one)


def test_a_newer_format_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_folder, "FORMAT", model_folder.FORMAT._replace(version=7))
    path = write(tmp_path / "m")
    monkeypatch.undo()
    with pytest.raises(ModelFolderError, match=r"model\.json: written by a newer .*Upgrade"):
        load(path)


@pytest.mark.parametrize("text", ["{}", "[]", "null", '{"format": "blocklearn checkpoint"}'])
def test_json_that_is_no_model(tmp_path: Path, text: str) -> None:
    (tmp_path / "model.json").write_text(text)
    with pytest.raises(ModelFolderError, match=r"model\.json: not a blocklearn model"):
        load(tmp_path)


# ---- replacing -----------------------------------------------------------------------------------


def test_replacing_keeps_other_files(tmp_path: Path) -> None:
    path = write(tmp_path / "m")
    (path / "notes.txt").write_text("mine")
    write(path, tensors={"lambda": WEIGHTS + 1}, names=None)
    assert load(path).names is None
    assert files(path) == WRITTEN - {"vocab.arrow"} | {"notes.txt"}
    assert (path / "notes.txt").read_text() == "mine"


def test_files_of_someone_else_are_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("mine")
    with pytest.raises(RunFolderError, match="README.md"):
        write(tmp_path)
    assert (tmp_path / "README.md").read_text() == "mine"


CHANGES = ["mkdir", "rename", "link", "replace", "fsync"]


class Crash(BaseException):
    """The power goes out."""


@pytest.mark.parametrize("replacing", [False, True])
def test_a_crash_at_any_step_leaves_the_old_or_the_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, replacing: bool
) -> None:
    """Saving is stopped before each of its system calls in turn, until it comes through."""
    steps, outcomes = 0, []
    while True:
        path = tmp_path / str(steps)
        if replacing:
            write(path)
        left = steps

        def crashing(call, *args, **kwargs):
            nonlocal left
            left -= 1
            if left < 0:
                raise Crash
            return call(*args, **kwargs)

        with monkeypatch.context() as patch:
            for name in CHANGES:
                call = getattr(os, name)
                patch.setattr(os, name, lambda *a, _call=call, **k: crashing(_call, *a, **k))
            # The clean-up of an exception is no part of a crash.
            patch.setattr(durable.shutil, "rmtree", lambda *a, **k: None)
            try:
                write(path, tensors={"lambda": WEIGHTS + 1}, metrics={"passes": 4})
                finished = True
            except Crash:
                finished = False
        try:
            saved = load(path)
            outcomes.append("new" if saved.metrics["passes"] == 4 else "old")
            np.testing.assert_array_equal(
                saved.tensors["lambda"], WEIGHTS + (outcomes[-1] == "new")
            )
        except ModelMissingError:
            outcomes.append("none")
        write(path, metrics={"passes": 5})  # and the leftovers are not in the way
        assert load(path).metrics == {"passes": 5}
        assert files(path) == WRITTEN
        if finished:
            break
        steps += 1
    before = "old" if replacing else "none"
    assert steps > 5
    assert outcomes == sorted(outcomes, key=[before, "new"].index)
    assert outcomes[0] == before and outcomes[-1] == "new"


def test_a_file_system_without_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    path = write(tmp_path / "m")
    monkeypatch.setattr(os, "link", refuse)
    write(path, metrics={"passes": 9})
    assert load(path).metrics == {"passes": 9}


def test_a_full_disk_leaves_the_old_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "m")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(model_folder, "write_tensors", full)
    with pytest.raises(OSError, match="No space"):
        write(path, metrics={"passes": 9})
    assert load(path).metrics["passes"] == 3
    assert files(path) == WRITTEN


def test_a_reader_sees_a_whole_model_while_it_is_replaced(tmp_path: Path) -> None:
    import threading

    path = write(tmp_path / "m")
    stop = threading.Event()

    def replace() -> None:
        for number in range(10):
            write(path, tensors={"lambda": WEIGHTS + number}, metrics={"passes": number})
        stop.set()

    writer = threading.Thread(target=replace)
    writer.start()
    try:
        while not stop.wait(0.001):  # without a pause it would keep the writer from the interpreter
            saved = load(path)
            if saved.metrics != {"passes": 3, "perplexity": 12.5}:
                number = saved.metrics["passes"]
                np.testing.assert_array_equal(saved.tensors["lambda"], WEIGHTS + number)
    finally:
        writer.join()


def test_an_error_names_the_file_that_is_wanted(tmp_path: Path) -> None:
    """Not the temporary one, of which a user knows nothing."""
    with pytest.raises(PermissionError) as found, durable.new_file(tmp_path / "x") as temporary:
        raise PermissionError(13, "Permission denied", str(temporary))
    assert found.value.filename == str(tmp_path / "x")
