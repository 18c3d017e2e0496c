"""CPU launches of splitting tokens and sampling topics."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...containers.cache import MatCache
from ...containers.chunks import ROW_CHUNKS, turned, worthwhile
from ...containers.dispatch import launches
from ...containers.local import LocalPattern
from ...containers.matrices import Mat, SparseMat
from ...containers.slots import PatternSlot, Slot
from ...operations.kept_topics import Redraws, gains
from ...operations.sampling import Draws
from ..kernels.bounds import Work, column_bounds, even_bounds, row_bounds
from ..topics.chains import ROOM, STATE
from ..topics.draws import AHEAD, WORDS
from ..topics.gibbs import (
    InWork,
    count_draws,
    count_particles,
    sample_rows,
    topic_counts,
)
from ..topics.kept_lists import Columns, Lists, redraw_lists, widened
from ..topics.kept_rows import TokensInWork, redraw_rows
from ..topics.row_vectors import CHAINS, PARTS, sweep_of, vectors_of
from ..topics.tokens import (
    MOVED,
    Phi,
    Tokens,
    Uniform,
    add_moved,
    begin_topics,
    count_tokens,
    move_counts,
)
from ..topics.vectors import LANES, padded

EACH = 64  # numbers that the sampler of lists reads for a token, about
ENOUGH = 16 * CHAINS  # rows of a chunk, of which the last do not take turns
LINE = 64  # topics that no one reads: threads write to lines of their own
EACH_MOVE = 8  # numbers that the move of a token reads, about


@launches("topic_counts", "cpu", only_calls=True)
def _topic_counts(
    cache: MatCache, pattern: PatternSlot, values: Slot, first: Slot, z: Slot, out: Slot
) -> None:
    active, starts, _, positions = turned(cache, pattern)
    work = Work(entry=z.shape[0], fixed=out.shape[0] * out.shape[1])
    shape = (cache.backend.threads, 2 * out.shape[1])
    sums = cache.result(("sums of topics", shape), shape, np.float64, "sums")
    call = [active, starts, positions, values.data()[0], first.data()[0], _by_particle(z)]
    call += [sums.data(), out.data(), int(isinstance(pattern, LocalPattern))]
    cache.backend.run(topic_counts, column_bounds(cache, pattern, work), *call)


@launches("sample_topics", "cpu", only_calls=True)
def _sample_topics(cache: MatCache, draws: Draws) -> None:
    X, phi, alpha, row_ids, key = draws.of
    pattern, k, first, result = X.pattern, phi.shape[1], draws.first, draws.result
    vectors, threads = vectors_of(k), cache.backend.threads
    numbers = draws.scratch("words and topics", np.int32, 2).data()  # one row in a plan
    weights, u = (draws.scratch(name, np.float32) for name in ("weights", "uniform numbers"))
    work = InWork(numbers[0], numbers[-1], weights.data()[0], u.data()[0])
    shape = (threads, _numbers(k))
    counts = cache.result(("sampler counts", k), shape, np.float32, "counts of topics (sampler)")
    chains = (threads, STATE * CHAINS)
    state = cache.result(("sampler chains", chains), chains, np.int64, "chains")
    indptr, indices = pattern.offsets()
    values = X.slot.data()[0]
    particles = (indptr, X.shape[0], values, first.data()[0])
    call: list[Any] = [indptr, indices, values, first.data()[0]]
    call += [mat.slot.data() for mat in (row_ids, key, phi, alpha)]
    z, theta = result, phi.slot
    if draws.summed:
        z, theta = cache.result(("no topics",), (LINE, threads), np.uint16, "no topics"), result
    call += [draws.burn, draws.save, _by_particle(z), theta.data(), int(draws.summed)]
    call += [work, _sweep(cache, vectors, 0)]
    call += [counts.data(), state.data().reshape(threads, STATE, -1)]
    cache.backend.call(count_particles, *particles)
    bounds = row_bounds(cache, X.shape[0], pattern, most=_chunks(X.shape[0], threads))
    cache.backend.run(sample_rows, bounds, *call)
    cache.backend.call(count_draws, *particles, draws.flops_each, cache.backend.operations)


def _by_particle(z: Slot) -> Any:
    """Return the room of drawn topics as [particles x sweeps]: those of one are read together."""
    return z.data().reshape(-1, z.shape[0])


@launches("split_tokens", "cpu", only_calls=True)
def _split_tokens(
    cache: MatCache,
    pattern: PatternSlot,
    values: Slot,
    row_ids: Slot,
    key: Slot,
    seen: Slot,
    scored: Slot,
) -> None:
    call = [pattern.offsets()[0], values.data()[0], row_ids.data(), key.data()]
    call += [seen.data()[0], scored.data()[0]]
    kernel = cache.backend.kernels["split_tokens"]
    cache.backend.run(kernel, row_bounds(cache, pattern.rows, pattern), *call)


@launches("redraw_topics", "cpu", only_calls=True)
def _redraw_topics(cache: MatCache, draws: Redraws) -> None:
    X, backend = draws.X, cache.backend
    k, rows = draws.table.shape[1], X.shape[0]
    vectors = vectors_of(k)
    uniform, words = _uniform(draws), draws.scratch("words", np.int32, AHEAD)
    now, shares = draws.scratch("topics", np.int32), draws.scratch("shares", np.float32)
    shape = (backend.threads, _numbers(k))
    counts = cache.result(
        ("sampler counts of rows", k), shape, np.float32, "counts of rows (sampler)"
    )
    chains = (backend.threads, STATE * CHAINS)
    state = cache.result(("sampler rows", chains), chains, np.int64, "rows in work")
    in_work = TokensInWork(*(slot.data()[0] for slot in (words, now, shares)))
    call: list[Any] = [_tokens(cache, draws), X.pattern.offsets()[1], _phi(draws), uniform, in_work]
    bits = 8 * draws.old.dtype.itemsize
    call += [draws.sweeps, draws.again, _sweep(cache, vectors, bits, made=draws.extra is None)]
    call += [counts.data(), state.data().reshape(backend.threads, STATE, -1)]
    work = Work(fixed=draws.topics.shape[1] * k)
    chunks = _chunks(rows, backend.threads)
    backend.run(redraw_rows, row_bounds(cache, rows, X.pattern, work, chunks), *call)


@launches("redraw_lists", "cpu", only_calls=True)
def _redraw_lists(cache: MatCache, draws: Redraws) -> None:
    X, backend = draws.X, cache.backend
    k, rows, room = draws.table.shape[1], X.shape[0], LANES * X.shape[0]
    uniform = _uniform(draws)
    held = draws.scratch("topics of lists", np.int32, room)
    counts = draws.scratch("counts of lists", np.float32, room)
    of_rows = cache.result(("sampler lists", rows), (3, rows), np.int64, "sizes of lists")
    shape = (backend.threads, 6 * widened(k))
    sums = cache.result(("sampler sums", k), shape, np.float32, "sums of topics")
    places = cache.result(("sampler places", k), (backend.threads, k), np.int32, "places in lists")
    lists = Lists(held.data()[0], counts.data()[0], *of_rows.data().reshape(3, -1))
    call: list[Any] = [_tokens(cache, draws), _columns(cache, X.pattern)]
    call += [_phi(draws), lists, uniform]
    call += [draws.sweeps, draws.again, sums.data(), places.data()]
    work = Work(fixed=draws.topics.shape[1] * EACH)
    chunks = 1 << (backend.threads - 1).bit_length()  # more of them would share fewer words
    backend.run(redraw_lists, row_bounds(cache, rows, X.pattern, work, chunks), *call)


def _numbers(k: int) -> int:
    """Return how many numbers a sampler of rows takes for a thread: see `sample_rows`."""
    return PARTS * padded(k) + ROOM * CHAINS


def _chunks(rows: int, threads: int) -> int:
    """Return the most chunks of rows for a sampler, a power of two.

    The last rows of a chunk do not take turns, which takes twice as long a draw. So one thread has
    one chunk, and several have chunks of ENOUGH rows where they can.
    """
    chunks = 1 << (threads - 1).bit_length()
    while 1 < threads and chunks < ROW_CHUNKS and 2 * chunks * ENOUGH <= rows:
        chunks *= 2
    return chunks


def _sweep(cache: MatCache, vectors: int, bits: int, *, made: bool = False) -> int:
    """Return the address of a sweep, see `sweep_of`; 0 while memory is planned."""
    words = [0] * (1 + WORDS)
    address: int = cache.backend.address(sweep_of(vectors, bits, made=made), *words)
    return address


def _tokens(cache: MatCache, draws: Redraws) -> Tokens:
    """Return the tokens of a block, which it numbers."""
    X, backend, k = draws.X, cache.backend, draws.table.shape[1]
    indptr, values, first = X.pattern.offsets()[0], X.slot.data()[0], draws.first.data()[0]
    topics, old = draws.topics.slot.data()[0], draws.old.data()[0]
    numbering = (indptr, X.shape[0], values, topics, first, _gains(cache, draws.old, k))
    backend.call(count_tokens, *numbering, draws.flops_each, backend.operations)
    return Tokens(indptr, values, first, topics, old)


def _columns(cache: MatCache, pattern: PatternSlot) -> Columns:
    active, starts, rows, entries = turned(cache, pattern)
    local = int(isinstance(pattern, LocalPattern))
    return Columns(pattern.numbers(), active, local, starts, rows, entries)


def _phi(draws: Redraws) -> Phi:
    table, one, alpha = (mat.slot.data() for mat in (draws.table, draws.one, draws.alpha))
    extra = one if draws.extra is None else draws.extra.slot.data()
    return Phi(table, one, alpha, extra, int(draws.extra is not None))


def _uniform(draws: Redraws) -> Uniform:
    u = draws.scratch("uniform numbers", np.float32)
    return Uniform(u.data()[0], draws.row_ids.slot.data(), draws.key.slot.data())


@launches("begin_topics", "cpu", only_calls=True)
def _begin_topics(
    cache: MatCache, X: SparseMat, topics: Mat, key: Mat, first: Slot, old: Slot, many: int
) -> None:
    backend, (indptr, _), values = cache.backend, X.pattern.offsets(), X.slot.data()[0]
    tokens = Tokens(indptr, values, first.data()[0], topics.slot.data()[0], old.data()[0])
    numbering = indptr, X.shape[0], values, tokens.topics, tokens.first, _gains(cache, old, many)
    backend.call(count_tokens, *numbering, 0, backend.operations)
    call = tokens, key.slot.data(), X.shape[0], many
    backend.run(begin_topics, row_bounds(cache, X.shape[0], X.pattern, Work(entry=2)), *call)


@launches("move_counts", "cpu", only_calls=True)
def _move_counts(
    cache: MatCache, pattern: PatternSlot, values: Slot, first: Slot, old: Slot, topics: Slot,
    counts: Slot, totals: Slot,
) -> None:  # fmt: skip
    indptr, indices = pattern.offsets()
    call = [indptr, pattern.rows, indices, values.data()[0], first.data()[0], old.data()[0]]
    call += [topics.data()[0], counts.data()]
    threads = cache.backend.threads
    room = cache.result(("moved tokens", threads), (threads, 2 * MOVED), np.int32, "moved tokens")
    moved = _gains(cache, old, totals.shape[1])
    call += [moved, room.data().reshape(threads, 2, -1)]
    parts = worthwhile(EACH_MOVE * old.shape[1], 1 << (threads - 1).bit_length(), threads)
    cache.backend.run(move_counts, even_bounds(cache, parts, parts), *call)
    cache.backend.call(add_moved, moved, totals.data())


def _gains(cache: MatCache, old: Slot, topics: int) -> Any:
    """Return what topics gain, by threads."""
    return gains(cache, old, (cache.backend.threads, topics), np.float64).data()
