"""Mistakes in models, mixins, optimizers and sources of one's own are found, not trained with."""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pytest

import blocklearn as bl
from blocklearn.datasources.errors import ReadError
from blocklearn.learner.results.persistence import POSITION, STEPS, WHICH
from blocklearn.learner.storage.model_folder import LOST
from blocklearn.learner.training.settings.checks import TAKEN
from blocklearn.learner.watch.events import FIELDS
from blocklearn.matcache import ShapeError, from_array, rowsum, rowwise, total
from blocklearn.mixins import L2, Mixin
from blocklearn.models import LossModel
from blocklearn.optimizers import SGD, CombinationError, Slot, StatisticsOptimizer

X = np.random.default_rng(0).normal(size=(15, 4)).astype(np.float32)
Y = X[:, :1] + 1.0


class Own(bl.Model):
    """The mean of the columns by gradients; the base of all mistakes."""

    meaning: ClassVar = "gradients"
    needs_targets: ClassVar = True

    def default_optimizer(self) -> Any:
        return SGD(rate=0.1)

    def allocate(self, shapes: Any, rng: Any) -> None:
        self.W = self.parameter("W", shapes.columns, shapes.targets)

    def update(self, block: Any) -> None:
        errors = (block.X @ self.W - block.Y) * block.weights
        self.updates["W"] = block.X.T @ errors / total(block.weights)

    def score(self, block: Any) -> Any:
        return {"weight": bl.Sum(total(block.weights), 1.0)}

    def predict(self, block: Any) -> Any:
        return (block.X @ self.W).mat()


def fit(model: Any, **options: Any) -> Any:
    return bl.Learner(model, (X, Y), passes=1, block_rows=5, verbose=False, **options).fit()


def test_a_parameter_and_a_state_have_two_names() -> None:
    """A checkpoint would hold one of them."""

    class Clash(Own):
        row_states: ClassVar = {"W": 0}

        def allocate(self, shapes: Any, rng: Any) -> None:
            super().allocate(shapes, rng)
            self.row_state("W", shapes, 1)

    class Other(Clash):
        def allocate(self, shapes: Any, rng: Any) -> None:
            self.row_state("W", shapes, 1)
            Own.allocate(self, shapes, rng)

    for model in (Clash(), Other()):
        with pytest.raises(ShapeError, match="a parameter and a state of rows are both called 'W'"):
            fit(model)


def test_a_state_has_one_number_of_columns() -> None:
    class Twice(Own):
        row_states: ClassVar = {"seen": 0}

        def allocate(self, shapes: Any, rng: Any) -> None:
            super().allocate(shapes, rng)
            self.row_state("seen", shapes, 3)
            self.row_state("seen", shapes, 2)

    with pytest.raises(ShapeError, match="2 columns, but the state has 3"):
        fit(Twice())


def test_rules_and_kinds_are_known() -> None:
    class Rule(Own):
        def allocate(self, shapes: Any, rng: Any) -> None:
            self.W = self.parameter("W", shapes.columns, shapes.targets, merge="Sum")  # type: ignore[arg-type]

    with pytest.raises(ShapeError, match="merge='Sum': must be one of 'mean', 'sum'"):
        fit(Rule())
    with pytest.raises(ValueError, match="kind='sqrt': must be one of mean, perplexity, root"):
        bl.Sum(1.0, 1.0, "sqrt")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="columns='row': must be ALL or ONE"):
        Slot("row")  # type: ignore[arg-type]


def test_a_gradient_may_be_divided_by_the_weight_of_the_block() -> None:
    """It is a number, which the last block of a pass may change."""

    class Divided(Own):
        def update(self, block: Any) -> None:
            errors = (block.X @ self.W - block.Y) * block.weights
            self.updates["W"] = block.X.T @ errors / block.weight

    for rows in (15, 13):
        source = bl.datasources.MatrixSource(
            X[:rows], targets=Y[:rows], block_rows=5, shuffle=False
        )
        found = [
            bl.Learner(model, source, passes=3, verbose=False).fit().parameter("W")
            for model in (Own(), Divided())
        ]
        np.testing.assert_allclose(found[0], found[1], rtol=1e-6)


