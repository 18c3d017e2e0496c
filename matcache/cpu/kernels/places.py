"""CPU kernels that read and write rows and columns by position."""

# Numba infers the types.
# mypy: allow-untyped-defs

from ..compiling.jit import helper, kernel

_kernel, _helper = kernel("contract", "nsz"), helper("contract", "nsz")


@_helper
def ascend_by_one(columns):
    """Return whether numbers are consecutive, as those of whole rows are."""
    for j in range(1, columns.size):
        if columns[j] != columns[0] + j:
            return False
    return columns.size > 0


@_helper
def place_of(numbers, first, last, wanted):
    """Return the first place in numbers[first:last], ascending, of one that is not smaller."""
    while first < last:
        middle = (first + last) >> 1
        if numbers[middle] < wanted:
            first = middle + 1
        else:
            last = middle
    return first


@_kernel
def scatter(chunk, thread, bounds, target, rows, columns, source, add, bad):
    """Write target[rows[i], columns[j]] = source[i, j], or add it, for ascending i.

    A chunk has rows of the target, so the order does not depend on the number of chunks. Where rows
    ascend, it reads only those that it writes.

    source: [rows x columns]; an axis of length 1 repeats.
    bad: receives the first row position that is out of range. Then nothing is written.
    """
    start, stop = 0, rows.size
    falls, jumps = 0, 0
    for i in range(1, rows.size):
        falls += rows[i] < rows[i - 1]
        jumps += rows[i] != rows[i - 1] + 1
    first, last = bounds[chunk], bounds[chunk + 1]
    if falls == 0 and rows.size and rows[0] >= 0 and rows[rows.size - 1] < target.shape[0]:
        start = place_of(rows, 0, rows.size, first)
        stop = place_of(rows, start, rows.size, last)
    else:
        for i in range(rows.size):
            if rows[i] < 0 or rows[i] >= target.shape[0]:
                bad[chunk, 0] = i + 1
                return
    tall, wide = min(source.shape[0] - 1, 1), min(source.shape[1] - 1, 1)
    if columns.size == 1:
        column = target[:, columns[0]]
        if jumps == 0 and start < stop and tall == 1:  # neighbours: LLVM makes vectors
            into, numbers = column[rows[start] : rows[start] + stop - start], source[start:stop, 0]
            for i in range(stop - start):
                into[i] = into[i] + numbers[i] if add else numbers[i]
            return
        for i in range(start, stop):
            r = rows[i]
            if first <= r < last:
                x = source[i * tall, 0]
                column[r] = column[r] + x if add else x
        return
    straight = wide == 1 and ascend_by_one(columns)
    for i in range(start, stop):
        r = rows[i]
        if r < first or r >= last:
            continue
        if straight:
            into, row = target[r, columns[0] : columns[0] + columns.size], source[i * tall]
            if add:
                for j in range(columns.size):
                    into[j] += row[j]
            else:
                for j in range(columns.size):
                    into[j] = row[j]
            continue
        for j in range(columns.size):
            x = source[i * tall, j * wide]
            target[r, columns[j]] = target[r, columns[j]] + x if add else x


@_kernel
def gather(chunk, thread, bounds, source, rows, columns, out, bad):
    """Gather out[i, j] = source[rows[i], columns[j]].

    bad: receives the first index that is out of range.
    """
    for j in range(columns.size):
        if columns[j] < 0 or columns[j] >= source.shape[1]:
            bad[chunk, 1] = j + 1
            return
    straight = ascend_by_one(columns)
    for i in range(bounds[chunk], bounds[chunk + 1]):
        r = rows[i]
        if r < 0 or r >= source.shape[0]:
            bad[chunk, 0] = i + 1
            return
        if straight:
            row = source[r, columns[0] : columns[0] + columns.size]
            for j in range(columns.size):
                out[i, j] = row[j]
            continue
        for j in range(columns.size):
            out[i, j] = source[r, columns[j]]
