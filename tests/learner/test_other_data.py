"""Replicas are kept where other data need the same plan, and learn what new ones would."""

from __future__ import annotations

import copy
import dataclasses
import gc
import pickle
import weakref
from contextlib import closing
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import blocklearn as bl
from blocklearn.learner.training import model_in_use
from blocklearn.learner.training.plans.other_data import shapes_to_keep
from blocklearn.learner.training.states import live_model
from blocklearn.matcache import colsum
from blocklearn.models import GLM, LDA, NMF, KMeans
from blocklearn.optimizers import AdaGrad
from tests.support.often import first_often

ROWS = 32


def dense(seed: int, rows: int = 3 * ROWS + 5) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).random((rows, 7)).astype(np.float32)


def counts(seed: int, rows: int = 3 * ROWS + 5, columns: int = 40) -> sp.csr_array:
    """Make counts; those of later seeds have fewer entries, so that blocks of the first fit all."""
    numbers = np.random.default_rng(0).poisson(0.4, (rows, columns)).astype(np.float32)
    numbers[:, 0] = 1.0
    numbers[:, 1 : 2 * seed + 1] = 0.0
    return sp.csr_array(numbers * np.float32(1 + seed % 2))


def labelled(X: Any) -> tuple[Any, np.ndarray[Any, Any]]:
    return X, (np.arange(X.shape[0]) % 3 == 0).astype(np.float32)


def trained(make: Any, data: list[Any], monkeypatch: Any, *, keep: bool) -> tuple[Any, int]:
    """Train on one after another; return the state, and how often replicas were kept."""
    kept = 0

    def noted(*given: Any) -> Any:
        nonlocal kept
        found = shapes_to_keep(*given) if keep else None
        kept += found is not None
        return found

    monkeypatch.setattr(model_in_use, "shapes_to_keep", noted)
    learner = make(data[0]).fit()
    for each in data[1:]:
        learner.fit(each)
    state = learner.state()
    learner.close()
    return state, kept


def of(model: Any, **options: Any) -> Any:
    options = {"block_rows": ROWS, "threads": 1, "verbose": False, **options}
    return lambda data: bl.Learner(model(), data, **options)


ADAGRAD = AdaGrad(step_per="row")
CASES = {
    "lda": (of(lambda: LDA(topics=3, inference="vb")), counts),
    "sampled": (of(lambda: LDA(topics=3, warm_up=0, assignments="fresh"), of_rows=900), counts),
    "nmf": (of(lambda: NMF(components=3)), counts),
    "divergence": (of(lambda: NMF(components=3, loss="kullback-leibler")), counts),
    "kmeans": (of(lambda: KMeans(clusters=3)), dense),
    "batch": (of(lambda: KMeans(clusters=3, update_centres="batch")), counts),
    "glm": (of(GLM), lambda seed: labelled(dense(seed))),
    "rows": (of(GLM, optimizer=ADAGRAD, replicas=2), lambda seed: labelled(counts(seed))),
    "rests": (of(lambda: GLM(l2=0.01)), lambda seed: labelled(counts(seed, columns=4000))),
}


@pytest.mark.parametrize("name", first_often(sorted(CASES, key=lambda name: name != "lda")))
def test_kept_replicas_learn_what_new_ones_would(name: str, monkeypatch: Any) -> None:
    make, data = CASES[name]
    parts = [data(seed) for seed in range(4)]
    state, kept = trained(make, parts, monkeypatch, keep=True)
    wanted, _ = trained(make, parts, monkeypatch, keep=False)
    assert kept == 3
    assert state.tensors.keys() == wanted.tensors.keys()
    for tensor, array in state.tensors.items():
        np.testing.assert_array_equal(array, wanted.tensors[tensor])
    assert state.position["pass"] == wanted.position["pass"] == 4


def set_alpha(learner: bl.Learner) -> None:
    learner.model.alpha = 5.0  # type: ignore[attr-defined]


def set_optimizer(learner: bl.Learner) -> None:
    learner.optimizer = AdaGrad(initial=2.0)


def set_l2(learner: bl.Learner) -> None:
    learner.model.l2 = 0.5  # type: ignore[attr-defined]


