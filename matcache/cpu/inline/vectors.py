"""Vector instructions for rows of known length: dot products, sums, prefetching.

LLVM vectorises a loop over k only if it has at least `SHORT` rounds. It unrolls shorter ones first,
which leaves scalar code, 2 to 5 times slower. Here the vectors are explicit. `long_rows.py` has the
same for longer rows, where scalar code would remain for the numbers after the last whole vector.
"""

# Numba infers the types.
# mypy: allow-untyped-defs, allow-untyped-calls

from functools import cache
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

instruction: Any = intrinsic  # callers do not pass the first parameter

LINE = 64  # bytes of a cache line
_I32, _I64, _BYTES = ir.IntType(32), ir.IntType(64), ir.IntType(8).as_pointer()
_FLOAT = {32: ir.FloatType(), 64: ir.DoubleType()}


def lanes(bits: int) -> int:
    """Return the numbers in a vector; LLVM splits it if the machine's are shorter."""
    return 512 // bits


@cache
def make_dots(length: int, count: int, bits: int) -> Any:
    """Make `dots(vector, at, table, rows)`: dot products with `count` table rows.

    vector: vector[at : at + length] is used.
    table: table[row : row + length] is used for each row.
    rows: tuple of offsets in the table.

    vector and table are C-contiguous arrays of any shape, seen as one-dimensional. Returns a tuple
    of floats of `bits` bits.
    """

    @instruction
    def dots(typingctx, vector, at, table, rows):
        number = getattr(types, f"float{bits}")
        signature = types.UniTuple(number, count)(
            vector, types.intp, table, types.UniTuple(types.intp, count)
        )

        def codegen(context, builder, sig, args):
            row = Row(context, builder, length, bits)
            left = row.pointer(sig.args[0], args[0], args[1])
            right = [row.pointer(sig.args[2], args[2], r) for r in row.unpack(args[3], count)]
            sums: list[Any] = [None] * count
            for v in range(row.vectors):
                x = row.load(left, v)
                for n, pointer in enumerate(right):
                    sums[n] = row.multiply_add(x, row.load(pointer, v), sums[n])
            return context.make_tuple(builder, sig.return_type, row.totals(sums))

        return signature, codegen

    return dots


@cache
def make_add(length: int, count: int, bits: int, *, padded: bool = False) -> Any:
    """Make `add(out, at, table, rows, weights)`: add `count` weighted rows to a row.

    padded: whether out has room for whole vectors, whose last numbers do not matter.

    out[at : at + length] += sum over n of weights[n] * table[rows[n] : rows[n] + length], with
    arrays as in `make_dots`. The bits equal those of a loop over the numbers.
    """

    @instruction
    def add(typingctx, out, at, table, rows, weights):
        number = getattr(types, f"float{bits}")
        signature = types.void(
            out,
            types.intp,
            table,
            types.UniTuple(types.intp, count),
            types.UniTuple(number, count),
        )

        def codegen(context, builder, sig, args):
            row = Row(context, builder, length, bits)
            target = row.pointer(sig.args[0], args[0], args[1])
            sources = [row.pointer(sig.args[2], args[2], r) for r in row.unpack(args[3], count)]
            factors = [row.splat(w) for w in row.unpack(args[4], count)]
            for v in range(row.vectors):
                total: Any = None
                for pointer, factor in zip(sources, factors, strict=True):
                    term = builder.fmul(factor, row.load(pointer, v))
                    total = term if total is None else builder.fadd(total, term)
                before = row.load(target, v, whole=padded)
                row.store(builder.fadd(before, total), target, v, whole=padded)
            return context.get_dummy_value()

        return signature, codegen

    return add


@instruction
def fetch(typingctx, matrix, row, column):
    """Prefetch the cache line of matrix[row, column], for reading and writing.

    Processors do not foresee rows that are not neighbours. Without prefetching, each costs the full
    latency of memory.
    """
    return types.void(matrix, types.intp, types.intp), _prefetch


