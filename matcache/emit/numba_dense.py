"""Print a fused elementwise expression as a Numba kernel, with an optional sum."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..notation.elementwise import ELEMENTWISE
from .numba_header import numba_header
from .source import Writer

if TYPE_CHECKING:
    from ..program.dense import Fused, Leaf


def fused_source(fused: Fused) -> str:
    """Return the source of a module whose `run` computes a fused dense expression.

    `run` takes: chunk, thread, bounds, leaf arrays..., numbers..., columns, out. Flat expressions
    take one-dimensional arrays and loop over elements. The others loop over rows i and columns k.
    """
    out = Writer()
    out.raw(numba_header(fused.dtype, sums=fused.ending == "total"))
    names = [f"a{n}" for n in range(len(fused.leaves))] + [f"n{n}" for n in range(fused.numbers)]
    out.line(f"def run({', '.join(['chunk', 'thread', 'bounds', *names, 'columns', 'out'])}):")

    def element() -> str:
        """Print the steps for one element; returns the name of its value."""
        for n, leaf in enumerate(fused.leaves):
            if leaf.kind != "one":
                out.line(f"x{n} = {_leaf_text(n, leaf, fused.flat)}")
        for n, (op, references) in enumerate(fused.steps):
            texts = [_PREFIX[kind] + str(place) for kind, place in references]
            out.line(f"t{n} = {ELEMENTWISE[op].numba.format(*texts)}")
        kind, place = fused.result
        return _PREFIX[kind] + str(place)

    with out.block():
        for n in range(fused.numbers):
            out.line(f"c{n} = F(n{n})")
        for n, leaf in enumerate(fused.leaves):
            if leaf.kind == "one":
                out.line(f"x{n} = F(a{n}[0, 0])")
        if fused.ending == "total":
            out.line("s = 0.0")
        if fused.ending == "colsum":
            with out.block("for k in range(columns):"):
                out.line("out[chunk, k] = 0.0")
        if fused.flat:
            # slices: an index that starts at 0 is known not to be negative, and LLVM makes vectors
            out.line("first, last = bounds[chunk], bounds[chunk + 1]")
            for n, leaf in enumerate(fused.leaves):
                if leaf.kind == "full":
                    out.line(f"a{n} = a{n}[first:last]")
            if fused.ending == "assign":
                out.line("out = out[first:last]")
            with out.block("for k in range(last - first):"):
                value = element()
                out.line(
                    f"out[k] = {value}" if fused.ending == "assign" else f"s += np.float64({value})"
                )
        else:
            with out.block("for i in range(bounds[chunk], bounds[chunk + 1]):"):
                with out.block("for k in range(columns):"):
                    value = element()
                    out.line(
                        {
                            "assign": f"out[i, k] = {value}",
                            "total": f"s += np.float64({value})",
                            "colsum": f"out[chunk, k] += np.float64({value})",
                        }[fused.ending]
                    )
        if fused.ending == "total":
            out.line("out[chunk, 0] = s")
    return out.text()


_PREFIX = {"leaf": "x", "number": "c", "step": "t"}


def _leaf_text(n: int, leaf: Leaf, flat: bool) -> str:
    if leaf.kind == "random":
        return f"m.uniform(random_bits(a{n}, i, k, {leaf.stream}))"
    index = "k" if flat else {"full": "i, k", "row": "0, k", "column": "i, 0"}[leaf.kind]
    return f"F(a{n}[{index}])"
