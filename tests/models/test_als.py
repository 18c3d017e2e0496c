"""ALS against its equations in NumPy float64; what it makes of unusual data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import blocklearn as bl
from blocklearn.datasources import DataError, MatrixSource
from blocklearn.matcache import ShapeError
from blocklearn.models import ALS
from tests.support.als_reference import Reference, ratings
from tests.support.model_variants import OneSided
from tests.support.often import crossed, first_often, paired, rarely

LOSSES: list[dict[str, Any]] = [
    {},
    {"weighted": False, "reg": 2.0},
    {"row_reg": 3.0, "bias_reg": 0.7},
    {"biases": False, "row_reg": 0.5},
    {"loss": "implicit", "alpha": 3.0, "reg": 0.2},
    {"loss": "implicit", "weighted": False, "reg": 2.0, "row_reg": 1.0},
]
SOLVERS: list[dict[str, Any]] = [{"solver": "cholesky"}, {"solver": "cg", "cg_steps": 60}]


def model(**fields: Any) -> ALS:
    return ALS(**({"rank": 3, "reg": 0.1} | fields))


def close(got: Any, wanted: Any, tolerance: float = 2e-4) -> None:
    np.testing.assert_allclose(got, wanted, rtol=tolerance, atol=tolerance * np.abs(wanted).max())


class Scores(bl.Hook):
    """The scores of every pass."""

    def __init__(self) -> None:
        self.found: list[dict[str, float]] = []

    def evaluated(self, learner: Any, progress: Any) -> None:
        self.found.append(dict(progress.scores))


def rows_only(X: Any, block_rows: int = 16) -> Any:
    return OneSided(MatrixSource(X, block_rows=block_rows))


# ---------------------------------------------------------------- the equations


@crossed(solver=SOLVERS, fields=LOSSES)
def test_rows_are_solved_like_numpy(fields: dict[str, Any], solver: dict[str, Any]) -> None:
    X = ratings()
    learner = bl.Learner(model(**fields, **solver), train=X, passes=2, block_rows=16).fit()
    reference = Reference(learner.model, X)
    users, items = learner.row_state("users"), learner.row_state("items")
    close(items, reference.solve(X.T, users, side=1))
    new = ratings(seed=7)
    close(learner.predict(new), reference.solve(new, items, side=0))
    close(learner.predict(new.T.tocsr(), side=1), reference.solve(new.T, users, side=1))
    assert learner.progress.allocations_after_warmup == 0


@paired(3, solver=SOLVERS, fields=LOSSES)
def test_items_are_solved_from_rows_of_users_alone(
    fields: dict[str, Any], solver: dict[str, Any]
) -> None:
    X = ratings()
    learner = bl.Learner(
        model(**fields, **solver), train=rows_only(X), passes=2, block_rows=16
    ).fit()
    reference = Reference(learner.model, X)
    users, items = learner.row_state("users"), learner.state().tensors["items"]
    close(items, reference.solve(X.T, users, side=1))
    close(learner.predict(X), reference.solve(X, items, side=0))
    assert learner.progress.allocations_after_warmup == 0


@paired(3, steps=[1, 3], solver=["cg", "cholesky"], fields=LOSSES)
def test_the_objective_never_rises(fields: dict[str, Any], solver: Any, steps: int) -> None:
    X, scores = ratings(), Scores()
    settings = model(**fields, solver=solver, cg_steps=steps)
    learner = bl.Learner(settings, train=X, eval=X, passes=12, block_rows=16, hooks=[scores]).fit()
    found = np.array([s["objective"] for s in scores.found])
    assert np.all(np.diff(found) <= 1e-6 * found[:-1])
    state = learner.row_state("users"), learner.row_state("items")
    wanted = Reference(learner.model, X).objective(*state) / X.nnz
    assert found[-1] == pytest.approx(wanted, rel=1e-4)


def test_scores_are_those_of_the_predictions() -> None:
    X, held_out = ratings(), ratings(seed=5)
    learner = bl.Learner(model(), train=X, passes=3, block_rows=16).fit()
    users, items = learner.row_state("users"), learner.row_state("items")
    rows, columns = held_out.tocoo().coords
    predicted = X.data.mean() + (users[rows] * items[columns]).sum(axis=1)
    found = learner.evaluate(held_out)
    errors = held_out.data - predicted
    assert found["rmse"] == pytest.approx(np.sqrt((errors**2).mean()), rel=1e-5)
    assert found["mae"] == pytest.approx(np.abs(errors).mean(), rel=1e-5)
    assert learner.state().tensors["mean"] == pytest.approx(X.data.mean())


def test_scores_of_implicit_feedback_are_weighted() -> None:
    X, held_out = ratings(), ratings(seed=5)
    learner = bl.Learner(model(loss="implicit", alpha=2.0), train=X, passes=3).fit()
    users, items = learner.row_state("users"), learner.row_state("items")
    rows, columns = held_out.tocoo().coords
    errors = 1.0 - (users[rows] * items[columns]).sum(axis=1)
    wanted = np.sqrt(np.average(errors**2, weights=1.0 + 2.0 * held_out.data))
    assert learner.evaluate(held_out)["rmse"] == pytest.approx(wanted, rel=1e-5)


@pytest.mark.parametrize("solver", first_often(["cg", "cholesky"]))
def test_planted_factors_and_biases_are_recovered(solver: Any) -> None:
    rng = np.random.default_rng(0)
    n, m, k = 300, 200, 4
    truth = rng.normal(size=(n, k)) @ rng.normal(size=(k, m)) / 2.0
    truth += 3.5 + rng.normal(size=(n, 1)) + rng.normal(size=(1, m))
    known = rng.random((n, m)) < 0.3
    values = np.where(known, truth, 0.0)
    X = sp.csr_array(values.astype(np.float32))
    hidden = sp.csr_array(np.where(known, 0.0, truth).astype(np.float32))
    settings = model(rank=k, reg=1e-4, solver=solver)
    learner = bl.Learner(settings, train=X, eval=hidden, passes=30).fit()
    assert learner.progress.scores["rmse"] < 0.02 * truth.std()


@pytest.mark.parametrize("rank", [100, *rarely(8, 256, 1000)])
def test_any_rank(rank: int) -> None:
    X = ratings(density=0.5)
    settings = model(rank=rank, reg=0.5, cg_steps=60)
    learner = bl.Learner(settings, train=X, passes=1).fit()
    wanted = Reference(learner.model, X).solve(X.T, learner.row_state("users"), side=1)
    close(learner.row_state("items"), wanted)


def test_steps_beyond_convergence_do_no_harm() -> None:
    """They would be made of rounding errors, which grow in the course of hundreds of steps."""
    X = ratings(n=120, m=70, density=0.2)
    for seed in range(3):
        settings = model(loss="implicit", weighted=False, rank=24, alpha=3.0, reg=1.5, cg_steps=300)
        learner = bl.Learner(settings, train=X, passes=3, seed=seed).fit()
        wanted = Reference(learner.model, X).solve(X.T, learner.row_state("users"), side=1)
        close(learner.row_state("items"), wanted)


@pytest.mark.parametrize("solver", first_often(SOLVERS), ids=lambda s: s["solver"])
def test_an_item_with_many_ratings_is_solved_precisely(solver: dict[str, Any]) -> None:
    """10^5 ratings are summed in float32."""
    rng = np.random.default_rng(0)
    values = np.clip(np.round(3.0 + rng.normal(size=(100_000, 2))), 1, 5).astype(np.float32)
    learner = bl.Learner(model(**solver), train=sp.csr_array(values), passes=1).fit()
    reference = Reference(learner.model, sp.csr_array(values))
    wanted = reference.solve(values.T, learner.row_state("users"), side=1)
    close(learner.row_state("items"), wanted, tolerance=1e-3)


# ---------------------------------------------------------------- what must not matter


@pytest.mark.parametrize(
    "fields", first_often([{}, {"loss": "implicit"}, {"solver": "cholesky"}], 2), ids=str
)
def test_neither_threads_nor_blocks_change_a_bit(fields: dict[str, Any]) -> None:
    X, found = ratings(n=200), []
    for threads, block_rows in ((1, 200), (2, 200), (5, 200), (2, 23), (2, 2)):
        settings = {"train": X, "passes": 2, "threads": threads, "block_rows": block_rows}
        learner = bl.Learner(model(**fields), **settings).fit()
        found.append(np.vstack([learner.row_state("users"), learner.row_state("items")]))
    assert all(np.array_equal(found[0], other) for other in found[1:])


# ---------------------------------------------------------------- one orientation


def test_it_says_how_items_are_learned() -> None:
    def notes(**fields: Any) -> list[str]:
        learner = bl.Learner(model(**fields), train=rows_only(ratings()), passes=1).fit()
        return learner.model.notes

    assert bl.Learner(model(), train=ratings(), passes=1).fit().model.notes == []
    assert "summed over each pass and solved at its end (0.0 MiB)" in notes()[0]
    found = notes(item_equations_mib=0)[0]
    assert "steps of an optimizer" in found and "0.0 MiB of 0.0 MiB at most" in found
    assert "have 142 unknowns each, more than 130" in notes(rank=140)[0]


@pytest.mark.parametrize("fields", first_often(LOSSES, 2), ids=str)
def test_a_step_of_the_items_is_along_their_gradient(fields: dict[str, Any]) -> None:
    """One block, one step of plain gradient descent, against differences of the loss."""
    X, rate = ratings(), 0.01
    settings = model(**fields, item_equations_mib=0, solver="cholesky")
    source = rows_only(X, block_rows=60)
    from blocklearn.optimizers import SGD

    def items(rate: float) -> tuple[Any, Any]:
        learner = bl.Learner(settings, train=source, passes=1, optimizer=SGD(rate=rate)).fit()
        return learner.state().tensors["items"], learner.row_state("users")

    before, users = items(1e-20)
    after, _ = items(rate)
    none = {"reg": 0.0, "row_reg": 0.0, "bias_reg": None}
    bare = Reference(settings.model_copy(update=none), X)  # penalties are checked below
    direction = (after - before).astype(np.float64) / rate
    step = 1e-5 * np.random.default_rng(0).normal(size=before.shape) * bare.free[1]
    slope = bare.objective(users, before + step) - bare.objective(users, before - step)
    ridge = Reference(settings, X).ridge(X.nnz / X.shape[1], 1)
    penalty = 2.0 * (ridge * before * step * bare.free[1]).sum()
    wanted = -(slope / 2.0 + penalty) / 60.0
    assert (direction * step).sum() == pytest.approx(wanted, rel=0.02)


def test_steps_of_the_items_come_near_to_what_solving_finds() -> None:
    X = ratings(n=400)
    exact = bl.Learner(model(), train=X, eval=X, passes=20).fit().progress.scores
    settings = model(item_equations_mib=0)
    steps = (
        bl.Learner(settings, train=rows_only(X), eval=X, passes=20, block_rows=16)
        .fit()
        .progress.scores
    )
    assert steps["objective"] < 1.1 * exact["objective"]


def test_an_optimizer_is_kept_for_steps_of_the_items_only() -> None:
    X, penalty = ratings(), bl.mixins.L2(weight=0.1)
    assert bl.Learner(model(), train=X, passes=1).fit().state().position["optimizers"] == [{}]
    with pytest.raises(bl.BlocklearnError, match="ALS does not say what it should act on"):
        bl.Learner(model(), train=rows_only(X), mixins=[penalty]).fit()


# ---------------------------------------------------------------- unusual data


def test_rows_without_entries_get_zeros() -> None:
    X = ratings()
    learner = bl.Learner(model(), train=X, passes=3).fit()
    assert np.array_equal(learner.row_state("users")[3], [0.0] * 4 + [1.0])
    assert np.array_equal(learner.row_state("items")[5], [0.0] * 3 + [1.0, 0.0])
    empty = learner.predict(sp.csr_array((2, 40), dtype=np.float32))
    assert np.array_equal(empty, [[0.0] * 4 + [1.0]] * 2)
    nothing = bl.Learner(model(), train=sp.csr_array((5, 4), dtype=np.float32), passes=2).fit()
    assert np.all(nothing.row_state("users")[:, :-1] == 0)
    assert nothing.state().tensors["mean"] == 0


def test_a_stored_zero_is_a_rating_of_zero() -> None:
    X = ratings()
    X.data -= 1.0  # some ratings are 0 now
    learner = bl.Learner(model(solver="cholesky"), train=X, passes=2).fit()
    wanted = Reference(learner.model, X).solve(X.T, learner.row_state("users"), side=1)
    close(learner.row_state("items"), wanted)


def test_negative_implicit_feedback_is_confidence_in_a_dislike() -> None:
    X = ratings()
    X.data -= 2.5
    learner = bl.Learner(model(loss="implicit", solver="cholesky"), train=X, passes=2).fit()
    wanted = Reference(learner.model, X).solve(X.T, learner.row_state("users"), side=1)
    close(learner.row_state("items"), wanted)


def test_entries_that_come_twice_are_added_up() -> None:
    """As SciPy has it: a matrix is the sum of its entries. Files of ratings refuse them instead."""
    once = sp.coo_array(([5.0, 3.0], ([0, 1], [1, 0])), shape=(2, 2))
    twice = sp.coo_array(([2.0, 3.0, 3.0], ([0, 0, 1], [1, 1, 0])), shape=(2, 2))
    found = [
        bl.Learner(model(), train=X.tocsr() if X is once else X, passes=2).fit()
        for X in (once, twice)
    ]
    assert np.array_equal(*(learner.row_state("users") for learner in found))


def test_bad_values_and_dense_data_are_refused() -> None:
    for bad in (np.nan, np.inf, -np.inf, 1e39):
        X = sp.csr_array(ratings(), dtype=np.float64)
        X.data[7] = bad
        with pytest.raises(DataError, match="row 0, column 8 is"):
            bl.Learner(model(), train=X)
    with pytest.raises(ValueError, match="index|exceeds"):
        sp.csr_array(([1.0], ([0], [40])), shape=(60, 40))  # SciPy itself refuses
    X = ratings()
    X.indices[7] = 40
    with pytest.raises(DataError, match="column index 40, but there are 40"):
        bl.Learner(model(), train=X)
    with pytest.raises(ShapeError, match="every user has every item; pass a sparse one"):
        bl.Learner(model(), train=ratings().toarray()).fit()


def test_huge_ratings_stay_finite() -> None:
    X = ratings()
    X.data *= 1e12
    for solver in ("cg", "cholesky"):
        learner = bl.Learner(model(solver=solver), train=X, eval=X, passes=3).fit()
        assert np.isfinite(learner.row_state("items")).all()
        assert learner.progress.scores["rmse"] < X.data.std()


def test_settings_that_do_not_go_together_are_refused() -> None:
    with pytest.raises(ValueError, match="up to 130 numbers a row, biases included, not 131"):
        ALS(rank=129, solver="cholesky")
    with pytest.raises(ValueError, match="the implicit loss has no biases"):
        ALS(loss="implicit", biases=True)
    with pytest.raises(ValueError, match="bias_reg=0.5: must be null without biases; leave it out"):
        ALS(biases=False, bias_reg=0.5)
    assert ALS(loss="implicit", rank=5).columns == 5
    assert ALS(rank=5).columns == 7


# ---------------------------------------------------------------- as a file


@pytest.mark.parametrize("one_sided", first_often([False, True]))
def test_a_saved_model_folds_in_as_before(tmp_path: Path, one_sided: bool) -> None:
    X, new = ratings(), ratings(seed=7)
    train = rows_only(X) if one_sided else X
    learner = bl.Learner(model(), train=train, passes=2, block_rows=16).fit()
    bl.save(learner, tmp_path / "als")
    loaded = bl.load(tmp_path / "als")
    assert np.array_equal(loaded.row_state("items"), learner.row_state("items"))
    assert np.array_equal(loaded.predict(new), learner.predict(new))
    both = [one.predict(new.T.tocsr(), side=1) for one in (loaded, learner)]
    assert np.array_equal(*both)
    assert loaded.state().tensors.keys() == {"mean", "users", "items"}
