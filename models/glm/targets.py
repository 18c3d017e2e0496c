"""Targets of linear models as the user states them, and fits as they run."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, Protocol, Self

from annotated_types import Ge, Gt, Lt, MinLen
from pydantic import Field, model_validator

from blocklearn.fields import Fields

from ..errors import TargetError
from .columns import Column, Names
from .links import LINKS, LinkName

Weight = Annotated[float, Ge(0), Lt(1e30)]
Weights = Annotated[list[Weight], MinLen(1)]
ClassWeight = Literal["balanced"] | dict[int | str, Weight]


class Target(Fields):
    """One target to predict: a column, or the columns of a softmax group.

    Lists for l1, l2, rate make a grid: one fit for each combination, all trained in one run.
    Columns are numbers, or names where the data have them. A field of None is taken from the model.
    """

    name: str | None = Field(None, description="name of the target; null: that of its column")
    link: LinkName | None = Field(None, description="link of the target; null: that of the model")
    shape: float | None = Field(
        None,
        description="of the loss; huber: error from which it is linear [1]; quantile: share of "
        "targets below [0.5]; tweedie: power of the mean in the variance, 1 to 2 [1.5]",
    )
    column: Column | None = Field(None, description="column of the data's targets")
    columns: list[Column] | None = Field(
        None, min_length=2, description="softmax: a column of 0 and 1 for each class"
    )
    l1: Weight | Weights | None = Field(None, description="penalty on the sum of absolute weights")
    l2: Weight | Weights | None = Field(
        None, description="penalty on half the sum of their squares"
    )
    rate: Annotated[float, Gt(0)] | list[Annotated[float, Gt(0)]] = Field(
        1.0, description="factor of the optimizer's rate"
    )
    class_weight: ClassWeight | None = Field(
        None, description="factors of the losses, by class (0, 1; names for softmax), or balanced"
    )
    row_weights: Column | None = Field(
        None, description="column of the data's targets that holds weights of rows for this target"
    )
    features: list[Column] | None = Field(
        None, min_length=1, description="the only features that the target may use; null: all"
    )

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if (self.column is None) == (self.columns is None):
            raise ValueError("a target has either `column`, or `columns` (softmax: its classes)")
        if self.columns is not None and len(set(self.columns)) < len(self.columns):
            raise ValueError(f"columns={self.columns} has one twice; a class has one column")
        if self.link is not None and (self.link == "softmax") != (self.columns is not None):
            raise ValueError(
                f"link={self.link} with {'columns' if self.columns else 'column'}: softmax takes "
                "`columns`, one for each class, and every other link one `column`"
            )
        return self


@dataclass(frozen=True)
class Fit:
    """One problem to solve: the columns of W from `start` on, one for each of `y`.

    name: `base`, with the settings of the grid.
    base: name of the target.
    y: columns of the data's targets.
    classes: names of these columns.
    row_weights: column of the data's targets with weights of rows; None: there is none.
    features: the only features it may use; None: all.
    shape: of the link's losses; None: the link has none.
    grid: the settings that tell it from other fits of its target.
    """

    name: str
    base: str
    link: LinkName
    y: tuple[int, ...]
    classes: tuple[str, ...]
    start: int
    l1: float
    l2: float
    rate: float
    class_weight: ClassWeight | None
    row_weights: int | None
    features: tuple[int, ...] | None
    shape: float | None
    grid: dict[str, float]

    @property
    def columns(self) -> slice:
        """The fit's columns of W."""
        return slice(self.start, self.start + len(self.y))

    @property
    def names(self) -> list[str]:
        """The names of the fit's columns."""
        if self.link != "softmax":
            return [self.name]
        return [f"{self.name}.{name}" for name in self.classes]

    def weights_of_classes(self) -> list[float]:
        """Return the given class weights in order of the classes; 1 for others.

        Raises TargetError for an unknown class.
        """
        known = self.classes if self.link == "softmax" else ("0", "1")
        numbers = dict(zip(map(str, self.y), known, strict=True)) if self.link == "softmax" else {}
        assert isinstance(self.class_weight, dict)
        found: dict[str, float] = {}
        for key, weight in self.class_weight.items():
            name = str(key) if str(key) in known else numbers.get(str(key))
            if name is None:
                raise TargetError(
                    f"GLM: target {self.name!r}: class_weight names the class {key!r}; there are "
                    f"{', '.join(known)}."
                )
            found[name] = float(weight)
        return [found.get(name, 1.0) for name in known]


class Defaults(Protocol):
    """The settings of a model that replace a target's None: see `GLM`."""

    link: LinkName
    shape: float | None
    l1: Weight | list[Weight]
    l2: Weight | list[Weight]
    class_weight: ClassWeight | None