@pytest.mark.parametrize("method", ["score", "predict"])
def test_evaluations_leave_parameters_alone(method: str) -> None:
    class Changing(Own):
        def score(self, block: Any) -> Any:
            return self.changed("score") or super().score(block)

        def predict(self, block: Any) -> Any:
            return self.changed("predict") or super().predict(block)

        def changed(self, where: str) -> None:
            if where == method:
                self.W <<= self.W * 0.5

    with pytest.raises(ShapeError, match=f"{method}: assigns to the parameter 'W'"):
        fit(Changing())


def test_a_mask_is_no_list_of_positions() -> None:
    class Masked(Own):
        def update(self, block: Any) -> None:
            super().update(block)
            self.W[self.W[:, 0:1] > 0.0] <<= 1.0

    with pytest.raises(ShapeError, match=r"is a mask.*where\(condition"):
        fit(Masked())


def test_an_operation_in_place_needs_a_matrix_to_change() -> None:
    @rowwise
    def grow(u: Any, g: Any) -> Any:
        u += g
        return rowsum(u)

    @rowwise
    def fine(u: Any, g: Any) -> Any:
        v = u + g
        v += g  # a value of the function's own
        return v

    with bl.matcache.MatCache(threads=1) as cache:
        u, g = from_array(cache, X), from_array(cache, X)
        with pytest.raises(ShapeError, match=r"'u' at .*test_mistakes.*Write x <<= x \+ y"):
            grow(u, g)
        np.testing.assert_allclose(fine(u, g).numpy(), 3 * X, rtol=1e-6)


def test_a_loss_must_depend_on_its_parameters() -> None:
    class Steps(LossModel):
        def allocate(self, shapes: Any, rng: Any) -> None:
            self.V = self.parameter("V", shapes.columns, 1, 0.1)

        def loss(self, X: Any, Y: Any, V: Any) -> Any:  # type: ignore[override]
            return ((X @ V > 0.0) - Y) ** 2

        def predict(self, block: Any) -> Any:
            return (block.X @ self.V).mat()

    with pytest.raises(ShapeError, match="by V: is 0 whatever the numbers are"):
        fit(Steps())


def test_a_direction_is_returned() -> None:
    class Lost(SGD):
        def direction(self, g: Any, *state: Any) -> Any:
            g * 2.0

    with pytest.raises(CombinationError, match="direction returns None"):
        fit(Own(), optimizer=Lost(rate=0.1))


@pytest.mark.parametrize(("method", "said"), [("flow", "flows"), ("gradient", "smooth")])
def test_a_mixin_says_what_it_defines(method: str, said: str) -> None:
    class Silent(Mixin):
        kind: str = "silent"

        def scores(self) -> dict[str, Any]:
            return {}

    def define(self: Any, *args: Any) -> Any:
        return args[0]

    setattr(Silent, method, define)
    with pytest.raises(TypeError, match=f"defines {method}, which nothing calls while {said}"):
        fit(Own(), mixins=[Silent(parameters=["W"])])


@pytest.mark.parametrize("forgotten", [0, 1])
def test_a_source_ends_its_blocks(forgotten: int) -> None:
    """Else a block would have the rows of the one before."""

    class Forgetful(bl.datasources.MatrixSource):
        def read(self, pass_: int, index: int, into: Any) -> None:
            if index != forgotten:
                super().read(pass_, index, into)

    source = Forgetful(X, targets=Y, block_rows=5)
    with pytest.raises(ReadError, match=r"must end with into\.finish"):
        bl.Learner(Own(), source, passes=1, verbose=False).fit()


def test_a_source_ends_the_block_that_was_asked_for() -> None:
    class Wrong(bl.datasources.MatrixSource):
        def read(self, pass_: int, index: int, into: Any) -> None:
            super().read(pass_, 0, into)

    source = Wrong(X, targets=Y, block_rows=5)
    with pytest.raises(ReadError, match="the block is number 0 of pass 0"):
        bl.Learner(Own(), source, passes=1, verbose=False).fit()


