"""Find the largest products of rows with a table, without storing all products.

The table is processed in tiles of TILE rows, transposed so that a tile's scores are computed side
by side. Each row keeps its best n in a heap. A score is one chain of multiply-adds in the order of
the numbers, wherever the row and the table row stand. So equal table rows have equal scores to the
last bit, and nothing depends on blocks, chunks or tiles. (BLAS promises none of that; this is also
faster.)
"""

# Numba infers the types.
# mypy: allow-untyped-defs, allow-untyped-calls

import numpy as np

from ..compiling.jit import helper, kernel

TILE = 256  # table rows; with 100 columns a tile takes 100 kB, which fits into the L2 cache
GROUP = 4  # rows whose scores are computed together: they share the loads of the tile
LANES = 64  # scores compared at a time with the worst one kept

_zero = np.float32(0.0)
# No "reassoc": the order of a sum is part of the promise.
_kernel, _helper = kernel("contract"), helper("contract")


@_kernel
def top_products(
    chunk, thread, bounds, rows, table, unit, indptr, indices, at, tiles, sums, best, ids
):
    """Find the n table rows with the largest products, for the rows of one chunk.

    rows: [n_rows x k].
    table: [m x k or more].
    unit: whether table rows (k numbers) are scaled to length 1.
    indptr, indices: table rows that each row leaves out, ascending; indptr is empty if there are
    none.
    at: int64 [n_rows x 1], each row's progress in its indices.
    tiles: scratch [threads * k x TILE].
    sums: scratch [threads * GROUP x TILE].
    best: float32 [n_rows x n], the largest scores, best first; missing ones are -inf.
    ids: int32 [n_rows x n], their table rows; missing ones are -1.

    Of equal scores the lower id comes first.
    """
    k = rows.shape[1]
    first, last = bounds[chunk], bounds[chunk + 1]
    tile = tiles[thread * k : (thread + 1) * k]
    scores = sums[thread * GROUP : (thread + 1) * GROUP]
    for i in range(first, last):
        at[i, 0] = indptr[i] if indptr.size else 0
        for j in range(best.shape[1]):
            best[i, j], ids[i, j] = -np.inf, -1
    for start in range(0, table.shape[0], TILE):
        count = min(TILE, table.shape[0] - start)
        take_tile(table, start, count, tile)
        if unit:
            scale_tile(tile, scores[0])
        for group in range(first, last, GROUP):
            multiply_tile(rows, group, last - 1, tile, scores)
            for i in range(group, min(group + GROUP, last)):
                if indptr.size:
                    leave_out(indptr, indices, at, i, start, count, scores[i - group])
                keep_best(scores[i - group], start, count, best[i], ids[i])
    for i in range(first, last):
        put_in_order(best[i], ids[i])


@_helper
def take_tile(table, start, count, tile):
    """Copy tile[:, c] = table[start + c]; columns from `count` on are zero."""
    full = count // 16 * 16
    for c in range(0, full, 16):  # 16 floats fill a cache line
        for t in range(tile.shape[0]):
            for j in range(16):
                tile[t, c + j] = table[start + c + j, t]
    for t in range(tile.shape[0]):
        for c in range(full, TILE):
            tile[t, c] = table[start + c, t] if c < count else _zero


@_helper
def scale_tile(tile, squares):
    """Scale each column of the tile to length 1, unless its length is 0.

    squares: scratch.
    """
    for c in range(TILE):
        squares[c] = _zero
    for t in range(tile.shape[0]):
        for c in range(TILE):
            squares[c] += tile[t, c] * tile[t, c]
    for c in range(TILE):
        if squares[c] > _zero:
            squares[c] = np.float32(1.0) / np.sqrt(squares[c])
    for t in range(tile.shape[0]):
        for c in range(TILE):
            tile[t, c] *= squares[c]


