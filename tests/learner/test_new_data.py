"""A trained model on new data of any format: the same numbers as on the matrix itself."""

import io
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from scipy import io as scipy_io
from scipy import sparse
from sklearn.datasets import dump_svmlight_file

import blocklearn as bl
from blocklearn.datasources import DataError, HashedWords, MatrixSource
from blocklearn.learner.exit_codes import ExitCode
from blocklearn.learner.runs.new_data import converted
from tests.formats.test_convert import rows_of
from tests.support.formats import bidmat, example, packed
from tests.support.learn_command import Learn, learn
from tests.support.often import first_often

X = abs(example(150, 12)).tocsr()
Y = np.stack([np.arange(150) % 2, np.arange(150) % 3 == 0], axis=1).astype(float)
NAMES = [f"c{i}" for i in range(12)]


def saved(write: Any, *arguments: Any, **options: Any) -> bytes:
    buffer = io.BytesIO()
    write(buffer, *arguments, **options)
    return buffer.getvalue()


def csv() -> bytes:
    head = ["extra", *NAMES[::-1]]
    lines = [",".join(["7", *(f"{x:g}" for x in row[::-1])]) for row in X.toarray()]
    return "\n".join([",".join(head), *lines]).encode()


def vw() -> bytes:
    rows = [X[[i]] for i in range(X.shape[0])]
    lines = [" ".join(f"c{j}:{x:g}" for j, x in zip(row.indices, row.data, strict=True))
             for row in rows]  # fmt: skip
    return "".join(f"| {line} unknown:3\n" for line in lines).encode()


FILES = {
    "a.svm.gz": packed(saved(lambda out: dump_svmlight_file(X, Y[:, 0], out, zero_based=False)),
                       "a.gz"),
    "a.csv": csv(),
    "a.vw": vw(),
    "a.npy": saved(np.save, X.toarray()),
    "a.npz": saved(sparse.save_npz, X),
    "a.mtx": saved(scipy_io.mmwrite, X),
    "a.smat.lz4": packed(bidmat(X, ".smat"), "a.lz4"),
    "a.fmat": bidmat(X.toarray(), ".fmat"),
}  # fmt: skip


def model(folder: Path, names: list[str] | None) -> bl.Learner:
    """A trained model as it is loaded from `folder`/model."""
    source = MatrixSource(X, targets=Y, names=names, target_names=["odd", "third"])
    bl.save(bl.Learner(bl.models.GLM(), train=source, passes=2, threads=1).fit(), folder / "model")
    return bl.load(folder / "model")


@pytest.mark.parametrize("name", first_often(FILES, 4))
def test_predictions_of_every_format(tmp_path: Path, name: str) -> None:
    by_name = name.endswith((".csv", ".vw"))
    learner = model(tmp_path, NAMES if by_name else None)
    (tmp_path / name).write_bytes(FILES[name])
    out = tmp_path / "out.npy"
    assert learn("predict", tmp_path / "model", "--data", tmp_path / name, "--out", out) == 0
    np.testing.assert_allclose(np.load(out), learner.predict(X), rtol=1e-6)


def test_predictions_of_a_dataset_and_of_parquet(tmp_path: Path) -> None:
    learner = model(tmp_path, None)
    sparse.save_npz(tmp_path / "a.npz", X)
    assert learn("convert", tmp_path / "a.npz", tmp_path / "blocks", "--block-rows", 40, "-q") == 0
    rows = [X[[i]] for i in range(150)]
    columns = {
        "indices": pa.array([row.indices.tolist() for row in rows], pa.list_(pa.int32())),
        "values": pa.array([row.data.tolist() for row in rows], pa.list_(pa.float32())),
    }
    table = pa.table(columns)
    parquet.write_table(table, tmp_path / "a.parquet")
    want = learner.predict(X)
    for name in ("blocks", "a.parquet"):
        out = tmp_path / f"{name}.out.parquet"
        assert learn("predict", tmp_path / "model", "--data", tmp_path / name, "--out", out) == 0
        found = parquet.read_table(out)
        columns = [found[name].to_pylist() for name in ("odd", "third")]
        np.testing.assert_allclose(np.transpose(columns), want, rtol=1e-6)
        assert found["row"].to_pylist() == list(range(150))