@pytest.mark.parametrize("number", [np.nan, np.inf, 1e39])
def test_parameters_begin_with_numbers(number: float) -> None:
    """Else the first check would blame the steps."""

    class Wild(Own):
        def allocate(self, shapes: Any, rng: Any) -> None:
            init = np.full((shapes.columns, shapes.targets), number)
            self.W = self.parameter("W", shapes.columns, shapes.targets, init)

    with pytest.raises(ShapeError, match="init has numbers that are not finite"):
        fit(Wild())


def test_batches_are_made_anew_for_each_pass() -> None:
    with pytest.raises(bl.datasources.DataError, match="is a list; must be a function of the pass"):
        bl.datasources.IterableSource([X, X])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("base", "name", "told"),
    [
        (bl.Model, "cache", "field 'cache': is the name of an attribute of Model"),
        (bl.Model, "parameters", "field 'parameters': is the name of an attribute of Model"),
        (bl.Model, "states", "field 'states': is the name of an attribute of Model"),
        (bl.Model, "score", "field 'score': is the name of a method of Model"),
        (Own, "number", "field 'number': is the name of a method of Own"),
        (SGD, "scale", "field 'scale': is the name of a method of SGD"),
        (SGD, "state", "field 'state': is the name of an attribute of SGD"),
        (Mixin, "tables", "field 'tables': is the name of an attribute of Mixin"),
        (Mixin, "model_copy", "field 'model_copy': is the name of a method of Mixin"),
    ],
)
@pytest.mark.filterwarnings("ignore:Field name")  # pydantic's, before the error
def test_fields_do_not_take_names_of_the_base(base: Any, name: str, told: str) -> None:
    with pytest.raises(TypeError, match=f"M: {told}"):
        type("M", (base,), {"__annotations__": {name: int}, name: 1, "__module__": __name__})


@pytest.mark.parametrize("name", ["cache", "terms", "states", "score", "penalised"])
def test_matrices_do_not_take_names_of_the_base(name: str) -> None:
    class Named(Own):
        def allocate(self, shapes: Any, rng: Any) -> None:
            super().allocate(shapes, rng)
            setattr(self, name, self.parameter(name, 1, 1))

    with pytest.raises(ShapeError, match=f"Named.{name} = .* at .*test_mistakes"):
        fit(Named())


@pytest.mark.parametrize("name", ["converged", "needs", "needs_targets"])
def test_a_property_is_no_method(name: str) -> None:
    """A method is true, so `converged` would end the training after a pass."""
    with pytest.raises(TypeError, match=f"M.{name}: must be a property, as in Own"):
        type("M", (Own,), {name: lambda self: False, "__module__": __name__})


def test_a_method_is_no_property() -> None:
    with pytest.raises(TypeError, match="M.phases: must be a method, as in Own"):
        type("M", (Own,), {"phases": property(lambda self: (0,)), "__module__": __name__})


def test_values_of_the_base_may_be_properties_and_other_names_fields() -> None:
    class Free(Own):
        takes_counts = property(lambda self: self.rows > 4)  # type: ignore[assignment]
        rows: int = 4

    assert Free(rows=5).takes_counts


@pytest.mark.parametrize("name", ["judged_by", "settings_to_try"])
def test_parts_of_what_is_undecided_are_not_named_apart(name: str) -> None:
    """As in models of earlier versions."""
    with pytest.raises(TypeError, match=f"M.{name}: must be a part of what `undecided` returns"):
        type("M", (Own,), {name: property(lambda self: "objective"), "__module__": __name__})


def test_a_meaning_is_known() -> None:
    with pytest.raises(TypeError, match="meaning='gradient': must be 'gradients' or 'estimates'"):
        type("M", (Own,), {"meaning": "gradient", "__module__": __name__})


def test_parameters_are_made_in_allocate() -> None:
    class Late(Own):
        def update(self, block: Any) -> None:
            self.parameter("late", 1, 1)

    with pytest.raises(
        ShapeError, match=r"'late' at .*test_mistakes.*must be made in allocate\(\)"
    ):
        fit(Late())