class Doubles(bl.Hook):
    """Computes with a parameter after each pass."""

    def plan(self, learner: bl.Learner, replica: Any) -> None:
        self.double(replica)

    def pass_end(self, learner: bl.Learner, progress: Any) -> None:
        assert learner.team is not None
        self.double(learner.team.first)

    def double(self, replica: Any) -> Any:
        return (replica.model.parameters["lambda"] * 2.0).mat()


def add_hook(learner: bl.Learner) -> None:
    learner.hooks.append(Doubles())


def predict_many(learner: bl.Learner) -> None:
    """Predict blocks of more entries than those of training."""
    learner.predict(sp.csr_array(np.ones((ROWS, 4000), np.float32)))


@pytest.mark.parametrize(
    ("name", "change", "other"),
    first_often(
        [
            ("lda", set_alpha, counts(1)),
            ("lda", add_hook, counts(1)),
            ("rows", set_optimizer, labelled(counts(1))),
            ("rows", set_l2, labelled(counts(1))),
            ("few", predict_many, labelled(counts(0, columns=4000))),
        ],
        3,
    ),
)
def test_what_changes_between_two_fits_changes_the_plan(name: str, change: Any, other: Any) -> None:
    few = sp.csr_array(np.eye(3 * ROWS + 5, 4000, dtype=np.float32))
    cases = {**CASES, "few": (of(lambda: GLM(l2=0.01)), lambda _: labelled(few))}
    make, data = cases[name]
    tensors = []
    for anew in (False, True):
        with closing(make(data(0)).fit()) as learner:
            change(learner)
            if anew:
                learner.close()
            tensors.append(learner.fit(other).state().tensors)
    for tensor, array in tensors[0].items():
        np.testing.assert_array_equal(array, tensors[1][tensor], err_msg=tensor)


class Narrower(KMeans):
    """Allocates with shapes that it has changed."""

    def allocate(self, shapes: Any, rng: Any) -> None:
        super().allocate(dataclasses.replace(shapes, names=None), rng)


def test_a_model_may_replace_numbers_of_its_shapes() -> None:
    with closing(of(lambda: Narrower(clusters=3))(dense(0))) as learner:
        assert learner.fit().parameter("centres").shape == (7, 3)


class Centred(bl.Model):
    """Computes with the number of rows, which it knows from `allocate`."""

    def allocate(self, shapes: Any, rng: Any) -> None:
        self.sum = self.parameter("sum", 1, shapes.columns)
        self.rows = shapes.total_rows

    def update(self, block: bl.Block) -> None:
        self.sum <<= self.sum + colsum(block.X) / float(self.rows)

    def score(self, block: bl.Block) -> Any:
        return {}

    def predict(self, block: bl.Block) -> Any:
        return (block.X * self.sum).mat()


@pytest.mark.parametrize(
    ("make", "data", "kept"),
    first_often(
        [
            (of(Centred), [dense(0), dense(1), dense(2, rows=90)], 1),  # other rows
            (of(lambda: KMeans(clusters=3)), [dense(0), sp.csr_array(dense(1))], 0),
            (of(lambda: KMeans(clusters=3)), [counts(1), counts(0), counts(1)], 1),  # more entries
            (of(lambda: GLM(class_weight="balanced")), [labelled(dense(s)) for s in range(3)], 0),
            (of(lambda: LDA(topics=3, assignments="kept")), [counts(0), counts(1)], 0),
        ],
        2,
    ),
)
def test_replicas_are_made_anew_where_the_plan_differs(
    make: Any, data: list[Any], kept: int, monkeypatch: Any
) -> None:
    state, found = trained(make, data, monkeypatch, keep=True)
    wanted, _ = trained(make, data, monkeypatch, keep=False)
    assert found == kept
    for tensor, array in state.tensors.items():
        np.testing.assert_array_equal(array, wanted.tensors[tensor])


