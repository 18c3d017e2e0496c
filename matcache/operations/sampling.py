"""Sample topics, one token after another within a document, and count them."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..containers.chunks import turned
from ..containers.dispatch import launch
from ..containers.local import LocalPattern, grows_with
from ..containers.matrices import Mat, SparseMat, slots_of
from ..containers.patterns import values_container
from ..containers.slots import Slot
from ..errors import ShapeError, source_line
from .rounding import as_table

CAP = 8  # most particles of an entry; larger counts get heavier particles


@dataclass(frozen=True)
class Samples:
    """Topics drawn for the particles of X.

    z: room for the topics of all particles in all sweeps, in an order of the backend.
    first: number of each entry's first particle [nnz].
    """

    X: SparseMat
    first: Slot
    z: Slot

    def counts(self, topics: int) -> Mat:
        """Return the weight of each topic in each column of X [columns x topics].

        Weights are averaged over the sweeps. Of a `local` X, rows of other columns are 0.
        """
        X, cache = self.X, self.X.cache
        pattern = X.pattern
        shape = (pattern.columns, topics)
        slot = cache.result((("topic counts",), self.z.guid), shape, np.float32, "topic counts")
        if isinstance(pattern, LocalPattern):
            grows_with(pattern, Mat(cache, slot))
        if cache.begin(slot):
            turned(cache, pattern)
            slot.written()
            launch(cache, "topic_counts", pattern, X.slot, self.first, self.z, slot)
            slot.computed_from(self.z, *slots_of([X]))
        return Mat(cache, slot)


@dataclass(frozen=True)
class Draws:
    """Operands of `sample_topics` and its results `first` and `z`, for a launch."""

    X: SparseMat
    phi: Mat
    alpha: Mat
    row_ids: Mat
    key: Mat
    burn: int
    first: Slot
    z: Slot

    def scratch(self, name: str, dtype: Any, rows: int = 1) -> Slot:
        """Return a container with a number per particle in each row, which grows with X."""
        key = ("sample_topics", self.z.guid, name, np.dtype(dtype).name)
        return _of_particles(self.X, key, rows, dtype, name)

    @property
    def flops_each(self) -> int:
        """The floating point operations of a particle: weights of topics, and their sums."""
        return 2 * self.phi.shape[1] * (self.burn + self.z.shape[0])


def _of_particles(
    X: SparseMat, key: tuple[Hashable, ...], rows: int, dtype: Any, name: str
) -> Slot:
    cache, pattern = X.cache, X.pattern
    slot = cache.result(key, (rows, pattern.capacity * CAP), dtype, f"{name} (sampler)")
    if cache.enabled:
        pattern.dependents.setdefault(slot.guid, slot)
    return slot


def sample_topics(
    X: SparseMat, phi: Mat, alpha: Mat, row_ids: Mat, key: Mat, *, burn: int, save: int
) -> Samples:
    """Draw topics by collapsed Gibbs sweeps over each row's tokens, phi held fixed.

    X: float32 counts [n x m].
    phi: positive float32 [m x k].
    alpha: float32 [1 x k].
    row_ids: int64 [n x 1].
    key: int64 [1 x 3] (seed, pass, block).
    burn: first sweeps, which are dropped.
    save: later sweeps, which are kept.

    A row's draws depend only on (seed, pass), its row id, its entries and the tables. An entry of
    weight x counts as min(ceil(x), 8) particles of equal weight. Mimno, Hoffman, Blei (2012).
    """
    cache, k = X.cache, phi.shape[1]
    mats = [m.mat() for m in (X, phi, alpha, row_ids, key)]
    single, whole = np.float32, np.int64
    expected = [
        (X.shape, single),
        ((X.shape[1], k), single),
        ((1, k), single),
        ((X.shape[0], 1), whole),
        ((1, 3), whole),
    ]
    for mat, (shape, dtype) in zip(mats, expected, strict=True):
        if mat.shape != shape or mat.dtype != dtype:
            raise ShapeError(
                f"sample_topics at {source_line()}: {mat.label} is {mat.shape} {mat.dtype}, "
                f"expected {shape} {np.dtype(dtype)}."
            )
    if not 1 <= k <= 2**16:
        raise ShapeError(f"sample_topics: topics={k:,}: must be 1 to 65,536.")
    mats[1] = as_table(mats[1], X)
    pattern, identity = X.pattern, (("sample_topics", burn, save), *(m.guid for m in mats))
    first = values_container(cache, (*identity, "first"), pattern, np.int64, "particles of entries")
    z = _of_particles(X, (*identity, "z"), save, np.uint16, "topics of saved sweeps")
    if cache.begin(z):
        phi, alpha, row_ids, key = mats[1:]
        draws = Draws(X, phi, alpha, row_ids, key, burn, first, z)
        launch(cache, "sample_topics", draws)
        z.written()
        z.computed_from(*slots_of(mats))
    return Samples(X, first, z)
