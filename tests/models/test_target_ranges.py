"""Targets that a link cannot have are named before anything is learned from them."""

from typing import Any

import numpy as np
import pytest

import blocklearn as bl
from blocklearn.models import GLM, Target
from blocklearn.models.errors import TargetRangeError
from tests.support.often import first_often

X = bl.sparse(np.random.default_rng(0).poisson(1.0, (40, 5)))
SIGNS = np.where(np.arange(40) % 2, 1.0, -1.0)


def fit(model: GLM, Y: Any) -> bl.Learner:
    return bl.Learner(model, (X, Y), block_rows=16, threads=1).fit()


@pytest.mark.parametrize("link", ["logistic", "hinge"])
def test_signs_are_no_classes(link: Any) -> None:
    message = f"target '0' is -1 in a row: for link {link} it must be between .*classes: true.*lin"
    with pytest.raises(TargetRangeError, match=message):
        fit(GLM(link=link), SIGNS)
    fit(GLM(link=link), SIGNS > 0)
    fit(GLM(link="linear"), SIGNS)


def test_numbers_of_classes_are_no_probabilities() -> None:
    with pytest.raises(TargetRangeError, match="target '0' is 2 in a row"):
        fit(GLM(), np.arange(40) % 3)
    fit(GLM(), np.linspace(0.0, 1.0, 40))  # mixtures of both classes are


def test_counts_are_not_negative() -> None:
    with pytest.raises(TargetRangeError, match="link poisson it must not be negative"):
        fit(GLM(link="poisson"), SIGNS)
    fit(GLM(link="poisson"), np.arange(40))


@pytest.mark.slow
def test_only_targets_that_are_used_are_checked() -> None:
    Y = np.stack([SIGNS, SIGNS > 0, np.arange(40)], axis=1)
    fit(GLM(targets=[Target(column=1), Target(column=0, link="linear")]), Y)
    softmax = Target(columns=[1, 2], name="kind")
    with pytest.raises(TargetRangeError, match=r"target '2' is \d+ in a row: for link softmax"):
        fit(GLM(targets=[softmax]), Y)
    with pytest.raises(TargetRangeError, match=r"target '2' is \d+ in a row: for link logistic"):
        fit(GLM(targets=[Target(column=2, link="linear", name="n"), Target(column=2)]), Y)


LINKS = ["linear", "poisson", "logistic"]


@pytest.mark.parametrize("links", first_often(LINKS[n:] + LINKS[:n] for n in range(3)))
def test_of_several_links_the_narrowest_range_counts(links: Any) -> None:
    every = [Target(column=0, link=link, name=link) for link in links]
    with pytest.raises(
        TargetRangeError, match="target '0' is 2 in a row: for link logistic it must be"
    ):
        fit(GLM(targets=every), 2 * (SIGNS > 0))
    some = [target for target in every if target.link != "logistic"]
    with pytest.raises(
        TargetRangeError, match="target '0' is -1 in a row: for link poisson it must"
    ):
        fit(GLM(targets=some), SIGNS)


def test_data_to_evaluate_on_are_checked_too() -> None:
    learner = fit(GLM(), SIGNS > 0)
    with pytest.raises(TargetRangeError, match="is -1 in a row"):
        learner.evaluate((X, SIGNS))
    assert learner.predict(X).shape == (40, 1)


def test_the_row_is_named() -> None:
    Y = np.zeros(40)
    Y[29] = 7.0
    with pytest.raises(TargetRangeError, match="target '0' is 7 in a row") as found:
        fit(GLM(), Y)
    assert "in row 29 of the data, counted from 0" in found.value.__notes__
