"""Sample topics, one token after another within a document, and count them."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..containers.chunks import turned
from ..containers.launching import launch
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


class Operands(NamedTuple):
    """What topics are drawn of: see `sample_topics`."""

    X: SparseMat
    phi: Mat
    alpha: Mat
    row_ids: Mat
    key: Mat


@dataclass(frozen=True)
class Draws:
    """Operands and results of a sampler, for a launch.

    first: as in `Samples`.
    result: z as in `Samples`, or theta, if `summed`.
    """

    of: Operands
    burn: int
    save: int
    first: Slot
    result: Slot
    summed: bool

    def scratch(self, name: str, dtype: Any, rows: int = 1) -> Slot:
        """Return a container with a number per particle in each row, which grows with X."""
        key = ("sample_topics", self.result.guid, name, np.dtype(dtype).name)
        return _of_particles(self.of.X, key, rows, dtype, name)

    @property
    def flops_each(self) -> int:
        """The floating point operations of a particle: weights of topics, and their sums."""
        return 2 * self.of.phi.shape[1] * (self.burn + self.save)


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
    of = _checked("sample_topics", Operands(X, phi, alpha, row_ids, key))
    identity = _identity("sample_topics", of, burn, save)
    z = _of_particles(X, (*identity, "z"), save, np.uint16, "topics of saved sweeps")
    return Samples(X, _sample(of, identity, burn, save, z, summed=False), z)


def sample_theta(
    X: SparseMat, phi: Mat, alpha: Mat, row_ids: Mat, key: Mat, *, burn: int, save: int
) -> Mat:
    """Return the topics of each row [n x k], added up over the saved sweeps of `sample_topics`.

    A sweep adds the weight of a row's particles in each topic, and alpha. A row without particles
    has alpha.
    """
    of = _checked("sample_theta", Operands(X, phi, alpha, row_ids, key))
    identity = _identity("sample_theta", of, burn, save)
    shape = X.shape[0], phi.shape[1]
    theta = X.cache.result((*identity, "theta"), shape, np.float32, "topics of rows (sampler)")
    _sample(of, identity, burn, save, theta, summed=True)
    return Mat(X.cache, theta)


def _checked(name: str, of: Operands) -> Operands:
    """Return the operands, computed; raise ShapeError if they do not fit."""
    of = Operands(of.X, *[mat.mat() for mat in of][1:])
    (n, m), k = of.X.shape, of.phi.shape[1]
    single, whole = np.float32, np.int64
    expected = [((n, m), single), ((m, k), single), ((1, k), single), ((n, 1), whole)]
    for mat, (shape, dtype) in zip(of, [*expected, ((1, 3), whole)], strict=True):
        if mat.shape != shape or mat.dtype != dtype:
            raise ShapeError(
                f"{name} at {source_line()}: {mat.label} is {mat.shape} {mat.dtype}, "
                f"expected {shape} {np.dtype(dtype)}."
            )
    if not 1 <= k <= 2**16:
        raise ShapeError(f"{name}: topics={k:,}: must be 1 to 65,536.")
    return of._replace(phi=as_table(of.phi, of.X))


def _identity(name: str, of: Operands, burn: int, save: int) -> tuple[Hashable, ...]:
    """Return what tells the results of a sampler from others."""
    return (name, burn, save), *(mat.guid for mat in of)


def _sample(
    of: Operands,
    identity: tuple[Hashable, ...],
    burn: int,
    save: int,
    result: Slot,
    *,
    summed: bool,
) -> Slot:
    """Fill `result`, unless it is filled already; return the first particles of entries."""
    cache, key = of.X.cache, (*identity, "first")
    first = values_container(cache, key, of.X.pattern, np.int64, "particles of entries")
    if cache.begin(result):
        launch(cache, "sample_topics", Draws(of, burn, save, first, result, summed))
        result.written()
        result.computed_from(*slots_of(of))
    return first