@pytest.mark.parametrize(
    ("part", "told"),
    [
        (
            lambda block: {"loss": bl.Sum(block.X, 1.0)},
            "'loss': total is 5 x 4; must be one",
        ),
        (lambda block: {"loss": bl.Sum(1.0, block.weights)}, "'loss': count is 5 x 1"),
        (lambda block: {1: bl.Sum(1.0, 1.0)}, "score: 1: must be a text"),
        (lambda block: {"rows": bl.Sum(1.0, 1.0)}, "'rows': is written beside scores"),
    ],
)
def test_scores_are_numbers_with_names_of_their_own(part: Any, told: str) -> None:
    """A model with a score called `rows` was saved, and could not be loaded."""

    class Scoring(Own):
        def score(self, block: Any) -> Any:
            return part(block)

    with pytest.raises(ValueError, match=told):
        fit(Scoring())


def test_names_beside_scores_are_known() -> None:
    assert {*FIELDS, *POSITION, *STEPS, WHICH, LOST} == TAKEN


@pytest.mark.parametrize("found", [3.0, None, "W", bl.Sum(1.0, 1.0)])
def test_scores_of_mixins_are_numbers_of_the_cache(found: Any) -> None:
    class Scoring(Mixin):
        kind: str = "scoring"

        def scores(self) -> dict[str, Any]:
            return {"size": self.tables["W"] if found == "W" else found} if found else found

    with pytest.raises(TypeError, match="Scoring.scores returns .*but must return numbers of the"):
        fit(Own(), mixins=[Scoring(parameters=["W"])])


class Rows:
    """The rows of X, as a source of one's own; the base of mistakes."""

    shape: Any = bl.datasources.BlockShape(5, 4, 0, 15, dense=True, targets=1)
    blocks: Any = 3
    names = None
    fingerprint = "0" * 16

    def read(self, pass_: int, index: int, into: Any) -> None:
        rows = slice(5 * index, 5 * index + 5)
        self.fill(into, np.arange(15)[rows], X[rows], Y[rows])
        into.finish(pass_=pass_, index=index, rows=5)

    def fill(self, into: Any, ids: Any, X: Any, Y: Any) -> None:
        into.row_ids[:], into.dense[:], into.targets[:] = ids, X, Y


def replaced(name: str) -> Any:
    """A `fill` that replaces an array of the block."""

    def fill(self: Any, into: Any, ids: Any, X: Any, Y: Any) -> None:
        Rows.fill(self, into, ids, X, Y)
        setattr(into, name, getattr(into, name).astype(np.float64))

    return fill


def unnumbered(self: Any, into: Any, ids: Any, X: Any, Y: Any) -> None:
    """A `fill` that forgets the numbers of rows."""
    into.dense[:], into.targets[:] = X, Y


@pytest.mark.parametrize(
    ("own", "told"),
    [
        ({"shape": (15, 4)}, "Rows.shape is a tuple; must be a .*BlockShape"),
        ({"blocks": lambda self: 3}, "Rows.blocks is a method; must be a whole number"),
        ({"blocks": 2}, "blocks=2 of shape.rows=5 rows: must hold all of shape.total_rows=15"),
        ({"fill": unnumbered}, "no row has a number"),
        ({"fill": replaced("dense")}, "block.dense: was replaced by another array"),
        ({"fill": replaced("targets")}, "block.targets: was replaced by another array"),
        ({"fill": replaced("row_ids")}, "block.row_ids: was replaced by another array"),
    ],
)
def test_what_a_source_says_must_agree(own: Any, told: str) -> None:
    """Two blocks of three were trained on, and float64 numbers were read as float32."""
    source = type("Rows", (Rows,), own)()
    with pytest.raises((bl.datasources.DataError, ReadError), match=told):
        bl.Learner(Own(), source, passes=2, verbose=False).fit()


def test_a_class_is_no_source() -> None:
    with pytest.raises(bl.datasources.DataError, match="Rows: is a class; must be a source. Write"):
        bl.Learner(Own(), Rows, verbose=False)
    bl.Learner(Own(), Rows(), passes=2, verbose=False).fit()


class Momentum(SGD):
    """The base of mistakes in optimizers."""

    def slots(self) -> Any:
        return {"m": Slot("all")}

    def direction(self, g: Any, *state: Any) -> Any:
        (m,) = state
        m <<= 0.9 * m + g
        return m