def fits_of(
    targets: Sequence[Target] | None,
    defaults: Defaults,
    labels: Names,
    features: Names,
) -> list[Fit]:
    """Return every fit of the targets.

    Raises TargetError for columns that the data do not have, and for a name that occurs twice.

    targets: None: one for each column of the data's targets.
    defaults: settings for targets that leave them open.
    """
    if targets is None:
        targets = every_column(defaults.link, labels.count)
    found: list[Fit] = []
    start = 0
    for target in targets:
        link = target.link or ("softmax" if target.columns is not None else defaults.link)
        if (link == "softmax") != (target.columns is not None):
            raise TargetError(
                f"GLM: target {target.column!r} has the link softmax, which needs `columns`, one "
                "for each class."
            )
        given = target.columns if target.columns is not None else [target.column]
        y = tuple(labels.number(column) for column in given if column is not None)
        classes = tuple(labels.name(i) for i in y)
        base = target.name or (classes[0] if len(y) == 1 else group_name(classes))
        own = None if target.row_weights is None else labels.number(target.row_weights)
        only = None
        if target.features is not None:
            only = tuple(sorted({features.number(column) for column in target.features}))
        settings = {
            "l1": defaults.l1 if target.l1 is None else target.l1,
            "l2": defaults.l2 if target.l2 is None else target.l2,
            "rate": target.rate,
        }
        for grid in combinations(settings):
            several = {k: v for k, v in grid.items() if isinstance(settings[k], list)}
            label = "".join(f" {k}={v:.4g}" for k, v in several.items())
            fit = Fit(
                name=base + label,
                base=base,
                link=link,
                y=y,
                classes=classes,
                start=start,
                class_weight=target.class_weight or defaults.class_weight,
                row_weights=own,
                features=only,
                shape=shape_of(base, link, target, defaults),
                grid=several,
                **grid,
            )
            start += len(y)
            found.append(fit)
    check_names(found)
    return found


def shape_of(name: str, link: LinkName, target: Target, defaults: Defaults) -> float | None:
    """Return the shape of a target's losses; None if its link has none.

    Raises TargetError for a shape out of bounds, or of a target whose link has none.
    """
    known, shape = LINKS[link].shape, target.shape
    if shape is None and target.link in (None, defaults.link):
        shape = defaults.shape
    if known is None and shape is not None:
        some = ", ".join(name for name, one in LINKS.items() if one.shape is not None)
        raise TargetError(
            f"GLM: target {name!r}: shape={shape:g}: must be null for link {link}. Leave it out, "
            f"or choose one of {some}."
        )
    if known is None or shape is None:
        return None if known is None else known.default
    if not known.low < shape < known.high:
        raise TargetError(
            f"GLM: target {name!r}: shape={shape:g}: must be between {known.low:g} and "
            f"{known.high:g}, the {known.what} of link {link}."
        )
    return shape


def every_column(link: LinkName, count: int) -> list[Target]:
    """Return one target for each column, or one softmax group of all columns."""
    if link == "softmax":
        if count < 2:
            raise TargetError(
                "GLM: link='softmax': must have two classes or more, a target of 0 and 1 for each, "
                "but the data have one target. Either all rows have the same class, or give the "
                "classes as texts: in Python (X, Y.astype(str)), in a table classes: true."
            )
        return [Target(link=link, columns=list(range(count)))]
    return [Target(column=i) for i in range(count)]


def combinations(settings: Mapping[str, float | list[float]]) -> list[dict[str, float]]:
    """Return the product of all lists.

    >>> combinations({"l1": [0.0, 1.0], "l2": 0.5})
    [{'l1': 0.0, 'l2': 0.5}, {'l1': 1.0, 'l2': 0.5}]
    """
    lists = (v if isinstance(v, list) else [v] for v in settings.values())
    return [dict(zip(settings, values, strict=True)) for values in itertools.product(*lists)]


def group_name(classes: tuple[str, ...]) -> str:
    """Name a softmax group by its classes.

    >>> group_name(("cat", "dog"))
    'cat+dog'
    >>> group_name(tuple("abcdef"))
    'a+...+f'
    """
    return "+".join(classes if len(classes) <= 4 else (classes[0], "...", classes[-1]))


def check_names(fits: Sequence[Fit]) -> None:
    """Raise TargetError if two fits have the same name."""
    seen: set[str] = set()
    for fit in fits:
        if fit.name in seen:
            raise TargetError(
                f"GLM: two targets are called {fit.name!r}, and scores are told apart by name; "
                "give one of them another `name`."
            )
        seen.add(fit.name)