def test_columns_of_parquet_are_found_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    learner, run, file = model(tmp_path, NAMES), tmp_path / "model", tmp_path / "a.parquet"
    numbers = {name: X.toarray()[:, i] for i, name in enumerate(NAMES)}
    columns = {"extra": numbers["c0"], "tags": pa.array([[1]] * 150)} | numbers
    parquet.write_table(pa.table({name: columns[name] for name in reversed(columns)}), file)
    out = tmp_path / "out.npy"
    assert learn("predict", run, "--data", file, "--out", out) == 0
    np.testing.assert_allclose(np.load(out), learner.predict(X), rtol=1e-6)
    parquet.write_table(pa.table(columns).drop_columns(["c3", "tags"]), file)  # as many columns
    assert learn("predict", run, "--data", file) == ExitCode.DATA
    told = capsys.readouterr().err
    assert "a.parquet: no column 'c3' of numbers, which the model has; there are 'extra'" in told
    assert told.endswith("Name them as in the training data.\n")
    many = {"tags": columns["tags"], "more": columns["tags"], "text": pa.array(["a"] * 150)}
    parquet.write_table(pa.table(many), file)
    assert learn("predict", run, "--data", file) == ExitCode.DATA
    assert "a.parquet: no features; its columns are tags (list<" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["a.parquet", "a.csv"])
