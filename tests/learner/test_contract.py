"""What is said of a model of one's own whose methods return something else than they should."""

import re
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from pydantic import Field

import blocklearn as bl
from blocklearn.datasources import MatrixSource
from blocklearn.fields import FieldError
from blocklearn.matcache import ShapeError, StaleValueError, colsum, rowwise, total
from blocklearn.optimizers import (
    LBFGS,
    SGD,
    AdaGrad,
    CombinationError,
    Gradient,
    IncNorm,
    LinearLoss,
)

X = np.random.default_rng(0).normal(size=(40, 3))


class Mean(bl.Model):
    """Columns' means, one block after another: divides by what is in a block."""

    def allocate(self, shapes: Any, rng: Any) -> None:
        self.sums = self.parameter("sums", 1, shapes.columns)
        self.ones = self.parameter("ones", 1, shapes.rows, 1.0)

    def update(self, block: Any) -> None:
        self.sums <<= self.sums + (1.0 / block.rows) * (self.ones @ block.X)

    def score(self, block: Any) -> Any:
        return {"size": bl.Sum(0.5 * total(block.X * block.X), block.weight)}

    def predict(self, block: Any) -> Any:
        return block.X @ self.sums.T


def fit(model: bl.Model, **settings: Any) -> bl.Learner:
    in_order = MatrixSource(X, block_rows=16)
    return bl.Learner(model, train=in_order, eval=X, passes=1, block_rows=16, **settings).fit()


def test_a_block_that_is_planned_has_rows_to_divide_by() -> None:
    learner = fit(Mean())
    means = X[:16].mean(axis=0) + X[16:32].mean(axis=0) + X[32:].mean(axis=0)
    np.testing.assert_allclose(learner.parameter("sums")[0], means, rtol=1e-5)
    assert learner.progress.scores["size"] == pytest.approx((X * X).sum() / len(X) / 2)
    np.testing.assert_allclose(learner.predict(X)[:, 0], X @ means, rtol=1e-4, atol=1e-6)


def test_scores_are_sums_by_name() -> None:
    class Plain(Mean):
        def score(self, block: Any) -> Any:
            return {"size": total(block.X)}

    class Number(Mean):
        def score(self, block: Any) -> Any:
            return 3.0

    with pytest.raises(TypeError, match=r"Plain\.score returns {'size': Scalar}, but .*bl\.Sum"):
        fit(Plain())
    with pytest.raises(TypeError, match=r"Number\.score returns float, but"):
        fit(Number())


def test_predictions_have_a_row_for_each_row() -> None:
    class Forgotten(Mean):
        def predict(self, block: Any) -> Any:
            block.X @ self.sums.T

    class Parameter(Mean):
        def predict(self, block: Any) -> Any:
            return self.sums

    class Sparse(Mean):
        def update(self, block: Any) -> None:
            self.sums <<= 1.0 * self.sums

        def predict(self, block: Any) -> Any:
            return block.X * 2.0

    with pytest.raises(TypeError, match=r"Forgotten\.predict returns NoneType"):
        fit(Forgotten())
    with pytest.raises(TypeError, match=r"Sparse\.predict returns a sparse matrix"):
        bl.Learner(Sparse(), train=sp.csr_array(X), block_rows=16).fit()
    with pytest.raises(ShapeError, match=r"Parameter\.predict returns 1 x 3, .* has 16 rows"):
        fit(Parameter())


def test_targets_that_are_not_there_are_named() -> None:
    class Shifted(Mean):
        def update(self, block: Any) -> None:
            self.sums <<= self.sums + colsum(block.X + block.Y)

    with pytest.raises(ShapeError, match=r"add at .*None in place of a matrix.*pass \(X, Y\)"):
        fit(Shifted())


def test_an_optimizer_without_work_is_refused() -> None:
    with pytest.raises(CombinationError, match=r"Mean\.update fills no self\.updates.*SGD"):
        fit(Mean(), optimizer=SGD(rate=0.1))


class Regression(Mean):
    """Two columns of weights, which an optimizer moves."""

    def allocate(self, shapes: Any, rng: Any) -> None:
        self.W = self.sums = self.parameter("W", shapes.columns, 2)

    def predict(self, block: Any) -> Any:
        return block.X @ self.W