@pytest.mark.parametrize(
    ("make", "data"),
    first_often(
        [
            (lambda: bl.KMeans(3, random_state=0), lambda *given: (dense(*given),)),
            (lambda: bl.NMF(3, random_state=0), lambda *given: (counts(*given),)),
            (lambda: bl.GLMRegressor(random_state=0), lambda *given: labelled(counts(*given))),
        ],
        1,
    ),
)
def test_partial_fit_with_a_kept_learner_learns_what_a_new_one_would(make: Any, data: Any) -> None:
    """Whatever happens between two calls. Copies have no learner, so each call makes one."""
    kept, anew = make(), make()
    for seed, rows in enumerate([100, 100, 100, 60, 60, 1, 100]):
        if seed == 2:  # attributes follow the user
            for each in (kept, anew):
                name = next(
                    n for n in ("cluster_centers_", "components_", "coef_") if hasattr(each, n)
                )
                setattr(each, name, getattr(each, name) * np.float32(1.25))
        if seed == 4:
            kept.transform(*data(0)[:1]) if hasattr(kept, "transform") else kept.predict(data(0)[0])
        if seed == 5:
            kept = pickle.loads(pickle.dumps(kept))
        anew = copy.deepcopy(anew)
        kept.partial_fit(*data(seed, rows))
        anew.partial_fit(*data(seed, rows))
        assert kept.n_samples_seen_ == anew.n_samples_seen_
        for name, array in vars(kept).items():
            if isinstance(array, np.ndarray):
                np.testing.assert_array_equal(array, getattr(anew, name), err_msg=name)


def test_sums_of_an_optimizer_begin_afresh_after_a_fit_by_another_solver() -> None:
    coefficients = []
    for keep in (True, False):
        model = bl.GLMClassifier(alpha=0.01, l1_ratio=0.5, random_state=0)
        model.partial_fit(*labelled(dense(0)), classes=[0, 1]).fit(*labelled(dense(1)))
        model = model if keep else copy.deepcopy(model)
        coefficients.append(model.partial_fit(*labelled(dense(2))).coef_)
    np.testing.assert_array_equal(*coefficients)


@pytest.mark.parametrize("make", [lambda: bl.KMeans(3), lambda: bl.GLMRegressor()])
def test_a_kept_learner_holds_no_rows(make: Any) -> None:
    model = make()
    for seed in range(2):
        X, y = labelled(dense(seed))
        rows = weakref.ref(X)
        model.partial_fit(X, y)
        del X
        gc.collect()
        assert rows() is None


def test_partial_fit_plans_once(monkeypatch: Any) -> None:
    made = []
    make = bl.Learner.__init__
    monkeypatch.setattr(
        bl.Learner, "__init__", lambda *given, **named: (made.append(1), make(*given, **named))[1]
    )
    model = bl.GLMClassifier()
    for seed in range(4):
        model.partial_fit(dense(seed), np.arange(3 * ROWS + 5) % 2, classes=[0, 1])
    assert len(made) == 1
    model.set_params(alpha=0.1)
    model.partial_fit(dense(5), np.arange(3 * ROWS + 5) % 2)
    assert len(made) == 2


def test_partial_fit_finds_the_numbers_that_it_left_in_the_replicas(monkeypatch: Any) -> None:
    given = []
    give = live_model.give
    monkeypatch.setattr(live_model, "give", lambda *all_: (given.append(1), give(*all_))[1])
    model = bl.GLMClassifier()
    for seed in range(4):
        model.partial_fit(*labelled(dense(seed)), classes=[0, 1])
    assert len(given) == 1  # the first call begins with none, the second turns to other rows
    model.coef_ = 2 * model.coef_
    model.partial_fit(*labelled(dense(4)))
    assert len(given) == 2


def test_partial_fit_by_the_solver_of_an_earlier_part_follows_a_fit_without_a_learner() -> None:
    """The step of SGD needs no sums, so the kept learner takes what was solved."""
    coefficients = []
    for keep in (True, False):
        model = bl.GLMClassifier(solver="sgd", random_state=0)
        for seed in (0, 3, 4):
            model.partial_fit(*labelled(dense(seed)), classes=[0, 1])
        model.set_params(solver="newton").fit(*labelled(dense(1))).set_params(solver="sgd")
        model = model if keep else copy.deepcopy(model)
        coefficients.append(model.partial_fit(*labelled(dense(2))).coef_)
    np.testing.assert_array_equal(*coefficients)
