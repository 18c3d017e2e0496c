"""Parts of which a block reads and changes only the rows that occur in it, for the KL loss.

H follows from two sums over the rows of the data, H = pull / push, and a column that does not occur
adds nothing to its row of `pull`, which only decays. All rows decay alike, so this factor is kept
apart: the sum is `scale * pull`. Column sums of H follow from those of `pull`.
"""

from __future__ import annotations

from blocklearn.matcache import (
    Mat,
    Matrix,
    Number,
    Row,
    Rows,
    Sparse,
    Table,
    colsum,
    local,
    local_table,
    rowwise,
)

from ..base import Model
from ..scaled_rows import ScaledRows
from .rules import kl_step


@rowwise
def parts_of(XT: Sparse, H: Rows, pull: Rows, scale: Number, push: Row) -> None:
    """Make the rows of H that occur in a block X."""
    H <<= kl_step(1.0, scale * pull, push, 0.0)


@rowwise
def add_pull(XT: Sparse, pull: Rows, H: Rows, W: Table, scale: Number) -> None:
    """Add H * (X.T W) to `scale * pull`, at the columns that occur in X."""
    pull <<= pull + H * (XT @ W) / scale


@rowwise
def products(X: Sparse, W: Rows, H: Table) -> Rows:
    """Return W * (X H): its column sums are those of H * (X.T W)."""
    return W * (X @ H)


class RestingParts(ScaledRows):
    """The sums of an NMF whose rows rest: `scale * pull` [columns x K], and what goes with them.

    blocks: since H was exact.
    sums: [1 x K], column sums of `scale * pull`.
    """

    def __init__(self, model: Model, H: Mat, pull: Mat) -> None:
        """Make the state: H and `pull` are as they are."""
        self._H, self._pull, K = H, pull, H.shape[1]
        self._elsewhere = model.setting.elsewhere
        self.scales = model.parameter("scale", 1, 1, 1.0, merge="same", saved=False)
        self._blocks = model.parameter("blocks", 1, 1, merge="same", saved=False)
        self.sums = model.parameter("sums", 1, K, merge="same", saved=False)
        self._add_up()

    def of(self, X: Matrix, push: Row) -> tuple[Matrix, Table, Row]:
        """Return X, the rows of H for its columns, and the column sums of H."""
        found = local(X)
        H = local_table(found, self._H.shape[1], "parts (scratch)")
        parts_of(found.T, H, self._pull, self.scales, push)
        return found, H, kl_step(1.0, self.sums, push, 0.0).mat()

    def add(self, ratio: Matrix, W: Mat, H: Table, keep: Number) -> None:
        """Keep a share of the sums, and add H * (ratio.T W)."""
        scale, sums, blocks = self.scales, self.sums, self._blocks
        scale <<= scale * keep
        sums <<= keep * sums + colsum(products(ratio, W, H))
        add_pull(ratio.T, self._pull, H, W, scale)
        blocks <<= blocks + 1.0

    @property
    def behind(self) -> bool:
        """Whether H and the sums are not exact."""
        return float(self._blocks) > 0

    @property
    def changing(self) -> list[Mat]:
        """What `settle` changes."""
        return [self._H, self._pull, self.scales, self.sums, self._blocks]

    def settle(self, push: Row) -> None:
        """Make H and the sums exact."""
        pull = self._pull
        pull <<= pull * self.scales
        self.settled_elsewhere()
        self.measure(push)

    def measure(self, push: Row) -> None:
        """Make H and column sums of exact sums, unless their rows lie elsewhere."""
        self._add_up()
        if self.known or self._H.cache.reserving:
            self.derive(push)

    def _add_up(self) -> None:
        self.known = not self._elsewhere
        if self.known:
            self.sums <<= colsum(self._pull)

    def derive(self, push: Row) -> None:
        """Make H of exact sums."""
        H = self._H
        H <<= kl_step(1.0, self._pull, push, 0.0)

    def settled_elsewhere(self) -> None:
        """Note that all rows are exact."""
        self.scales <<= 1.0
        self._blocks <<= 0.0
