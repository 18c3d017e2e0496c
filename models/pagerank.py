"""Rank pages by the links that lead to them: PageRank, by power iteration, one a pass.

Page, Brin, Motwani, Winograd, *The PageRank citation ranking: bringing order to the web*, 1999.
Personalised: Haveliwala, *Topic-sensitive PageRank*, WWW 2002. Damping, pages without links and
convergence: Langville, Meyer, *Deeper inside PageRank*, Internet Mathematics 1 (2004).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from pydantic import Field

from blocklearn.matcache import Mat, maximum, ones_like, rowsum, together, total, where
from blocklearn.matcache.notation.functions import TINY

from .inputs import Block, Randomness, Shapes
from .link_model import LinkModel
from .score import Score, Sum


class PageRank(LinkModel):
    """Ranks pages: how often a surfer visits them who follows links at random.

    X is square: entry (i, j) is the weight of the link between page i and page j, not negative;
    `rows` says which of both it leads to. The parameter `scores` [columns x 1] has the share of
    visits to each page; they add up to 1. After a page without links, and with chance 1 - damping
    after any other, the surfer starts anew. Weights of rows say where: at page i in proportion to
    the weight of row i, which makes the ranks personal. Without weights all pages are equal.

    Pass 0 sums up links and weights. Each later pass is one power iteration, and training ends when
    the scores change by less than `tolerance`, added up over all pages.
    """

    nonnegative: ClassVar[bool] = True
    prediction_columns: ClassVar[Sequence[str] | None] = ("score",)
    kind: Literal["pagerank"] = "pagerank"
    damping: float = Field(0.85, ge=0, lt=1, description="probability of following a link")
    tolerance: float = Field(
        1e-6, ge=0, lt=1, description="training ends when the scores change by less in a pass"
    )
    rows: Literal["sources", "targets"] = Field(
        "sources",
        description="sources: a row has the links from its page; targets: those that lead to its "
        "page, whose products run on all threads",
    )

    def phases(self) -> Sequence[int]:
        """Return the pass that sums up, and the first power iteration."""
        return (0, 1)

    def allocate(self, shapes: Shapes, rng: Randomness) -> None:
        """Create the scores, and the sums of a pass."""
        n = self.number_of_pages(shapes)
        self.scores = self.parameter("scores", n, 1)
        self.change = self.parameter("change", 1, 1, 1.0)  # of the scores in the last pass
        self.shares = self.parameter("shares", n, 1, saved=False)  # scores / links, by page
        self.links = self.statistic("links", n, 1)  # weight of the links from each page
        self.starts = self.statistic("starts", n, 1)  # weight of the row of each page
        self.visits = self.statistic("visits", n, 1)  # by links, in this pass

    def update(self, block: Block) -> None:
        """Add the block to the sums of the pass."""
        X, at, targets = block.X, self.pages(block), self.rows == "targets"
        if block.phase == 0:
            self.starts[at] += block.weights
            if targets:
                self.links <<= self.links + X.T @ ones_like(block.weights)
            else:
                self.links[at] += rowsum(X)
        elif targets:
            self.visits[at] += X @ self.shares
        else:
            self.visits <<= self.visits + X.T @ self.shares[at]

    def end_pass(self) -> None:
        """Set the scores from the visits of the pass; before the first, from the starts."""
        anew = (1.0 - self.damping * total(self.visits)) / maximum(total(self.starts), TINY)
        scores = self.damping * self.visits + anew.mat() * self.starts
        change, _, _ = together(
            (total, abs(scores - self.scores)),
            (self.scores, scores),
            (self.shares, where(self.links > 0.0, scores / maximum(self.links, TINY), 0.0)),
        )
        self.change <<= change
        self.visits <<= 0.0

    @property
    def converged(self) -> bool:
        """Whether the scores have changed by less than `tolerance` in the last pass."""
        return bool(self.change.numpy()[0, 0] < self.tolerance)

    def score(self, block: Block) -> Score:
        """Score how much the last pass has changed the scores.

        l1_change: sum of the absolute changes of all pages' scores.
        """
        return {"l1_change": Sum(self.change.mat(), total(self.change * 0.0) + 1.0)}

    def predict(self, block: Block) -> Mat:
        """Return the score of each row's page [rows x 1]."""
        found: Mat = self.scores[self.pages(block)].mat()
        return found
