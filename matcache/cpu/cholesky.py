"""CPU kernels for normal equations: sums of outer products, Cholesky solutions.

Symmetric matrices are packed, see operations/packing.py. Their rows are vectors of a few lengths,
and each length is compiled.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import cache

from ..emit.source import Writer
from ..operations.packing import groups, packed, padded

COUNT = 8  # outer products added at a time
FLOOR = 1e-6  # least pivot, relative to its diagonal entry, that float32 distinguishes from zero


def scratch_length(k: int) -> int:
    """Return the scratch numbers per thread: a packed matrix and three vectors."""
    return packed(k) + 3 * padded(k)


@cache
def rows_source(k: int, *, gram: bool, masked: bool, scaled: bool) -> str:
    """Return the source of `run`, which solves one system for each row of a chunk.

    gram: whether the operand `gram` is added.
    masked: whether x is known where free [1 x k] is zero. There x is taken from rhs, and the other
    equations are solved for the rest.
    scaled: whether D_i is ridge[i] scale + shift, [1 x k] each; otherwise it is ridge[i].

    Its parameters: chunk, thread, bounds, indptr, indices, weights, table, gram, free, scale,
    shift, ridge, rhs, out, scratch. out[i] = x solves (sum over the entries j of row i of
    weights[j] v_j v_j' + gram + D_i) x = rhs[i]; v_j is row indices[j] of the table [m x k].
    """
    out = _module(k)
    _solve(out, k, masked, scaled)
    with _function(out, "run", "chunk, thread, bounds, indptr, indices, weights, table, gram, free,"
                   " scale, shift, ridge, rhs, out, scratch"):  # fmt: skip
        out.line("A = scratch[thread]")
        with out.block("for i in range(bounds[chunk], bounds[chunk + 1]):"):
            out.line(f"A[:{packed(k)}] = F(0)")
            _add_entries(out, k, "indptr[i], indptr[i + 1]", "indices[{}]", "weights[{}]")
            _finish_row(out, k, gram)
    return out.text()


@cache
def sums_source(k: int) -> str:
    """Return the source of `run`, which adds weighted outer products to packed sums.

    Its parameters: chunk, thread, bounds, active, starts, t_rows, t_pos, weights, table, sums. For
    each column c = active[a] of a block, it adds weights[t_pos[j]] v_j v_j' of its entries j to
    sums[c], in the order of rows; v_j is row t_rows[j] of the table [n x k].
    """
    out = _module(k)
    with _function(out, "run", "chunk, thread, bounds, active, starts, t_rows, t_pos, weights,"
                   " table, sums"):  # fmt: skip
        with out.block("for a in range(bounds[chunk], bounds[chunk + 1]):"):
            out.line("A = sums[active[a]]")
            _add_entries(out, k, "starts[a], starts[a + 1]", "t_rows[{}]", "weights[t_pos[{}]]")
    return out.text()


@cache
def solve_source(k: int, *, gram: bool, masked: bool, scaled: bool) -> str:
    """Return the source of `run`, which solves systems from packed sums.

    Its parameters: chunk, thread, bounds, sums, gram, free, scale, shift, ridge, rhs, out,
    scratch. out[i] = x solves (sums[i] + gram + D_i) x = rhs[i]; see `rows_source`.
    """
    out = _module(k)
    _solve(out, k, masked, scaled)
    with _function(out, "run", "chunk, thread, bounds, sums, gram, free, scale, shift, ridge, rhs,"
                   " out, scratch"):  # fmt: skip
        out.line("A = scratch[thread]")
        with out.block("for i in range(bounds[chunk], bounds[chunk + 1]):"):
            out.line(f"A[:{packed(k)}] = sums[i]")
            _finish_row(out, k, gram)
    return out.text()


# ---------------------------------------------------------------- parts of the text


def _module(k: int) -> Writer:
    """Print the imports, and the vector operations of every length."""
    out = Writer()
    out.raw("import math\nimport numpy as np\nfrom numba import njit")
    out.raw("from blocklearn.matcache.cpu.vectors import make_add, make_dots\n\nF = np.float32")
    for group in groups(k):
        first = group.first
        for count in (1, COUNT):
            out.raw(f"add_{first}_{count} = make_add({k - first}, {count}, 32, padded=True)")
        out.raw(f"dot_{first} = make_dots({group.width}, 1, 32)")
    return out


def _function(out: Writer, name: str, parameters: str) -> AbstractContextManager[None]:
    """Print the head of a compiled function, as a block."""
    out.raw('\n\n@njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract"})')
    return out.block(f"def {name}({parameters}):")


def _add_entries(out: Writer, k: int, ends: str, entry: str, weight: str) -> None:
    """Print code that adds the outer products of the entries between `ends` to A."""
    out.line(f"p, q = {ends}")
    out.line(f"full = p + (q - p) // {COUNT} * {COUNT}")
    for loop, count in ((f"range(p, full, {COUNT})", COUNT), ("range(full, q)", 1)):
        with out.block(f"for j in {loop}:"):
            for n in range(count):
                place = f"j + {n}" if n else "j"
                out.line(f"c{n}, w{n} = np.intp({entry.format(place)}), {weight.format(place)}")
            for group in groups(k):
                rows = "".join(f"c{n} * {k} + {group.first}, " for n in range(count))
                factors = "".join(f"w{n} * table[c{n}, r], " for n in range(count))
                with out.block(f"for r in range({group.first}, {group.end}):"):
                    add = f"add_{group.first}_{count}(A, {group.row('r')}, table"
                    out.line(f"{add}, ({rows}), ({factors}))")


def _finish_row(out: Writer, k: int, gram: bool) -> None:
    """Print code that adds what all rows share, and solves."""
    for group in groups(k) if gram else ():
        with out.block(f"for r in range({group.first}, {group.end}):"):
            out.line(f"at = {group.row('r')} - {group.first}")
            with out.block(f"for c in range({group.first}, {k}):"):
                out.line("A[at + c] += gram[r, c]")
    out.line("solve(A, ridge[i, 0], free, scale, shift, rhs[i], out[i])")


def _solve(out: Writer, k: int, masked: bool, scaled: bool) -> None:
    """Print `solve(A, ridge, free, scale, shift, b, x)`, which solves (A + D) x = b.

    D is diagonal: ridge scale + shift, or ridge.

    Where the ridge is 0, numbers of x that no equation determines are 0. Row by row, A becomes U
    with the reciprocals of its diagonal, A + D = U'U. After the packed matrix come the least
    pivots, y of U'y = b, and x, padded.
    """
    least, y, x = (f"{packed(k) + n * padded(k)} + " for n in range(3))
    every = groups(k)
    with _function(out, "solve", "A, ridge, free, scale, shift, b, result"):
        with out.block(f"for c in range({k}):"):
            out.line(f"A[{y}c] = b[c]")
        if masked:
            _move_known(out, k, y)
        for group in every:
            with out.block(f"for r in range({group.first}, {group.end}):"):
                out.line(f"at = {group.row('r')} + r - {group.first}")
                with out.block("if free[0, r] != F(0):") if masked else nullcontext():
                    added = "ridge * scale[0, r] + shift[0, r]" if scaled else "ridge"
                    out.line(f"A[at] += {added}")
                out.line(f"A[{least}r] = F({FLOOR}) * A[at]")
        for number, group in enumerate(every):
            with out.block(f"for j in range({group.first}, {group.end}):"):
                out.line(f"row = {group.row('j')}")
                out.line(f"pivot = row + j - {group.first}")
                out.line(f"scale = F(1) / math.sqrt(max(A[pivot], A[{least}j]))")
                with out.block(f"if ridge == F(0) and A[pivot] <= A[{least}j]:"):
                    out.line("scale = F(0)")  # no equation determines x[j]: it is 0
                with out.block(f"for c in range({group.width}):"):
                    out.line("A[row + c] *= scale")
                for below in every[number:]:
                    begin = "j + 1" if below is group else str(below.first)
                    with out.block(f"for r in range({begin}, {below.end}):"):
                        out.line(f"minus = -A[row + r - {group.first}]")
                        start = f"row + {below.first - group.first}"
                        add = f"add_{below.first}_1(A, {below.row('r')}, A"
                        out.line(f"{add}, ({start},), (minus,))")
                out.line("A[pivot] = scale")
        for group in every:
            with out.block(f"for j in range({group.first}, {group.end}):"):
                out.line(f"row = {group.row('j')} - {group.first}")
                out.line(f"A[{y}j] *= A[row + j]")
                out.line(f"t = A[{y}j]")
                with out.block(f"for c in range(j + 1, {k}):"):
                    out.line(f"A[{y}c] -= t * A[row + c]")
        with out.block(f"for c in range({padded(k)}):"):
            out.line(f"A[{x}c] = F(0)")
        for group in reversed(every):
            with out.block(f"for j in range({group.end - 1}, {group.first - 1}, -1):"):
                out.line(f"row = {group.row('j')}")
                out.line(f"(t,) = dot_{group.first}(A, {x}{group.first}, A, (row,))")
                out.line(f"A[{x}j] = (A[{y}j] - t) * A[row + j - {group.first}]")
        with out.block(f"for c in range({k}):"):
            out.line(f"result[c] = A[{x}c]")


def _move_known(out: Writer, k: int, y: str) -> None:
    """Print code that moves known numbers to the right side.

    Their rows and columns become those of a unit matrix.
    """
    with out.block(f"for c in range({k}):"):
        with out.block("if free[0, c] == F(0):"):
            for group in groups(k):
                with out.block(f"for r in range({group.first}, {group.end}):"):
                    out.line(f"at = {group.row('r')} + c - {group.first}")
                    with out.block("if r < c:"):
                        out.line(f"A[{y}r] -= A[at] * b[c]")
                        out.line("A[at] = F(0)")
                    with out.block("elif r == c:"):
                        with out.block(f"for s in range(c + 1, {k}):"):
                            out.line(f"A[{y}s] -= A[at + s - c] * b[c]")
                            out.line("A[at + s - c] = F(0)")
                        out.line("A[at] = F(1)")
    with out.block(f"for c in range({k}):"):
        with out.block("if free[0, c] == F(0):"):
            out.line(f"A[{y}c] = b[c]")