def test_numbers_are_refused_by_a_model_of_hashed_words(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    source = MatrixSource(X[:, :2], names=HashedWords(1))
    bl.save(bl.Learner(bl.models.KMeans(clusters=2), source, threads=1).fit(), tmp_path / "model")
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    parquet.write_table(pa.table({"a": [1.0], "b": [2.0]}), tmp_path / "a.parquet")
    assert learn("predict", tmp_path / "model", "--data", tmp_path / name) == ExitCode.DATA
    assert "the model was trained on hashed words. Give it texts" in capsys.readouterr().err


def test_a_model_of_libsvm_takes_other_formats(command: Learn) -> None:
    for name in ("a.svm.gz", "a.txt.gz"):
        Path(name).write_bytes(FILES["a.svm.gz"])
    sparse.save_npz("a.npz", X[:, :11])  # the last column is empty, so LIBSVM has none
    np.save("a.npy", X[:, :11].toarray())
    settings = ("--set", "data.train={kind: libsvm, path: a.svm.gz}", "--set", "model.kind=glm")
    Path("c.yaml").write_text("{}")
    assert command("--config", "c.yaml", *settings, "--out", "run", "-q")[0] == 0
    found = []
    for name in ("a.svm.gz", "a.npz", "a.npy", "a.txt.gz"):
        code, _, err = command("predict", "run", "--data", name, "--out", f"{name}.out.npy")
        assert code == 0, err
        found.append(np.load(f"{name}.out.npy"))
    for other in found[1:]:
        np.testing.assert_allclose(other, found[0], rtol=1e-5)


@pytest.mark.parametrize("name", first_often(FILES, 3))
def test_scores_of_every_format(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    by_name = name.endswith((".csv", ".vw"))
    learner = model(tmp_path, NAMES if by_name else None)
    (tmp_path / name).write_bytes(FILES[name])
    np.save(tmp_path / "y.npy", Y)
    job = ["evaluate", tmp_path / "model", "--data", tmp_path / name, "--json"]
    if name == "a.svm.gz":  # it has labels of its own
        assert learn(*job, "--targets", tmp_path / "y.npy") == ExitCode.DATA
        return
    capsys.readouterr()
    assert learn(*job, "--targets", tmp_path / "y.npy") == 0
    assert f'"auc": {learner.evaluate((X, Y))["auc"]:.6f}'[:-2] in capsys.readouterr().out


def test_targets_that_are_columns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    learner = model(tmp_path, NAMES)
    lines = csv().decode().split("\n")
    labels = ["third,odd", *(f"{b:g},{a:g}" for a, b in Y)]
    text = "\n".join(f"{a},{b}" for a, b in zip(lines, labels, strict=True))
    (tmp_path / "a.csv").write_text(text)
    job = ["evaluate", tmp_path / "model", "--data", tmp_path / "a.csv", "--json"]
    assert learn(*job) == 0
    assert f'"auc": {learner.evaluate((X, Y))["auc"]:.6f}'[:-2] in capsys.readouterr().out


def test_new_data_with_another_separator(tmp_path: Path) -> None:
    learner = model(tmp_path, NAMES)
    (tmp_path / "a.csv").write_bytes(csv().replace(b",", b";"))
    job = ["predict", tmp_path / "model", "--data", tmp_path / "a.csv", "--out", tmp_path / "a.npy"]
    assert learn(*job) == ExitCode.DATA
    assert learn(*job, "--separator", ";") == 0
    np.testing.assert_allclose(np.load(tmp_path / "a.npy"), learner.predict(X), rtol=1e-6)


TABLE = """\
model: {kind: glm}
data:
  train: {kind: table, path: a.csv, numeric: [x, y], targets: [z]}
  eval: null
"""
RATINGS = """\
model: {kind: als, rank: 2}
data: {train: {kind: ratings, path: a.csv, user: x, item: y, rating: z}, eval: null}
"""


@pytest.mark.parametrize("config", [TABLE, RATINGS], ids=["table", "ratings"])
def test_another_separator_than_the_training_data_have(command: Learn, config: str) -> None:
    lines = ["x,y,z", *(f"{i % 12},{i % 5},{i % 2}" for i in range(60))]
    Path("a.csv").write_text("\n".join(lines))
    Path("b.csv").write_text("\n".join(lines).replace(",", "|"))
    Path("run.yaml").write_text(config)
    assert command("--config", "run.yaml", "--out", "run", "-q")[0] == 0
    _, wanted, _ = command("evaluate", "run", "--data", "a.csv")
    assert command("evaluate", "run", "--data", "b.csv")[0] == ExitCode.DATA
    code, found, err = command("evaluate", "run", "--data", "b.csv", "--separator", "|")
    assert (code, found) == (0, wanted) and found, err


def test_classes_of_the_model_are_those_of_new_data(tmp_path: Path) -> None:
    """Labels of a test set that lacks a class stand for the same targets."""
    one_hot = (np.array([3, 1, 7] * 50)[:, None] == np.array([1, 3, 7])).astype(float)
    source = MatrixSource(X, targets=one_hot, target_names=["1", "3", "7"])
    learner = bl.Learner(bl.models.GLM(), train=source, threads=1).fit()
    path = tmp_path / "a.svm"
    for text, want in [
        ("7 1:1\n3 1:2\n", [[0, 0, 1], [0, 1, 0]]),
        ("7,1 1:1\n 1:2\n", [[1, 0, 1], [0, 0, 0]]),
    ]:
        path.write_text(text)
        found, _ = converted(
            learner, str(path), None, 64, Path(mkdtemp(dir=tmp_path)), labelled=True
        )
        assert rows_of(found)["targets"].tolist() == want
        assert found.shape.columns == 12 and list(found.target_names or []) == ["1", "3", "7"]
    path.write_text("4 1:1\n")
    with pytest.raises(DataError, match="the label 4 is not one of the classes"):
        converted(learner, str(path), None, 64, Path(mkdtemp(dir=tmp_path)), labelled=True)


def test_data_that_do_not_fit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model(tmp_path, NAMES)
    (tmp_path / "a.csv").write_text("c0,c1\n1,2\n")
    assert learn("predict", tmp_path / "model", "--data", tmp_path / "a.csv") == ExitCode.DATA
    assert "no column 'c2'" in capsys.readouterr().err
    np.save(tmp_path / "a.npy", np.ones((3, 5)))
    assert learn("predict", tmp_path / "model", "--data", tmp_path / "a.npy") == ExitCode.DATA
    assert "5 columns, but the model has 12" in capsys.readouterr().err
    code = learn("predict", tmp_path / "model", "--data", tmp_path / "nothing.csv")
    assert code == ExitCode.NO_INPUT


@pytest.mark.parametrize("name", ["a.parquet", "a.csv"])
def test_a_table_without_the_targets_of_a_model_says_how_to_give_them(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    model(tmp_path, None)
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    parquet.write_table(pa.table({"a": [1.0], "b": [2.0]}), tmp_path / "a.parquet")
    assert learn("evaluate", tmp_path / "model", "--data", tmp_path / name) == ExitCode.DATA
    told = capsys.readouterr().err
    assert "no column 'odd', which is a target of the model" in told
    assert told.endswith("--targets FILE.\n")


def test_ratings_of_a_model_have_its_columns_and_no_targets(command: Learn) -> None:
    bl.save(bl.Learner(bl.models.ALS(rank=2), X, threads=1).fit(), "als")
    Path("r.csv").write_text("who,item,rating\n1,2,3\n")
    code, _, err = command("evaluate", "als", "--data", "r.csv")
    assert code == ExitCode.DATA and "for a trained model, call the column 'user'." in err
    code, _, err = command("evaluate", "als", "--data", "r.csv", "--targets", "t.npy")
    assert code == ExitCode.DATA and "t.npy: must be left out: ratings are their own" in err


def test_temporary_datasets_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import gc
    import tempfile

    model(tmp_path, None)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    np.save(tmp_path / "a.npy", X.toarray())
    (tmp_path / "b.npy").write_bytes(b"nonsense")
    learn("predict", tmp_path / "model", "--data", tmp_path / "a.npy", "--out", tmp_path / "o.npy")
    learn("predict", tmp_path / "model", "--data", tmp_path / "b.npy")
    gc.collect()
    assert not list((tmp_path / "temporary").iterdir())