class Unassigned(Momentum):
    def direction(self, g: Any, *state: Any) -> Any:
        (m,) = state
        m = 0.9 * m + g
        return 1.0 * m


class Counting(Momentum):
    def direction(self, g: Any, *state: Any) -> Any:
        self.times = getattr(self, "times", 0) + 1
        return super().direction(g, *state) / self.times


class Listed(Momentum):
    def slots(self) -> Any:
        return ["m"]


@pytest.mark.parametrize(
    ("optimizer", "told"),
    [
        (Unassigned, "Unassigned.direction: leaves the slot 'm' as it is. Write m <<= value"),
        (Counting, "direction sets self.times: must keep nothing in Python"),
        (Listed, r"slots returns \['m'\]: must be a dictionary of slots"),
    ],
)
def test_state_of_an_optimizer_is_in_slots(optimizer: Any, told: str) -> None:
    """Momentum was none, and a count stayed 1: both trained without an error."""
    fit(Own(), optimizer=Momentum(rate=0.1))
    with pytest.raises(CombinationError, match=told):
        fit(Own(), optimizer=optimizer(rate=0.1))


def test_an_optimizer_may_compute_a_constant_when_it_is_read() -> None:
    class Halving(SGD):
        @cached_property
        def share(self) -> float:
            return 0.5

        def direction(self, g: Any, *state: Any) -> Any:
            return g * self.share

    fit(Own(), optimizer=Halving(rate=0.1))


def test_a_step_changes_something() -> None:
    class Lost(StatisticsOptimizer):
        kind: str = "lost"

        def step(self, updates: Any, objective: Any = None) -> None:
            for name, estimate in updates.items():
                w = self.parameters[name]
                w = w + 0.1 * (estimate - w)

    with pytest.raises(CombinationError, match="Lost.step: changes no parameter and no state"):
        bl.Learner(bl.models.LDA(topics=2), bl.sparse(X > 0), optimizer=Lost(), verbose=False).fit()


@pytest.mark.parametrize("found", ["adam", SGD, 0.1])
def test_a_default_optimizer_is_one(found: Any) -> None:
    class Defaults(Own):
        def default_optimizer(self) -> Any:
            return found

    with pytest.raises(TypeError, match="default_optimizer returns .*must be an optimizer"):
        fit(Defaults())


@pytest.mark.parametrize("found", [lambda W: W.T @ W, lambda W: None])
def test_a_gradient_of_a_mixin_has_the_shape_of_its_parameter(found: Any) -> None:
    """One of another shape was added to every row."""

    class Wrong(Mixin):
        kind: str = "wrong"
        smooth: ClassVar = True

        def gradient(self, W: Any) -> Any:
            return found(W)

        def scores(self) -> dict[str, Any]:
            return {}

    with pytest.raises(CombinationError, match="wrong.gradient is .*but 'W' is 4 x 1"):
        fit(Own(), mixins=[Wrong(parameters=["W"])])


def test_a_name_in_penalised_is_that_of_the_model() -> None:
    class Misspelt(Own):
        def allocate(self, shapes: Any, rng: Any) -> None:
            super().allocate(shapes, rng)
            self.penalised = ["w"]

    with pytest.raises(CombinationError, match="penalised or takes_terms of Misspelt names"):
        fit(Misspelt(), mixins=[L2(weight=0.1)])


@pytest.mark.parametrize(
    "wrong",
    [
        lambda X, W: X - (X @ W) @ W.T,
        lambda X, W: W @ X,
        lambda X, W: total(X @ W),
        lambda X, W: X @ W if X @ W > 0.0 else X,
        lambda X, W: np.tanh(X @ W),
    ],
)
def test_errors_of_a_loss_name_its_line(wrong: Any) -> None:
    class Lossy(LossModel):
        def allocate(self, shapes: Any, rng: Any) -> None:
            self.W = self.parameter("W", shapes.columns, 1)

        def loss(self, X: Any, W: Any) -> Any:  # type: ignore[override]
            return wrong(X, W)

        def predict(self, block: Any) -> Any:
            return (block.X @ self.W).mat()

    with pytest.raises((ShapeError, TypeError), match=r"test_mistakes\.py:\d+"):
        fit(Lossy())
