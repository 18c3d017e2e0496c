"""Targets from the user's hands to the model: binding, errors, memory plan, model folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import scipy.sparse as sp

import blocklearn as bl
from blocklearn.datasources import DataError, HashedWords, MatrixSource
from blocklearn.learner.command_line.cli import main
from blocklearn.learner.storage import model_folder
from blocklearn.learner.storage.model_folder import Saved
from blocklearn.matcache import ShapeError, colsum, total
from tests.support.often import crossed


class Sums(bl.Model):
    """X.T @ (w * Y), and the same as a score: every number can be checked by hand."""

    kind: str = "sums"
    needs_targets: ClassVar[bool] = True
    recorded: ClassVar[bool] = False  # `predict` notes each block

    def allocate(self, shapes: Any, rng: Any) -> None:
        self.shapes = shapes
        self.sums = self.parameter("sums", shapes.columns, shapes.targets)
        self.mass = self.parameter("mass", 1, 1)
        self.labelled: list[bool] = []

    def update(self, block: Any) -> None:
        self.sums <<= self.sums + block.X.T @ (block.Y * block.weights)
        self.mass <<= self.mass + colsum(block.weights)

    def score(self, block: Any) -> Any:
        return {"mean": bl.Sum(total(block.Y * block.weights), total(block.weights))}

    def predict(self, block: Any) -> Any:
        self.labelled.append(block.Y is not None)
        return (block.X @ self.sums).mat()


def data(rows: int = 50, targets: int = 3) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(0)
    X = sp.random_array((rows, 7), density=0.4, rng=rng, format="csr", dtype=np.float32)
    Y = (rng.random((rows, targets)) < 0.3).astype(np.float32)
    return X, Y, rng.integers(0, 3, rows).astype(np.float32)


@crossed(shuffle=[False, True, "blocks"], sparse_X=[True, False], sparse_Y=[True, False])
def test_a_model_sees_each_row_with_its_target(
    shuffle: Any, sparse_X: bool, sparse_Y: bool
) -> None:
    X, Y, w = data()
    source = MatrixSource(
        X if sparse_X else X.toarray(),
        targets=sp.csr_array(Y) if sparse_Y else Y,
        weights=w,
        block_rows=8,
        shuffle=shuffle,
    )
    learner = bl.Learner(Sums(), source, source, passes=3, threads=1).fit()
    np.testing.assert_allclose(learner.model.sums.numpy(), 3 * X.T @ (Y * w[:, None]), rtol=1e-5)
    assert learner.model.mass.numpy().item() == 3 * w.sum()
    assert learner.progress.scores["mean"] == pytest.approx((Y * w[:, None]).sum() / w.sum())
    assert learner.progress.allocations_after_warmup == 0
    assert learner.plan().total > 0
    learner.close()


def test_data_as_tuples() -> None:
    X, Y, w = data()
    learner = bl.Learner(Sums(), (X, Y, w), (X, Y), passes=2, block_rows=8, threads=1).fit()
    assert learner.model.shapes.targets == learner.data.targets == 3
    assert learner.progress.scores["mean"] == pytest.approx(Y.sum() / 50)
    assert learner.evaluate((X, Y, w))["mean"] == pytest.approx((Y * w[:, None]).sum() / w.sum())
    assert learner.evaluate((X[:5], Y[:5]))["mean"] == pytest.approx(Y[:5].sum() / 5)
    expected = X @ learner.model.sums.numpy()
    for given in (X, (X, Y), (X, Y[:, :0].sum(axis=1)[:, None] + Y)):
        np.testing.assert_allclose(learner.predict(given), expected, rtol=1e-5)
    assert learner.model.labelled == [False] * 7 + [True] * 14
    learner.close()
    one = bl.Learner(Sums(), train=(X, Y[:, 0]), threads=1).fit()
    assert one.model.sums.shape == (7, 1)
    one.close()


def test_weight_zero_is_absent_and_two_is_twice() -> None:
    X, Y, w = data()
    weighted = bl.Learner(Sums(), (X, Y, w), block_rows=8, threads=1).fit()
    repeated = np.repeat(np.arange(50), w.astype(int))
    other = bl.Learner(Sums(), (X[repeated], Y[repeated]), block_rows=8, threads=1).fit()
    np.testing.assert_allclose(
        weighted.model.sums.numpy(), other.model.sums.numpy(), rtol=1e-5, atol=1e-6
    )
    assert weighted.model.mass.numpy().item() == other.model.mass.numpy().item()
    weighted.close()
    other.close()


def test_what_does_not_fit_is_named() -> None:
    X, Y, w = data()
    for given in (X, (X, None, w), MatrixSource(X)):
        with pytest.raises(ShapeError, match=r"data for train have none; pass \(X, Y\)"):
            bl.Learner(Sums(), given)
    with pytest.raises(ShapeError, match="Sums learns from targets.*for eval have none"):
        bl.Learner(Sums(), (X, Y), X)
    with pytest.raises(ValueError, match=r"tuple of 4: must be \(X, Y\) or \(X, Y, weights\)"):
        bl.Learner(Sums(), (X, Y, w, w))
    with pytest.raises(DataError, match="targets have 49 rows and X has 50"):
        bl.Learner(Sums(), (X, Y[1:]))
    learner = bl.Learner(Sums(), (X, Y), block_rows=8, threads=1).fit()
    with pytest.raises(ShapeError, match="data for evaluate have none"):
        learner.evaluate(X)
    with pytest.raises(ShapeError, match="2 targets; this model has 3"):
        learner.evaluate((X, Y[:, :2]))
    assert learner.predict(X).shape == (50, 3)
    learner.close()


def test_a_model_that_needs_no_targets_may_get_some() -> None:
    X, Y, _ = data()
    X = sp.csr_array(np.ceil(X.toarray() * 3))
    learner = bl.Learner(bl.models.LDA(topics=2), (X, Y), X, block_rows=8, threads=1).fit()
    plain = bl.Learner(bl.models.LDA(topics=2), X, (X, Y), block_rows=8, threads=1).fit()
    assert learner.progress.scores == plain.progress.scores
    assert learner.evaluate((X, Y[:, :1][:, [0, 0, 0]])) == learner.evaluate(X)
    learner.close()
    plain.close()


def test_names_reach_the_model_and_its_folder(tmp_path: Path) -> None:
    X, Y, _ = data()
    source = MatrixSource(X, targets=Y, names=list("abcdefg"), target_names=["p", "q", "r"])
    learner = bl.Learner(Sums(), source, threads=1).fit()
    assert learner.model.shapes.names == list("abcdefg")
    assert learner.model.shapes.target_names == ["p", "q", "r"]
    bl.save(learner, tmp_path / "m")
    assert "Targets: p, q, r." in (tmp_path / "m" / "README.md").read_text()
    again = bl.load(tmp_path / "m", model=Sums)
    assert (again.data.targets, again.target_names) == (3, ["p", "q", "r"])
    np.testing.assert_array_equal(again.predict(X), learner.predict(X))  # without targets
    assert again.evaluate((X, Y)) == learner.evaluate((X, Y))
    assert again.model.shapes.target_names == ["p", "q", "r"]
    other = bl.load(tmp_path / "m", model=Sums)
    with pytest.raises(ShapeError, match="2 targets; this model has 3"):
        other.evaluate((X, Y[:, :2]))
    for one in (learner, again, other):
        one.close()


def test_hashed_columns_are_saved_as_a_number(tmp_path: Path) -> None:
    shared: dict[str, Any] = {
        "kind": "lda",
        "config": {},
        "tensors": {"w": np.ones((2, 2), np.float32), "hashed": np.ones(2**20, np.float32)},
        "fingerprint": "",
        "metrics": {},
    }
    model_folder.save(tmp_path / "m", Saved(names=["a", "b"], **shared))
    model_folder.save(tmp_path / "m", Saved(names=HashedWords(20), **shared))
    assert not (tmp_path / "m" / "vocab.arrow").exists()
    assert model_folder.load(tmp_path / "m").names == HashedWords(20)


def test_kept_blocks_are_in_the_plan() -> None:
    X, Y, _ = data()
    source = MatrixSource(X, targets=Y, block_rows=8, shuffle="blocks")
    learner = bl.Learner(Sums(), source, threads=1)
    (kept,) = [row for row in learner.plan().rows if "kept" in row[0]]
    assert kept[3] == source.keeps() > X.nnz * 16
    once = bl.Learner(Sums(), (X, Y), (X, Y), block_rows=8, threads=1)
    assert not [row for row in once.plan().rows if "kept" in row[0]]


def test_the_command_line_takes_labelled_and_hashed_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """hash_bits, targets and `shuffle: blocks` in a configuration; the model then hashes alone."""
    rng = np.random.default_rng(0)
    subjects = [["socket", "port", "host", "bytes"], ["month", "year", "day", "week"]]
    kinds = rng.integers(0, 2, 60)
    lines = [" ".join(rng.choice(subjects[kind], 8)) for kind in kinds]
    (tmp_path / "docs.txt").write_text("\n".join(lines) + "\n")
    np.save(tmp_path / "y.npy", kinds)
    (tmp_path / "a.yaml").write_text(
        "model: {kind: lda, topics: 2}\n"
        "data:\n"
        "  train: {kind: file, path: docs.txt, targets: y.npy, hash_bits: 12}\n"
        "  eval: {kind: holdout, share: 0.2}\n"
        "  block_rows: 16\n"
        "  shuffle: blocks\n"
        "learner: {passes: 3, threads: 1}\n"
    )
    monkeypatch.chdir(tmp_path)

    def learn(*arguments: str) -> int:
        with pytest.raises(SystemExit) as stop:
            main(arguments)
        return int(stop.value.code or 0)

    assert learn("--config", "a.yaml", "--out", "m") == 0
    assert bl.load("m").names == HashedWords(12) and bl.load("m").data.targets == 1
    capsys.readouterr()
    assert learn("evaluate", "m", "--data", "docs.txt", "--targets", "y.npy") == 0
    assert "perplexity" in capsys.readouterr().out
    assert learn("predict", "m", "--data", "docs.txt", "--out", "theta.npy") == 0
    theta = np.load("theta.npy")
    assert theta.shape == (60, 2)
    agree = ((theta[:, 1] > 0.5) == kinds).mean()
    assert max(agree, 1 - agree) > 0.9
    assert learn("evaluate", "m", "--data", "docs.txt", "--targets", "none.npy") == 66
    assert learn("--config", "a.yaml", "--set", "data.train.targets=none.npy", "--out", "x") == 66