@instruction
def fetch1(typingctx, array, i):
    """Prefetch the cache line of array[i], likewise; i may be beyond the end."""
    return types.void(array, types.intp), _prefetch


@instruction
def fetch_row(typingctx, table, row, length):
    """Prefetch the cache lines of table[row, :length], for reading; the table is C-contiguous.

    Other threads may read the same rows, so their caches keep the lines.
    """

    def codegen(context, builder, sig, args):
        row = Row(context, builder, 1, 32)
        table, dtype = sig.args[0], sig.args[0].dtype
        line = _I64(LINE * 8 // dtype.bitwidth)
        shape = context.make_array(table)(context, builder, args[0]).shape
        begin = builder.mul(args[1], builder.extract_value(shape, 1))
        start, _ = row.pointer(table, args[0], begin)
        with cgutils.for_range_slice(builder, _I64(0), args[2], line) as (at, _):
            fetch_at(builder, builder.gep(start, [at]), for_writing=False)
        fetch_at(builder, builder.gep(start, [builder.sub(args[2], _I64(1))]), for_writing=False)
        return context.get_dummy_value()

    return types.void(table, types.intp, types.intp), codegen


def _prefetch(context, builder, sig, args):
    array = context.make_array(sig.args[0])(context, builder, args[0])
    place = cgutils.get_item_pointer(context, builder, sig.args[0], array, args[1:])
    fetch_at(builder, place, for_writing=True)
    return context.get_dummy_value()


def fetch_at(builder, place, *, for_writing):
    """Print a prefetch of the cache line at an address."""
    line = builder.bitcast(place, _BYTES)
    kind = ir.FunctionType(ir.VoidType(), [_BYTES, _I32, _I32, _I32])
    known = builder.module.globals.get("llvm.prefetch.p0")
    prefetch = known or ir.Function(builder.module, kind, "llvm.prefetch.p0")
    builder.call(prefetch, [line, _I32(int(for_writing)), _I32(3), _I32(1)])


class Row:
    """Instructions on a row of `length` numbers, as vectors; the last may be masked."""

    def __init__(self, context, builder, length, bits):
        self.context, self.builder, self.length = context, builder, length
        self.lanes = lanes(bits)
        self.vectors = -(-length // self.lanes)
        self.number = _FLOAT[bits]
        self.vector = ir.VectorType(self.number, self.lanes)
        tail = length - (self.vectors - 1) * self.lanes
        self.partial = tail < self.lanes
        flags = [int(lane < tail) for lane in range(self.lanes)]
        self.mask = ir.Constant(ir.VectorType(ir.IntType(1), self.lanes), flags)

    def unpack(self, aggregate, count):
        """Return the elements of a tuple."""
        return [self.builder.extract_value(aggregate, n) for n in range(count)]

    def pointer(self, type_, array, at):
        """Return the address and type of an array's element `at`."""
        data = self.context.make_array(type_)(self.context, self.builder, array).data
        return self.builder.gep(data, [at]), type_.dtype

    def load(self, place, v, whole=False):
        """Return vector v of the row that starts at `place`, converted to our floats."""
        return self.load_at(place, _I64(v * self.lanes), self._whole(v, whole))

    def load_at(self, place, at, whole):
        """Return the vector that begins at number `at` of a row, converted to our floats.

        whole: whether all its numbers are read; else those of `mask`, and zeros.
        """
        pointer, dtype = place
        element = self.context.get_data_type(dtype)
        vector = ir.VectorType(element, self.lanes)
        at = self._at(pointer, at, vector)
        align = dtype.bitwidth // 8
        if whole:
            x = self.builder.load(at, align=align)
        else:
            name = f"llvm.masked.load.v{self.lanes}{_short(dtype)}.p0"
            arguments = [vector.as_pointer(), _I32, self.mask.type, vector]
            function = self._declare(name, vector, arguments)
            zero = ir.Constant(vector, [0] * self.lanes)
            x = self.builder.call(function, [at, _I32(align), self.mask, zero])
        if isinstance(dtype, types.Integer):
            return self.builder.sitofp(x, self.vector)
        if element == self.number:
            return x
        wider = self.number == _FLOAT[64]
        return (self.builder.fpext if wider else self.builder.fptrunc)(x, self.vector)

    def store(self, x, place, v, whole=False):
        """Store vector v of the row that starts at `place`, converted to its floats."""
        self.store_at(x, place, _I64(v * self.lanes), self._whole(v, whole))

    def store_at(self, x, place, at, whole):
        """Store the vector that begins at number `at` of a row, as `load_at` reads it."""
        pointer, dtype = place
        element = self.context.get_data_type(dtype)
        vector = ir.VectorType(element, self.lanes)
        if element != self.number:
            wider = element == _FLOAT[64]
            x = (self.builder.fpext if wider else self.builder.fptrunc)(x, vector)
        at = self._at(pointer, at, vector)
        align = dtype.bitwidth // 8
        if whole:
            self.builder.store(x, at, align=align)
            return
        name = f"llvm.masked.store.v{self.lanes}{_short(dtype)}.p0"
        arguments = [vector, vector.as_pointer(), _I32, self.mask.type]
        function = self._declare(name, ir.VoidType(), arguments)
        self.builder.call(function, [x, at, _I32(align), self.mask])

    def splat(self, number):
        """Return a vector that repeats one number."""
        undefined = ir.Constant(self.vector, ir.Undefined)
        first = self.builder.insert_element(undefined, number, _I32(0))
        return self.shuffle(first, undefined, [0] * self.lanes)

    def multiply_add(self, x, y, z):
        """Return x * y + z, or x * y if z is None."""
        if z is None:
            return self.builder.fmul(x, y)
        suffix = "f32" if self.number == _FLOAT[32] else "f64"
        name = f"llvm.fmuladd.v{self.lanes}{suffix}"
        function = self._declare(name, self.vector, [self.vector] * 3)
        return self.builder.call(function, [x, y, z])

    def totals(self, vectors):
        """Return the sum of the lanes of each vector.

        vectors: a power of two of them, at most as many as lanes.

        Two vectors become one, in which each has half as many parts, until one vector remains. Then
        the halves of its parts are added until each part is one number.
        """
        width, order = self.lanes, [[n] for n in range(len(vectors))]
        while len(vectors) > 1:
            halves = range(0, 2 * self.lanes, width)
            low = [start + i for start in halves for i in range(width // 2)]
            high = [place + width // 2 for place in low]
            vectors = [
                self.builder.fadd(self.shuffle(x, y, low), self.shuffle(x, y, high))
                for x, y in zip(vectors[::2], vectors[1::2], strict=True)
            ]
            order = [a + b for a, b in zip(order[::2], order[1::2], strict=True)]
            width //= 2
        (x,) = vectors
        part = width
        while width > 1:
            width //= 2
            moved = [lane ^ width for lane in range(self.lanes)]
            x = self.builder.fadd(x, self.shuffle(x, x, moved))
        places = {n: place * part for place, n in enumerate(order[0])}
        return [self.builder.extract_element(x, _I32(places[n])) for n in sorted(places)]

    def shuffle(self, x, y, places):
        """Select lanes of x (numbered from 0) and y (numbered from `lanes`)."""
        index = ir.Constant(ir.VectorType(_I32, len(places)), places)
        return self.builder.shuffle_vector(x, y, index)

    def _at(self, pointer, at, vector):
        moved = self.builder.gep(pointer, [at])
        return self.builder.bitcast(moved, vector.as_pointer())

    def _whole(self, v, whole):
        return whole or v < self.vectors - 1 or not self.partial

    def _declare(self, name, result, arguments):
        module = self.builder.module
        known = module.globals.get(name)
        return known or ir.Function(module, ir.FunctionType(result, arguments), name)


def _short(dtype):
    """Return LLVM's short name of an element type."""
    return f"{'i' if isinstance(dtype, types.Integer) else 'f'}{dtype.bitwidth}"
