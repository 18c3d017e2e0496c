"""Solve small least squares problems whose solutions are not negative, by coordinate descent."""

from __future__ import annotations

from ..containers.launching import launch
from ..containers.lazy import Lazy
from ..containers.matrices import Mat
from ..errors import ShapeError, source_line
from ..program.padding import Padding


def nonnegative_steps(W: Mat, pull: Lazy, G: Lazy, rounds: int) -> None:
    """Lower w G w' / 2 - w pull_i' over w >= 0, for each row w of W.

    Each number of a row in turn moves to where the row's sum is least, the others as they are; the
    sum never rises. A number stays as it is where its row of G and its pull are zero.

    W: float32 [n x k], not negative.
    pull: float32 [n x k].
    G: float32 [k x k], positive semidefinite.
    rounds: how often each number moves.
    """
    pull, G = pull.mat(), G.mat()
    n, k = W.shape
    given = [(mat.shape, mat.dtype.name, mat.pattern is None) for mat in (W, pull, G)]
    wanted = [((rows, k), "float32", True) for rows in (n, n, k)]
    if given != wanted:
        raise ShapeError(
            f"nonnegative_steps at {source_line()}: W, pull and G are {given}; must be {wanted}: "
            "shape, dtype, dense."
        )
    block = W.padding.block or pull.padding.block
    W.check(W.version)
    W.slot.written(source_line())
    W.slot.padding = Padding(block)
    W.follow()
    launch(W.cache, "nonnegative_steps", W.slot, pull.slot, G.slot, rounds)
    W.cache.count(2 * (rounds + 1) * n * k * k)
