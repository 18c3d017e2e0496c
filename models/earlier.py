"""Names that models of earlier versions define: most still work, with a warning."""

from __future__ import annotations

import warnings
from typing import ClassVar, Protocol

from .block_size import BlockSize
from .inputs import Needs

SIZES = {"steps_of_pass": "steps", "least_block": "least", "largest_block": "most"}
NEEDS = {
    "needs_counts": "counts",
    "needs_value_sums": "value_sums",
    "most_tokens": "tokens",
    "sample_rows": "sample",
}
"""Names of earlier versions, and fields of `Model.block_size` and `Model.needs`."""
GONE = "judged_by", "settings_to_try"  # parts of what `Model.undecided` returns now


class HasBlocks(Protocol):
    """The part of a model that has new names."""

    block_size: ClassVar[BlockSize]


def take_earlier(cls: type[HasBlocks]) -> None:
    """Warn of names of earlier versions in a class of a model, and use its sizes of blocks.

    Raises TypeError for a name that means nothing any more.
    """
    for name in GONE:
        if name in vars(cls):
            raise TypeError(
                f"{cls.__name__}.{name}: must be a part of what `undecided` returns: a "
                "blocklearn.models.Undecided(what, judged_by, to_try), or None."
            )
    for names, now in ((SIZES, "block_size = BlockSize"), (NEEDS, "needs = Needs")):
        for name in names.keys() & vars(cls).keys():
            text = f"{cls.__name__}.{name} is now {now}({names[name]}=...), of blocklearn.models"
            warnings.warn(text, DeprecationWarning, stacklevel=5)  # the line of the class
    sizes = {new: vars(cls)[name] for name, new in SIZES.items() if name in vars(cls)}
    cls.block_size = cls.block_size._replace(**sizes)


def earlier_needs(model: object) -> Needs:
    """Return `Model.needs` of a class of earlier versions, or none."""
    found = {new: getattr(model, name) for name, new in NEEDS.items() if hasattr(model, name)}
    return Needs()._replace(**found)