def regression(found: Any, name: str = "W") -> type[bl.Model]:
    class Own(Regression):
        def update(self, block: Any) -> None:
            self.updates[name] = found(self, block)

    return Own


@rowwise
def squares(eta: Any) -> Any:
    return eta, 0.5 * eta * eta


@rowwise
def only_losses(eta: Any) -> Any:
    return 0.5 * eta * eta


@pytest.mark.parametrize("optimizer", [SGD(), AdaGrad(), LBFGS()])
def test_linear_losses_fit_their_parameters(optimizer: Any) -> None:
    class Biased(Regression):
        def allocate(self, shapes: Any, rng: Any) -> None:
            super().allocate(shapes, rng)
            self.parameter("narrow", 1, 1)
            self.parameter("turned", 2, 3)

        def update(self, block: Any) -> None:
            found = squares if self.whole else only_losses
            self.updates[self.of] = LinearLoss(block, found, bias=self.bias)

        of: str = "W"
        whole: bool = True
        bias: str | None = None

    with pytest.raises(ShapeError, match=r"'W'\]: bias='c' is no parameter; must be .* 1 x 2"):
        fit(Biased(bias="c"), optimizer=optimizer)
    with pytest.raises(ShapeError, match=r"bias='narrow' is 1 x 1; must be a parameter 1 x 2"):
        fit(Biased(bias="narrow"), optimizer=optimizer)
    with pytest.raises(ShapeError, match=r"updates\['turned'\] is 3 x 3, but turned is 2 x 3"):
        fit(Biased(of="turned"), optimizer=optimizer)
    fit(Biased(), optimizer=optimizer)
    with pytest.raises(ShapeError, match=r"losses=only_losses returns 1 values; must be two"):
        fit(Biased(whole=False), optimizer=optimizer)


def test_full_passes_take_one_linear_loss_alone() -> None:
    class Two(Regression):
        def allocate(self, shapes: Any, rng: Any) -> None:
            super().allocate(shapes, rng)
            self.V = self.parameter("V", shapes.columns, 2)

        def update(self, block: Any) -> None:
            self.updates["W"] = LinearLoss(block, squares)
            self.updates["V"] = 1.0 * self.V

    with pytest.raises(CombinationError, match=r"LinearLoss of 'W' beside other .*\(W, V\)"):
        fit(Two(), optimizer=LBFGS())
    fit(Two(), optimizer=SGD())


@pytest.mark.parametrize("optimizer", [SGD(), AdaGrad(), LBFGS(), IncNorm()])
def test_updates_have_the_shape_of_their_parameters(optimizer: Any) -> None:
    def residuals(model: Any, block: Any) -> Any:
        return block.X @ model.W

    with pytest.raises(ShapeError, match=r"^Own\.update: updates\['W'\] is 16 x 2, but W is 3 x 2"):
        fit(regression(residuals)(), optimizer=optimizer)
    with pytest.raises(ShapeError, match=r"updates\['W'\] is 3 x 16, but W is 3 x 2\.$"):
        fit(
            regression(lambda model, block: Gradient(block.X, block.X @ block.X.T))(),
            optimizer=optimizer,
        )
    with pytest.raises(TypeError, match=r"updates\['W'\] is a ndarray, .*allocate: self"):
        fit(regression(lambda model, block: np.ones((3, 2)))(), optimizer=optimizer)
    with pytest.raises(ShapeError, match=r"updates\['V'\], but the parameters are 'W'\.$"):
        fit(regression(residuals, "V")(), optimizer=optimizer)


def test_a_parameter_starts_from_an_array_or_a_matrix_of_its_shape() -> None:
    start = np.array([[1.0, 0.5, -2.0]])

    class Started(Regression):
        def allocate(self, shapes: Any, rng: Any) -> None:
            self.W = self.sums = self.parameter("W", shapes.columns, 1, start.T)

        def update(self, block: Any) -> None:
            self.W <<= 1.0 * self.W

    class Ones(Mean):
        def allocate(self, shapes: Any, rng: Any) -> None:
            self.sums = self.parameter("sums", 1, 3, np.ones((3, 1)))

    class Turned(Mean):
        def allocate(self, shapes: Any, rng: Any) -> None:
            self.sums = self.parameter("sums", 1, 3, rng.uniform(3, 1))

    class Halves(Mean):
        def allocate(self, shapes: Any, rng: Any) -> None:
            self.sums = self.parameter("sums", 1, shapes.columns / 2)

    line = r"at .*test_contract\.py:\d+: "
    with pytest.raises(ShapeError, match=f"^sums {line}1 x 1.5; must be whole numbers"):
        fit(Halves())
    np.testing.assert_allclose(fit(Started()).predict(X), X @ start.T, rtol=1e-5)
    with pytest.raises(ShapeError, match=r"sums.set at .*shape \(3, 1\), expected \(1, 3\)"):
        fit(Ones())
    with pytest.raises(ShapeError, match=f"{line}sums is 1 x 3, the value 3 x 1"):
        fit(Turned())