@_helper
def multiply_tile(rows, group, last, tile, scores):
    """Compute scores[i, c] = rows[group + i] . tile[:, c].

    Beyond the row `last`, the row `last` is repeated.
    """
    a, b = rows[group], rows[min(group + 1, last)]
    c, d = rows[min(group + 2, last)], rows[min(group + 3, last)]
    s, u, v, w = scores[0], scores[1], scores[2], scores[3]
    for j in range(TILE):
        s[j], u[j], v[j], w[j] = _zero, _zero, _zero, _zero
    k = tile.shape[0]
    full = k // 4 * 4
    for t in range(0, full, 4):
        a0, a1, a2, a3 = a[t], a[t + 1], a[t + 2], a[t + 3]
        b0, b1, b2, b3 = b[t], b[t + 1], b[t + 2], b[t + 3]
        c0, c1, c2, c3 = c[t], c[t + 1], c[t + 2], c[t + 3]
        d0, d1, d2, d3 = d[t], d[t + 1], d[t + 2], d[t + 3]
        t0, t1, t2, t3 = tile[t], tile[t + 1], tile[t + 2], tile[t + 3]
        for j in range(TILE):
            x0, x1, x2, x3 = t0[j], t1[j], t2[j], t3[j]
            s[j] = (((s[j] + a0 * x0) + a1 * x1) + a2 * x2) + a3 * x3
            u[j] = (((u[j] + b0 * x0) + b1 * x1) + b2 * x2) + b3 * x3
            v[j] = (((v[j] + c0 * x0) + c1 * x1) + c2 * x2) + c3 * x3
            w[j] = (((w[j] + d0 * x0) + d1 * x1) + d2 * x2) + d3 * x3
    for t in range(full, k):
        a0, b0, c0, d0, t0 = a[t], b[t], c[t], d[t], tile[t]
        for j in range(TILE):
            x0 = t0[j]
            s[j] += a0 * x0
            u[j] += b0 * x0
            v[j] += c0 * x0
            w[j] += d0 * x0


@_helper
def leave_out(indptr, indices, at, row, start, count, scores):
    """Set scores of table rows that `row` leaves out to -inf, so they are never kept."""
    place, end = at[row, 0], indptr[row + 1]
    while place < end and indices[place] < start + count:
        scores[indices[place] - start] = -np.inf
        place += 1
    at[row, 0] = place


@_helper
def keep_best(scores, start, count, best, ids):
    """Put the better ones of scores [count] into a heap.

    start: table row of the first score.
    """
    n = best.size
    worst = best[0]
    full = count // LANES * LANES
    for c in range(0, full, LANES):
        part = scores[c : c + LANES]
        better = np.int32(0)
        for j in range(LANES):
            better += np.int32(part[j] > worst)
        if better:
            for j in range(c, c + LANES):
                if scores[j] > worst:
                    replace_worst(best, ids, n, scores[j], np.int32(start + j))
                    worst = best[0]
    for j in range(full, count):
        if scores[j] > worst:
            replace_worst(best, ids, n, scores[j], np.int32(start + j))
            worst = best[0]


@_helper
def replace_worst(best, ids, n, score, number):
    """Replace the root of the heap best[:n], ids[:n], its worst entry.

    A lower score is worse; of equal ones the higher number. Numbers come in ascending order, so a
    newcomer whose score equals the root's is worse and is not passed here.
    """
    parent = 0
    while True:
        child = 2 * parent + 1
        if child >= n:
            break
        if child + 1 < n and is_worse(best[child + 1], ids[child + 1], best[child], ids[child]):
            child += 1
        if not is_worse(best[child], ids[child], score, number):
            break
        best[parent], ids[parent] = best[child], ids[child]
        parent = child
    best[parent], ids[parent] = score, number


@_helper
def is_worse(score, number, than_score, than_number):
    """Return whether the first entry comes after the second one."""
    return score < than_score or (score == than_score and number > than_number)


@_helper
def put_in_order(best, ids):
    """Sort a heap, the best entry first."""
    for n in range(best.size - 1, 0, -1):
        score, number = best[n], ids[n]
        best[n], ids[n] = best[0], ids[0]
        replace_worst(best, ids, n, score, number)
