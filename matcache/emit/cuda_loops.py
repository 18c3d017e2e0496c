"""Print a row's work for a group of lanes as CUDA C++ loops."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import ClassVar

from ..program.instructions import Dot, Gather, Kind, Product, Reduce, Value, reads
from ..program.schedule import Group
from .cuda_body import CudaBody
from .cuda_layout import is_shared
from .cuda_numbers import CudaNumbers

_ACROSS = {"sum": "bl_plus", "max": "bl_larger", "min": "bl_smaller"}


class CudaLoops(CudaNumbers):
    """Prints the work on a row."""

    count = "F(length)"
    start: ClassVar[Mapping[str, str]] = {"sum": "F(0)", "max": "-BL_INF(F)", "min": "BL_INF(F)"}
    fold: ClassVar[Mapping[str, str]] = {
        "sum": "{0} + {1}",
        "max": "bl_maximum({0}, {1})",
        "min": "bl_minimum({0}, {1})",
    }

    def repeat(self, count: Value | int) -> AbstractContextManager[None]:
        """Print a loop of `count` rounds."""
        rounds = f"(i64)({self.scalar(count)})" if isinstance(count, Value) else str(count)
        head = f"for (i64 round = 0, rounds = {rounds}; round < rounds; ++round) {{"
        return self.out.block(head, "}")

    def leave(self, condition: str) -> None:
        """Print the exit of a loop when the condition is not zero."""
        self.out.line(f"if ({condition} != F(0)) break;")

    def product(self, product: Product) -> None:
        """Print a vector times a small matrix; its numbers move from lane to lane."""
        out, length, width = self.out, product.vec.length, product.out.length
        pack = self.pack(length)
        self.start_gather(product.out)
        out.line("#pragma unroll")
        with out.block(f"for (int b = 0; b < BL_PER({length}, {pack}); b += {pack}) {{", "}"):
            with out.block("for (int from = 0; from < BL_LANES; ++from) {", "}"):
                out.line(f"const int first = b * BL_LANES + from * {pack};")
                out.line(f"if (first >= {length}) break;")
                out.line("#pragma unroll")
                with out.block(f"for (int u = 0; u < {pack}; ++u) {{", "}"):
                    if is_shared(product.vec):
                        out.line(f"const F t = (F)a{product.vec.arg}[first + u];")
                    else:
                        register = self.register(product.vec)
                        out.line(f"const F t = BL_FROM_LANE({register}[b + u], from);")
                    with self.packs(width):
                        row = f"a{product.matrix} + (i64)(first + u) * {width} + k"
                        out.line(f"F g[{self.pack(width)}];")
                        out.line(f"bl_load<{self.pack(width)}>(g, {row});")
                        with self.each(width):
                            out.line(f"{self.element(product.out)} += t * g[v];")

    def vector(self, group: Group) -> None:
        """Print a loop over a vector."""
        shared = {
            value.arg: value
            for instruction in group.instructions
            for value in reads(instruction)
            if value.kind is Kind.VEC and is_shared(value)
        }
        with self.packs(group.length):
            for value in shared.values():
                self.shared_pack(value)
            with self.each(group.length):
                self.body(group)
        self.finish(group)

    def body(self, group: Group) -> None:
        """Print the body of a loop over elements."""
        CudaBody(self, group).run()

    def nonzeros(self, group: Group) -> None:
        """Print a loop over the non-zeros of the row."""
        out, rows = self.out, self.layout.rows_in_flight
        wide = any(
            isinstance(i, Dot) or (isinstance(i, Gather) and i.out.kind is Kind.VEC)
            for i in group.instructions
        )
        if not wide:  # each lane has its own non-zeros
            with out.block("for (i64 j = p + lane; j < q; j += BL_LANES) {", "}"):
                CudaBody(self, group).run()
            self.finish(group)
        elif rows > 1:  # all lanes work on the vectors of the same non-zeros
            with out.block("{", "}"):
                out.line(f"const i64 full = p + (q - p) / {rows} * {rows};")
                with out.block(f"for (i64 j = p; j < full; j += {rows}) {{", "}"):
                    CudaBody(self, group, rows, wide=True).run()
                with out.block("for (i64 j = full; j < q; ++j) {", "}"):
                    CudaBody(self, group, wide=True).run()
        else:
            with out.block("for (i64 j = p; j < q; ++j) {", "}"):
                CudaBody(self, group, wide=True).run()
        self.join(group)
        out.line("BL_SYNC();")  # makes stored values visible to every lane

    def finish(self, group: Group) -> None:
        """Print how lanes' parts of sums are combined."""
        for instruction in group.instructions:
            if isinstance(instruction, Reduce | Gather) and instruction.out.kind is Kind.ROW:
                name = f"s{instruction.out.id}"
                self.set(name, f"bl_across<{_across(instruction)}>({name})")

    def join(self, group: Group) -> None:
        """Print how parts of a long row's sums over non-zeros are combined."""
        sums = [i for i in group.instructions if isinstance(i, Reduce | Gather)]
        if not sums:
            return
        with self.out.block("if (LONG) {", "}"):
            for instruction in sums:
                if instruction.out.kind is Kind.ROW:
                    name = f"s{instruction.out.id}"
                    self.set(name, f"bl_across_groups<{_across(instruction)}>({name})")
                else:
                    pack, name = self.pack(instruction.out.length), self.register(instruction.out)
                    per = f"BL_PER({instruction.out.length}, {pack})"
                    self.out.line(f"bl_add_groups<{per}, {pack}>({name});")


def _across(instruction: Reduce | Gather) -> str:
    """Return the function that combines two parts of a sum."""
    return _ACROSS[instruction.op if isinstance(instruction, Reduce) else "sum"]
