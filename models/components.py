"""Find the connected components of a graph: labels spread along the links until none changes.

Shortcuts as in Shiloach, Vishkin, *An O(log n) parallel connectivity algorithm*, J. Algorithms 3
(1982). Differs: a label moves along links only, not from root to root, so paths of many pages in
random order take more passes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np

from blocklearn.matcache import (
    Mat,
    Rows,
    Sparse,
    Table,
    equal,
    maximum,
    ones_like,
    rowmax,
    rowwise,
    total,
)

from .errors import ModelConfigError
from .inputs import Block, Randomness, Shapes
from .link_model import LinkModel
from .score import Score, Sum

MOST_PAGES = 2**24  # float32 numbers them


@rowwise
def largest(X: Sparse, own: Rows, labels: Table) -> Rows:
    """Return the largest of a row's own label and those of its links."""
    return maximum(own, rowmax(labels[X]))


@rowwise
def spread(XT: Sparse, labels: Rows, found: Table) -> None:
    """Raise the label of a column to those of the rows that link to it."""
    labels <<= maximum(labels, rowmax(found[XT]))


class Components(LinkModel):
    """Finds connected components: pages that links join, in whichever direction they lead.

    X is square: a stored entry (i, j), not negative, is a link between page i and page j. The
    parameter `labels` [columns x 1] has the largest page number of each page's component. A
    component of d links from end to end takes at most d passes, and mostly few; training ends when
    no label changes. Weights of rows are ignored.
    """

    takes_counts: ClassVar[bool] = True  # sparse, and not negative
    prediction_columns: ClassVar[Sequence[str] | None] = ("component",)
    kind: Literal["components"] = "components"

    def allocate(self, shapes: Shapes, rng: Randomness) -> None:
        """Create the labels: at first each page has its own number."""
        n = self.number_of_pages(shapes)
        if n > MOST_PAGES:
            raise ModelConfigError(f"Components: {n:,} pages: must be at most {MOST_PAGES:,}.")
        numbers = np.arange(n, dtype=np.float32)[:, None]
        self.labels = self.parameter("labels", n, 1, numbers, merge="max")
        self.change = self.parameter("change", 1, 1, 1.0, merge="max")  # of labels in a pass
        self.numbers = self.parameter("numbers", n, 1, numbers, saved=False)
        self.before = self.parameter("before", n, 1, numbers, saved=False)

    def update(self, block: Block) -> None:
        """Spread the labels along the links of the block, in both directions."""
        at = self.pages(block)
        own = self.labels[at].mat()
        found = largest(block.X, own, self.labels)
        self.labels[at] += found - own  # rows of padding add 0
        spread(block.X.T, self.labels, found)

    def end_pass(self) -> None:
        """Replace each label by the label of that page, until trees of four levels are flat."""
        for _ in range(2):
            self.labels <<= self.labels[self.labels]
        self.change <<= total(self.labels - self.before)
        self.before <<= self.labels

    @property
    def converged(self) -> bool:
        """Whether no label has changed in the last pass."""
        return bool(self.change.numpy()[0, 0] == 0.0)

    def score(self, block: Block) -> Score:
        """Count the components; one without links counts, too."""
        found = total(equal(self.labels, self.numbers))
        return {"components": Sum(found, ones_like(found))}

    def predict(self, block: Block) -> Mat:
        """Return the label of each row's page [rows x 1]."""
        found: Mat = self.labels[self.pages(block)].mat()
        return found
