"""Convert between users' classes or labels and the 0/1 columns that a model learns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

from blocklearn.answers import shown

from ..base import Array
from ..constraints import AMOUNT
from ..parameters import plain
from ..row_weights import weights_of
from ..scikit import check_classification_targets, type_of_target

MANY = 2  # rows for each class, with which whole numbers are surely classes


@dataclass(frozen=True)
class Classes:
    """The classes or labels of a classifier.

    kind: two classes, several classes, or labels, of which a row has any number.
    names: the classes in ascending order; for labels, their numbers.
    owner: the name of the classifier, for messages.
    """

    kind: Literal["binary", "classes", "labels"]
    names: Array
    owner: str

    @classmethod
    def of(cls, y: Any, owner: str) -> Classes:
        """Return the classes of y: [n], or [n x labels] of 0 and 1.

        Raises:
            ValueError: y has another form, or only one class.
        """
        if y.ndim == 1 and y.dtype.kind in "biu":
            names = np.unique(y)
            if MANY * names.size <= y.size:
                return cls.named(names, owner)
        kind = type_of_target(y, input_name="y")
        if kind == "multilabel-indicator":
            return cls("labels", np.arange(y.shape[1]), owner)
        if kind not in ("binary", "multiclass"):
            check_classification_targets(y)
            raise ValueError(
                f"Unknown label type: {kind}. {owner} takes classes [n], or labels [n x labels] of "
                "0 and 1."
            )
        return cls.named(np.unique(y), owner)

    @classmethod
    def given(cls, y: Any, classes: Any, owner: str) -> Classes:
        """Return the classes of a whole stream: `classes`, or the columns of a matrix of labels."""
        if classes is None:
            if y.ndim == 2:
                return cls.of(y, owner)
            raise ValueError(f"{owner}: the first call of partial_fit needs `classes`.")
        refuse_mixture(classes, f"{owner}: classes")
        return cls.named(np.unique(np.asarray(classes)), owner)

    @classmethod
    def named(cls, names: Array, owner: str) -> Classes:
        """Return two or more classes.

        Raises:
            ValueError: there are fewer than two.
        """
        if names.size < 2:
            raise ValueError(
                f"{owner}: y has one class only, {names.tolist()}; two or more are needed."
            )
        return cls("binary" if names.size == 2 else "classes", names, owner)

    def codes(self, y: Array) -> Array:
        """Return the positions in `names` of the classes y [n].

        Raises:
            ValueError: y has an unknown class.
        """
        places = np.searchsorted(self.names, y)
        places = np.minimum(places, self.names.size - 1)
        wrong = self.names[places] != y
        if wrong.any():
            raise ValueError(
                f"y has the class {plain(y[wrong][0])!r}, but the classes are "
                f"{self.names.tolist()}; the first call of partial_fit must get all of them as "
                "`classes`."
            )
        return places

    def columns(self, y: Any) -> Any:
        """Return y as a model learns it.

        Two classes: float32 [n], 1 for the second one.
        Several classes: sparse [n x classes] of 0 and 1.
        Labels: [n x labels] of 0 and 1.

        Raises:
            ValueError: y has an unknown class, another shape than at first, or labels besides 0
                and 1.
        """
        if self.kind == "labels":
            if y.ndim != 2 or y.shape[1] != self.names.size:
                raise ValueError(
                    f"y has the shape {y.shape}, but must have a column of 0 and 1 for each of "
                    f"{self.names.size} labels."
                )
            self._check_labels(y)
            return y
        if y.ndim != 1:
            raise ValueError(
                f"{self.owner}: y has the shape {y.shape}, but must have a class for each row [n], "
                "as at first. Call fit to begin anew."
            )
        codes = self.codes(y)
        if self.kind == "binary":
            return codes.astype(np.float32)
        ones = np.ones(codes.size, np.float32)
        shape = (codes.size, self.names.size)
        return sp.csr_array((ones, codes, np.arange(codes.size + 1)), shape=shape)

    def _check_labels(self, y: Any) -> None:
        """Raise ValueError if labels are not all 0 or 1."""
        values = y.tocsr().data if sp.issparse(y) else y
        wrong = (values != 0) & (values != 1)
        if wrong.any():
            raise ValueError(
                f"{self.owner}: y has a label {plain(values[wrong][0])}, but labels must be 0 or "
                "1. Write y > 0, or whatever says which are true."
            )

    def weights(self, class_weight: Any, y: Any, sample_weight: Any) -> list[float] | None:
        """Return a factor of the loss for each class; None if there are no class weights.

        class_weight: a mapping by class, or "balanced": n / (classes * n of the class), where n
        sums the weights of rows.
        """
        if class_weight is None:
            return None
        if isinstance(class_weight, Mapping):
            class_weight = {plain(name): plain(weight) for name, weight in class_weight.items()}
        if self.kind == "labels":
            raise ValueError(
                f"{self.owner}: class_weight is for classes, but y is a matrix of labels."
            )
        if isinstance(class_weight, str) and class_weight == "balanced":
            weights = None if sample_weight is None else weights_of(len(y), sample_weight)
            counts = np.bincount(self.codes(y), weights, self.names.size)
            balanced = counts.sum() / (self.names.size * np.where(counts > 0, counts, 1.0))
            return [float(w) for w in np.where(counts > 0, balanced, 1.0)]
        self._check_weights(class_weight)
        return [float(class_weight.get(plain(name), 1.0)) for name in self.names]

    def _check_weights(self, class_weight: Any) -> None:
        """Raise ValueError unless `class_weight` maps classes to numbers."""
        start = f"{self.owner}: class_weight={shown(class_weight)}: "
        if not isinstance(class_weight, Mapping):
            raise ValueError(f"{start}must be a mapping by class, 'balanced' or None.")
        wrong = {name: weight for name, weight in class_weight.items() if not AMOUNT.holds(weight)}
        for name, weight in wrong.items():
            raise ValueError(f"{start}the weight of {name!r}, {weight!r}, must be {AMOUNT.must}.")
        classes = self.names.tolist()
        if all(name in class_weight for name in classes):
            return  # further ones may be in other rows
        for name in class_weight:
            if name not in classes:
                raise ValueError(
                    f"{start}{name!r} is no class of y; the classes are {shown(classes)}."
                )

    def decided(self, scores: Array) -> Array:
        """Return each row's class from its scores [n] or [n x classes]; for labels, 0 and 1."""
        if self.kind == "labels":
            return (scores > 0.0).astype(np.int64)
        places = (scores > 0.0).astype(np.int64) if self.kind == "binary" else scores.argmax(axis=1)
        found: Array = self.names[places]
        return found


def refuse_mixture(labels: Any, what: str) -> None:
    """Check that labels are all texts, or none of them is.

    what: their name in the message.

    Raises:
        ValueError: some are texts and others are numbers, which NumPy would turn into texts.
    """
    kind = getattr(getattr(labels, "dtype", None), "kind", None)
    many = kind == "O" and labels.ndim > 0
    if not (isinstance(labels, list | tuple) or many):
        return
    first: dict[bool, Any] = {}
    for label in labels:
        if isinstance(label, str | Real) and label == label:  # gaps are reported later
            first.setdefault(isinstance(label, str), label)
    if len(first) == 2:
        raise ValueError(
            f"{what} has texts and numbers, such as {first[True]!r} and {plain(first[False])!r}: "
            "must be of one kind. Convert all to texts."
        )
