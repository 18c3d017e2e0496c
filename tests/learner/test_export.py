"""`learn export`: a model's numbers and names as npz, Parquet and npy."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from blocklearn.learner.errors import ModelFolderError
from blocklearn.learner.storage import export as exporting
from blocklearn.learner.storage import model_folder
from blocklearn.learner.storage.export import export
from blocklearn.learner.storage.model_folder import Saved
from tests.support.learn_command import learn

USERS, ITEMS = ["ann", "Zoë", "日本"], ["Alien", "Up"]


def saved(kind: str, tensors: dict[str, Any], **more: Any) -> Saved:
    found = {name: np.array(array, np.float32) for name, array in tensors.items()}
    empty = {"names": None, "fingerprint": "", "metrics": {}, "libraries": {}}
    return Saved(kind, {}, found, **(empty | more))


FACTORS = saved(
    "als",
    {"mean": [[3.5]], "users": np.arange(12).reshape(3, 4), "items": -np.arange(8).reshape(2, 4)},
    names=ITEMS,
    row_names=model_folder.Ids(USERS),
)
OUTPUTS = [{"name": n, "fit": n, "link": "logistic"} for n in ("buy", "click")]
WEIGHTS = saved(
    "glm",
    {"W": [[1, 2], [3, 4], [5, 6]], "intercept": [[7, 8]]},
    names=["price", "size", "age"],
    target_names=["click", "buy"],
    outputs=OUTPUTS,
)
TOPICS = saved("lda", {"lambda": np.arange(6).reshape(3, 2)}, names=["a", "b", "c"])


def rows(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    return found


def test_npz_has_everything(tmp_path: Path) -> None:
    lines = export(FACTORS, tmp_path / "deep" / "m.npz")
    assert lines[1] == f"{tmp_path}/deep/m.npz: users, 3 x 4"
    with np.load(tmp_path / "deep" / "m.npz", allow_pickle=False) as file:
        assert set(file) == {"mean", "users", "items", "column_names", "row_names"}
        assert file["row_names"].tolist() == USERS and file["column_names"].tolist() == ITEMS
        for name, array in FACTORS.tensors.items():
            np.testing.assert_array_equal(file[name], array)
            assert file[name].dtype == np.float32


def test_npz_of_one_tensor(tmp_path: Path) -> None:
    export(WEIGHTS, tmp_path / "m.npz", "intercept")
    with np.load(tmp_path / "m.npz") as file:
        assert set(file) == {"intercept", "column_names", "target_names"}
        assert file["target_names"].tolist() == ["click", "buy"]


def test_parquet_of_factors(tmp_path: Path) -> None:
    export(FACTORS, tmp_path / "users.parquet", "users")
    assert rows(tmp_path / "users.parquet")[1:] == [
        {"number": 1, "name": "Zoë", "vector": [4.0, 5.0, 6.0, 7.0]},
        {"number": 2, "name": "日本", "vector": [8.0, 9.0, 10.0, 11.0]},
    ]
    export(FACTORS, tmp_path / "items.parquet", "items")
    assert [row["name"] for row in rows(tmp_path / "items.parquet")] == ITEMS
    export(FACTORS, tmp_path / "mean.parquet", "mean")
    assert rows(tmp_path / "mean.parquet") == [{"number": 0, "vector": [3.5]}]


def test_columns_of_topics_have_names_of_their_own(tmp_path: Path) -> None:
    """A seed may have the name of a column of the prior, which names a later topic."""
    prior = {"path": "prior.csv", "topics": ["a", "sea"]}
    found = replace(TOPICS, config={"topics": 2, "seeds": {"sea": ["b"]}, "eta": prior})
    export(found, tmp_path / "t.parquet", "lambda")
    first = {"number": 0, "name": "a", "lambda.sea": 0.0, "lambda.sea (1)": 1.0}
    assert rows(tmp_path / "t.parquet")[0] == first
    edited = replace(TOPICS, config={"topics": 0})
    with pytest.raises(ModelFolderError, match=r"config: topics=0: must be at least 1\. The file"):
        export(edited, tmp_path / "e.parquet", "lambda")
    assert not (tmp_path / "e.parquet").exists()


@pytest.mark.parametrize("ending, mark", [(".csv", ","), (".tsv", "\t")])
def test_tables_of_text_have_a_column_for_each_number(
    ending: str, mark: str, tmp_path: Path
) -> None:
    export(FACTORS, tmp_path / f"users{ending}", "users")
    lines = (tmp_path / f"users{ending}").read_text(encoding="utf-8").splitlines()
    head = ["number", "name", *(f"vector {i}" for i in range(4))]
    assert lines[0] == mark.join(f'"{name}"' for name in head)
    assert lines[2] == mark.join(["1", '"Zoë"', "4", "5", "6", "7"])
    export(WEIGHTS, tmp_path / f"W{ending}", "W")
    lines = (tmp_path / f"W{ending}").read_text().splitlines()
    assert lines[3] == mark.join(["2", '"age"', "5", "6"])


def test_as_many_users_as_items(tmp_path: Path) -> None:
    """Which names are whose does not hang on their number."""
    square = saved(
        "als",
        {"users": np.ones((2, 1)), "items": np.ones((2, 1))},
        names=["x", "y"],
        row_names=model_folder.Ids(["u", "v"]),
    )
    export(square, tmp_path / "m")
    assert [row["name"] for row in rows(tmp_path / "m" / "users.parquet")] == ["u", "v"]
    assert [row["name"] for row in rows(tmp_path / "m" / "items.parquet")] == ["x", "y"]


def test_parquet_of_weights_has_a_column_for_each_output(tmp_path: Path) -> None:
    export(WEIGHTS, tmp_path / "W.parquet", "W")
    assert rows(tmp_path / "W.parquet")[2] == {
        "number": 2, "name": "age", "W.buy": 5.0, "W.click": 6.0}  # fmt: skip
    export(WEIGHTS, tmp_path / "all")
    assert {path.name for path in (tmp_path / "all").iterdir()} == {
        "W.parquet",
        "intercept.parquet",
    }
    assert rows(tmp_path / "all" / "intercept.parquet") == [
        {"number": 0, "intercept.buy": 7.0, "intercept.click": 8.0}
    ]


def test_hashed_columns(tmp_path: Path) -> None:
    from blocklearn.datasources import HashedWords

    hashed = saved("glm", {"W": np.ones((3, 1))}, names=HashedWords(1, ["price"]))
    export(hashed, tmp_path / "W.parquet")
    assert [row["name"] for row in rows(tmp_path / "W.parquet")] == ["price", "#0", "#1"]
    export(hashed, tmp_path / "W.npz")
    with np.load(tmp_path / "W.npz") as file:
        assert set(file) == {"W"}


def test_npy_is_what_faiss_takes(tmp_path: Path) -> None:
    tensors = {"items": np.asfortranarray(np.arange(6.0).reshape(3, 2))}
    export(Saved("als", {}, tensors, None, "", {}, {}), tmp_path / "items.npy")
    array = np.load(tmp_path / "items.npy")
    assert array.dtype == np.float32 and array.flags.c_contiguous
    np.testing.assert_array_equal(array, tensors["items"])


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(n=st.integers(1, 70), k=st.integers(1, 9), part=st.integers(1, 200), seed=st.integers(0, 99))
def test_written_part_by_part_it_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, n: int, k: int, part: int, seed: int
) -> None:
    array = np.random.default_rng(seed).normal(size=(n, k)).astype(np.float32)
    model = saved("lda", {"lambda": array}, names=[f"w{i}" for i in range(n)])
    with monkeypatch.context() as patch:
        patch.setattr(exporting, "PART", part)
        export(model, tmp_path / "m.parquet")
        export(model, tmp_path / "m.npy")
    table = pq.read_table(tmp_path / "m.parquet")
    assert table["name"].to_pylist() == [f"w{i}" for i in range(n)]
    assert table["number"].to_pylist() == list(range(n))
    np.testing.assert_array_equal(np.array(table["vector"].to_pylist(), np.float32), array)
    np.testing.assert_array_equal(np.load(tmp_path / "m.npy"), array)


def test_word2vecs_files_have_a_word_and_a_vector_in_each_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    array = np.array([[1.5, -2e-8], [1 / 3, 4.0], [5e7, 0.0]], np.float32)
    model = saved("word-vectors", {"vectors": array, "contexts": -array}, names=["a", "été", "日"])
    monkeypatch.setattr(exporting, "PART", 16)
    export(model, tmp_path / "m.vec", "vectors")
    head, *lines = (tmp_path / "m.vec").read_text(encoding="utf-8").splitlines()
    assert head == "3 2" and [line.split(" ")[0] for line in lines] == model.names
    found = np.array([line.split(" ")[1:] for line in lines], np.float32)
    np.testing.assert_array_equal(found, array)
    export(model, tmp_path / "m.bin", "vectors")
    words = zip(["a", "été", "日"], array, strict=True)
    rows = [word.encode() + b" " + vector.tobytes() + b"\n" for word, vector in words]
    assert (tmp_path / "m.bin").read_bytes() == b"3 2\n" + b"".join(rows)


def test_word2vecs_files_need_names_without_spaces(tmp_path: Path) -> None:
    spaced = saved("word-vectors", {"vectors": np.ones((2, 1))}, names=["a", "new york"])
    with pytest.raises(ValueError, match="row 1 of vectors is called 'new york'; choose .parquet"):
        export(spaced, tmp_path / "m.vec")
    with pytest.raises(ValueError, match="needs a name for each row, but rows of mean have none"):
        export(FACTORS, tmp_path / "m.bin", "mean")
    assert not list(tmp_path.iterdir())


def test_a_model_is_not_copied_into_memory(tmp_path: Path) -> None:
    """64 MB of factors, mapped and written in parts of 16 MB: a copy of all would show."""
    import tracemalloc

    users = np.zeros((1 << 18, 64), np.float32)
    model_folder.save(tmp_path / "m", Saved("als", {}, {"users": users}, None, "", {}))
    mapped = model_folder.load(tmp_path / "m", mapped=True)
    for ending in ("npy", "npz", "parquet"):
        tracemalloc.start()
        export(mapped, tmp_path / f"m.{ending}")
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert most < users.nbytes // 2, ending


@pytest.mark.parametrize(
    "to, tensor, message",
    [
        ("m.xls", None, r"m.xls: must end in .npz, .parquet, .csv, .tsv, .npy, .vec, .bin, or"),
        (
            "m.npz",
            "itmes",
            r"unknown tensor 'itmes'; the model has mean 1 x 1, users 3 x 4, items 2 x 4",
        ),
        ("m.npy", None, r".npy holds one tensor: choose one with --tensor from mean 1 x 1, users"),
        ("m.parquet", None, r".parquet holds one tensor"),
    ],
)
def test_what_cannot_be(to: str, tensor: str | None, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        export(FACTORS, tmp_path / to, tensor)
    assert not list(tmp_path.iterdir())


def test_a_folder_with_a_model_gets_no_other_files(tmp_path: Path) -> None:
    (tmp_path / "model.json").write_text("{}")
    with pytest.raises(ValueError, match="has a model in it; choose another folder"):
        export(FACTORS, tmp_path)


@pytest.mark.parametrize("ending", ["npz", "npy", "parquet", "vec"])
def test_a_failure_leaves_what_was_there(
    ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / f"m.{ending}"
    target.write_bytes(b"before")

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(exporting, "parts", full)
    monkeypatch.setattr(np, "savez", full)
    with pytest.raises(OSError, match="No space"):
        export(TOPICS, target)
    assert target.read_bytes() == b"before"
    assert [path.name for path in tmp_path.iterdir()] == [target.name]
    monkeypatch.undo()
    export(TOPICS, target)
    assert target.read_bytes() != b"before"


def test_a_folder_keeps_other_files(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    export(WEIGHTS, tmp_path)
    export(WEIGHTS, tmp_path)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"notes.txt", "W.parquet", "intercept.parquet"}


# ---- the command ---------------------------------------------------------------------------------


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved = Saved("als", {}, FACTORS.tensors, ITEMS, "", {}, row_names=USERS)
    model_folder.save(tmp_path / "m", saved)
    run, out = str(tmp_path / "m"), str(tmp_path / "items.npy")
    assert learn("export", run, "--to", out, "--tensor", "items") == 0
    assert capsys.readouterr().out == f"{out}: items, 2 x 4\n"
    np.testing.assert_array_equal(np.load(out), FACTORS.tensors["items"])
    assert learn("export", run, "--to", out) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "Error: Invalid value: .npy holds one tensor: choose one with --tensor from" in said
    assert learn("export", str(tmp_path / "nowhere"), "--to", out) == 66
    data = (tmp_path / "m" / "weights.safetensors").read_bytes()
    (tmp_path / "m" / "weights.safetensors").write_bytes(data[:-1])
    assert learn("export", run, "--to", out) == 65
    assert "weights.safetensors" in capsys.readouterr().err