def test_a_model_has_fields_in_place_of_init() -> None:
    with pytest.raises(TypeError, match=r"^Own: a model has no __init__ .* fields .* allocate\(\)"):

        class Own(Mean):
            def __init__(self, clusters: int = 8) -> None:
                self.clusters = clusters

    with pytest.raises(TypeError, match=r"^Inherits: a model has no __init__"):

        class Inherits(Initialised, Mean):
            pass


def test_a_state_of_rows_is_named_in_the_class() -> None:
    class Unnamed(Mean):
        def allocate(self, shapes: Any, rng: Any) -> None:
            super().allocate(shapes, rng)
            self.level = self.row_state("level", shapes, 1)

    with pytest.raises(ShapeError, match=r"^Unnamed.row_state\('level'\): row_states=\{\}: must"):
        fit(Unnamed())


@pytest.mark.parametrize("states", [["level"], "level", {"level": "rows"}, {"level": 2}])
def test_states_of_rows_have_sides(states: Any) -> None:
    with pytest.raises(TypeError, match=r"^Sided: row_states=.*: must be a dictionary of sides"):

        class Sided(Mean):
            row_states = states


class Initialised:
    def __init__(self, clusters: int = 8) -> None:
        self.clusters = clusters


def test_fields_are_what_they_say_and_can_be_saved(tmp_path: Any) -> None:
    class Wrong(Mean):
        rate: int = 0.5  # type: ignore[assignment]

    class Array(Mean):
        start: Any = np.ones(3)

    class Excluded(Mean):
        start: Any = Field(np.ones(3), exclude=True)

    with pytest.raises(FieldError, match="rate"):
        Wrong()
    with pytest.raises(TypeError, match=r"^Array: the field 'start' is a ndarray, .*exclude=True"):
        fit(Array())
    bl.save(fit(Excluded()), tmp_path / "model")
    assert bl.load(tmp_path / "model", model=Excluded).model.start.shape == (3,)
    with pytest.raises(TypeError, match=r"the class of the model: model=YourClass"):
        bl.load(tmp_path / "model", model=Excluded())  # type: ignore[arg-type]


def test_what_cannot_be_planned_is_checked_in_the_first_block() -> None:
    def read(model: Any, block: Any) -> Any:
        return float(total(block.X @ model.W).numpy()[0, 0])

    class Read(Mean):
        def update(self, block: Any) -> None:
            self.sums <<= self.sums + float(total(block.X).numpy()[0, 0])

        def predict(self, block: Any) -> Any:
            return (block.X @ self.sums.T).numpy()

    with pytest.raises(TypeError, match=r"updates\['W'\] is a float, .* allocate: self"):
        fit(regression(read)(), optimizer=SGD())
    with pytest.raises(TypeError, match=r"Read\.predict returns ndarray"):
        fit(Read()).predict(X)


def test_a_stale_update_names_the_line_of_the_model() -> None:
    class Stale(Regression):
        def update(self, block: Any) -> None:
            scale = self.scratch("scale", 1, 1)
            scale <<= 1.0
            self.updates["W"] = scale * (block.X.T @ block.X @ self.W)
            scale <<= 2.0

    class StaleProduct(Regression):
        def update(self, block: Any) -> None:
            kept = self.scratch("kept", block.X.shape[0], 2)
            kept <<= 1.0
            self.updates["W"] = block.X.T @ kept
            kept <<= 2.0

    for model in (Stale, StaleProduct):
        with pytest.raises(StaleValueError) as error:
            fit(model(), optimizer=SGD())
        line = model.update.__code__.co_firstlineno + 3
        assert re.search(
            rf"by the expression made at .*test_contract\.py:{line}\.", str(error.value)
        )
