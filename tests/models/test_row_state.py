"""State of rows, and models that visit rows and columns in turn."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import scipy.sparse as sp

import blocklearn as bl
from blocklearn.datasources import Ids, MatrixSource
from blocklearn.matcache import ShapeError, gram, total
from blocklearn.models import Needs
from blocklearn.models.states.row_store import RowStore
from tests.support.model_variants import OneSided
from tests.support.often import first_often


class Power(bl.Model):
    """One step of the power method for a rank-k approximation, both sides in turn:
    rows = X columns, columns = X.T rows, scaled by traces of their Gram matrices.
    """

    row_states: ClassVar[Mapping[str, int]] = {"left": 0, "right": 1}
    k: int = 2

    def allocate(self, shapes: Any, rng: Any) -> None:
        self.left = self.row_state("left", shapes, self.k)
        self.right = self.row_state("right", shapes, self.k, ("normal", 1.0))
        self.sides = shapes.sides
        self.mean = self.parameter("mean", 1, 1)
        self.fresh = self.scratch("fresh", shapes.rows, self.k)
        self.notes.append(f"{shapes.sides} sides")

    needs: ClassVar[Needs] = Needs(value_sums=True)

    def update(self, block: Any) -> None:
        mine, other = (self.left, self.right) if block.side == 0 else (self.right, self.left)
        rows = mine.rows
        rows <<= 0.5 * rows + (block.X @ other.table) / (1.0 + total(gram(other.table)))

    def score(self, block: Any) -> Any:
        inner = total((block.X @ self.right.table) * self.left.rows)
        return {"inner": bl.Sum(inner, total(block.weights))}

    def predict(self, block: Any) -> Any:
        other = self.right if block.side == 0 else self.left
        fresh = self.fresh
        fresh <<= block.X @ other.table
        return fresh


def ratings(rows: int = 50, columns: int = 30, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    X = sp.random_array((rows, columns), density=0.2, rng=rng, dtype=np.float32, format="csr")
    return sp.csr_array(X)


def by_hand(X: Any, right: Any, passes: int) -> tuple[Any, Any]:
    X, right = X.toarray().astype(np.float64), right.astype(np.float64)
    left = np.zeros((X.shape[0], right.shape[1]))
    for _ in range(passes):
        left = 0.5 * left + X @ right / (1.0 + np.sum(right.T @ right))
        right = 0.5 * right + X.T @ left / (1.0 + np.sum(left.T @ left))
    return left, right


@pytest.mark.parametrize("row_folder", [False, True])
def test_both_sides_are_visited_in_turn(row_folder: bool, tmp_path: Path) -> None:
    X = ratings()
    folder = tmp_path / "rows" if row_folder else None
    start = RowStore(30, 2)
    start.draw(("normal", 1.0), 0, 1)
    learner = bl.Learner(Power(), X, (X, None), passes=3, block_rows=7, row_folder=folder).fit()
    left, right = by_hand(X, start.array, 3)
    np.testing.assert_allclose(learner.row_state("left"), left, rtol=2e-4, atol=1e-5)
    np.testing.assert_allclose(learner.row_state("right"), right, rtol=2e-4, atol=1e-5)
    inner = np.sum((X @ learner.row_state("right")) * learner.row_state("left"))
    assert learner.evaluate(X)["inner"] * 50 == pytest.approx(float(inner), rel=1e-4)
    assert learner.progress.scores["inner"] * 50 == pytest.approx(float(inner), rel=1e-4)
    np.testing.assert_allclose(
        learner.predict(X), X @ learner.row_state("right"), rtol=1e-4, atol=1e-6
    )
    new = ratings(11, 50, 3)  # columns that were not trained on
    found = learner.predict(new, side=1)
    np.testing.assert_allclose(found, new @ learner.row_state("left"), rtol=1e-4, atol=1e-6)
    assert learner.progress.allocations_after_warmup == 0
    assert learner.progress.rows == 3 * (50 + 30)
    if folder:
        files = sorted(path.name for path in (folder / "learner").glob("*.*"))
        assert files == [".blocklearn-rows", "left.float32", "right.float32"]
        learner.close()
        assert list(folder.iterdir()) == []
        np.testing.assert_allclose(learner.row_state("left"), left, rtol=2e-4, atol=1e-5)


@pytest.mark.parametrize("rows", first_often([1, 20]))
def test_does_not_go_on_with_other_rows(rows: int) -> None:
    X = ratings()
    state = bl.Learner(Power(), X[:rows], block_rows=7).fit().state()
    other = bl.Learner(Power(), X, passes=2, block_rows=7)
    other.restore(state)
    with pytest.raises(ShapeError, match=rf"its left has the shape \({rows}, "):
        other.fit()


def test_saved_and_loaded(tmp_path: Path) -> None:
    X = ratings()
    learner = bl.Learner(Power(), X, passes=2, block_rows=7).fit()
    bl.save(learner, tmp_path / "m")
    loaded = bl.load(tmp_path / "m", model=Power)
    assert loaded.row_state("left").tobytes() == learner.row_state("left").tobytes()
    np.testing.assert_array_equal(loaded.predict(X), learner.predict(X))
    again = bl.load(tmp_path / "m", model=Power)
    np.testing.assert_array_equal(again.predict(X.T.tocsr(), side=1), learner.predict(X.T, side=1))
    np.testing.assert_array_equal(again.predict(X), learner.predict(X))
    assert again.evaluate(X) == pytest.approx(learner.evaluate(X), rel=1e-5)


def test_a_source_of_one_orientation() -> None:
    X = ratings()
    learner = bl.Learner(Power(), OneSided(MatrixSource(X, block_rows=7)), passes=2).fit()
    assert learner.model.sides == 1 and learner.model.notes == ["1 sides"]
    assert learner.progress.rows == 2 * 50
    start = RowStore(30, 2)
    start.draw(("normal", 1.0), 0, 1)
    assert learner.row_state("right").tobytes() == start.array.tobytes()


def test_other_rows_are_refused() -> None:
    X = ratings()
    learner = bl.Learner(Power(), X, passes=1, block_rows=7).fit()
    with pytest.raises(ShapeError, match="trained on 50 rows"):
        learner.evaluate(X[:20])
    with pytest.raises(ShapeError, match="eval: data of 20 rows"):
        bl.Learner(Power(), X, X[:20], passes=1, block_rows=7)
    ids = [f"u{i}" for i in range(50)]
    named = bl.Learner(Power(), MatrixSource(X, row_names=ids, block_rows=7), passes=1).fit()
    assert named.evaluate(MatrixSource(X, row_names=Ids(ids), block_rows=7)).keys()
    with pytest.raises(ShapeError, match="evaluate: data of rows with other names"):
        named.evaluate(MatrixSource(X, row_names=ids[::-1], block_rows=7))
    with pytest.raises(KeyError, match="no row state 'up'; known: left, right"):
        learner.row_state("up")
    with pytest.raises(KeyError, match="no parameter 'up'; known: "):
        learner.parameter("up")


def test_a_store_is_drawn_row_by_row() -> None:
    small, large = RowStore(10, 3), RowStore(70000, 3)
    small.draw(("uniform", 2.0), 5, 1)
    large.draw(("uniform", 2.0), 5, 1)
    assert small.array.tobytes() == large.array[:10].tobytes()
    assert 0.0 <= large.array.min() < 0.01 and 1.99 < large.array.max() < 2.0
    assert len(np.unique(large.array)) > 190000


def test_a_plan_names_the_state() -> None:
    plan = bl.Learner(Power(), ratings(), passes=1, block_rows=7).plan()
    rows = {row[0]: row for row in plan.rows}
    assert rows["left (row state)"][1:3] == ((50, 2), "float32")
    assert rows["left (row state)"][3] == 4 * 50 * 2
    assert rows["left of a block"][3] == 4 * 7 * 2
    assert any("transposed training" in name for name in rows)


class Neighbours(Power):
    """Reads all rows of a side: in scores, and in updates of that side if it is told to."""

    wrong: bool = False

    def update(self, block: Any) -> None:
        super().update(block)
        if self.wrong and block.side == 0:
            self.mean <<= total(gram(self.left.table))

    def score(self, block: Any) -> Any:
        return {"size": bl.Sum(total(gram(self.left.table)), total(block.weights))}


def test_the_table_of_the_rows_in_training_is_refused_when_memory_is_planned() -> None:
    learner = bl.Learner(Neighbours(wrong=True), train=ratings(), passes=1, block_rows=16)
    with pytest.raises(ShapeError, match=r"^left\.table at .*row_state\.py:\d+: .*side 0"):
        learner.plan()


def test_scores_read_tables_as_they_are_now() -> None:
    X = ratings(rows=16)  # one block: no change of side comes between it and the score
    learner = bl.Learner(
        Neighbours(), OneSided(MatrixSource(X, block_rows=16)), eval=X, block_rows=16
    )
    for wanted_passes in (1, 2):
        learner.passes = wanted_passes
        learner.fit()
        found = learner.progress.scores["size"]
        left = learner.row_state("left").astype(np.float64)
        assert found == pytest.approx(np.sum(left.T @ left) / 16, rel=1e-5) and found > 0


def test_rows_are_assigned_through_the_state() -> None:
    class Assigned(Power):
        def update(self, block: Any) -> None:
            mine, other = (self.left, self.right) if block.side == 0 else (self.right, self.left)
            mine.rows <<= 0.5 * mine.rows + (block.X @ other.table) / (
                1.0 + total(gram(other.table))
            )

    class Replaced(Power):
        def update(self, block: Any) -> None:
            self.left.rows = 2.0 * self.left.rows

    class Whole(Power):
        def update(self, block: Any) -> None:
            other = self.right if block.side == 0 else self.left
            other.table <<= 1.0

    X = ratings()
    with pytest.raises(
        ShapeError, match=r"right\.table at .*: must not be assigned to.*right\.rows"
    ):
        bl.Learner(Whole(), train=X).plan()
    settings: Any = {"passes": 2, "block_rows": 16, "seed": 3}
    found, wanted = (bl.Learner(m(), train=X, **settings).fit() for m in (Assigned, Power))
    np.testing.assert_array_equal(found.row_state("left"), wanted.row_state("left"))
    with pytest.raises(ShapeError, match=r"^left\.rows = .* at .*test_row_state.*Write rows <<="):
        bl.Learner(Replaced(), train=X, **settings).fit()


@pytest.mark.parametrize(
    ("method", "name", "told"),
    [
        ("predict", "left", r"left\.rows at .*test_row_state.*in predict\(\): its rows are new"),
        ("new", "left", "left.rows at .*while scores_new_rows is True"),
        ("score", "right", "right.rows at .*those of the other side. Read right.table"),
        ("update", "right", "right.rows at .*those of the other side. Read right.table"),
    ],
)
def test_rows_that_a_block_does_not_have_are_not_read(method: str, name: str, told: str) -> None:
    """They would be those of an earlier block."""

    class Reading(Power):
        scores_new_rows: ClassVar[bool] = method == "new"

        def read(self, now: str) -> None:
            if method == now:
                getattr(self, name).rows.mat()

        def update(self, block: Any) -> None:
            self.read("update" if block.side == 0 else "")
            super().update(block)

        def score(self, block: Any) -> Any:
            self.read("new")
            self.read("score")
            return {"weight": bl.Sum(total(block.weights), 1.0)}

        def predict(self, block: Any) -> Any:
            self.read("predict")
            return super().predict(block)

    X = ratings()
    with pytest.raises(ShapeError, match=told):
        bl.Learner(Reading(), X, (X, None), passes=1, block_rows=7, verbose=False).fit()
