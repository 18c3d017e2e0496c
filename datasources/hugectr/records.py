"""Measure and decode the records of HugeCTR's binary formats.

The layouts are those of HugeCTR's documentation (Python interface, "Dataset formats": Norm and Raw)
and of its reader (`data_readers/check_sum.hpp`). A checked record is preceded by its length in
bytes, int32, and followed by the sum of its bytes, modulo 256. Numbers are little-endian.

Norm: float32 labels, float32 dense features; for each slot the number of its keys, int32, and the
keys. Raw: labels and dense features, all float32 or all int32; for each slot one key. int32 dense
features become log(1 + x).
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from blocklearn.matcache.cpu.kernels.sort_row import tidy_row

from ..arrays.compiled import kernel
from ..arrays.hashing import GOLDEN, mix_one

MORE, LENGTH, COUNT, SUM, KEY, FINITE = range(-1, -7, -1)
"""Faults: the record exceeds the data; its parts do not fill its length; an impossible number of
keys; a wrong check sum; a key without a column; a number that is not finite.
"""

Bytes = npt.NDArray[np.uint8]


class Layout(NamedTuple):
    """The layout that all records share.

    labels, dense, slots: how many of each.
    key_bytes: 4 (unsigned) or 8.
    counted: whether slots store their number of keys; otherwise each has one key.
    checked: whether records have lengths and check sums.
    integers: whether labels and dense features are int32; otherwise they are float32.
    """

    labels: int
    dense: int
    slots: int
    key_bytes: int
    counted: bool = True
    checked: bool = False
    integers: bool = False

    @property
    def size(self) -> int:
        """The bytes of a record without counted slots."""
        return 4 * (self.labels + self.dense) + self.key_bytes * self.slots


class KeyColumns(NamedTuple):
    """The columns of keys, by slot.

    first: int64 [slots], the first column of each slot.
    sizes: int64 [slots]: key i < sizes[k] of slot k is column first[k] + i.
    bits: if > 0, keys are hashed to 2**bits columns from first[k] on.
    seeds: uint64 [slots], of the hash.
    """

    first: npt.NDArray[np.int64]
    sizes: npt.NDArray[np.int64]
    seeds: npt.NDArray[np.uint64]
    bits: int


@kernel
def read_bits(data: Bytes, at: int) -> np.uint32:
    """Read four bytes."""
    low = np.uint32(data[at]) | (np.uint32(data[at + 1]) << np.uint32(8))
    high = np.uint32(data[at + 2]) | (np.uint32(data[at + 3]) << np.uint32(8))
    return np.uint32(low | (high << np.uint32(16)))


@kernel
def read_count(data: Bytes, at: int) -> int:
    """Read a signed integer of four bytes."""
    return int(np.uint32(read_bits(data, at)).view(np.int32))


@kernel
def read_number(data: Bytes, at: int, integer: bool) -> float:
    """Read a float32 or a signed integer of four bytes."""
    if integer:
        return float(read_count(data, at))
    return float(np.uint32(read_bits(data, at)).view(np.float32))


@kernel
def read_key(data: Bytes, at: int, size: int) -> np.uint64:
    """Read an unsigned integer of four bytes, or a signed one of eight, modulo 2**64."""
    key = np.uint64(read_bits(data, at))
    if size == 8:
        key |= np.uint64(read_bits(data, at + 4)) << np.uint64(32)
    return key


@kernel
def measure(data: Bytes, at: int, stop: int, layout: Layout) -> tuple[int, int]:
    """Return the end of the record at `at` and its number of keys; or a fault and 0.

    Only `data[at:stop]` is read.
    """
    limit = stop
    if layout.checked:
        if stop - at < 4:
            return MORE, 0
        limit = at + 4 + read_count(data, at)
        at += 4
        if limit < at:
            return LENGTH, 0
        if limit >= stop:
            return MORE, 0
    begin, short = at, LENGTH if layout.checked else MORE
    at += 4 * (layout.labels + layout.dense)
    keys = 0
    for _ in range(layout.slots):
        count = 1
        if layout.counted:
            if limit - at < 4:
                return short, 0
            count = read_count(data, at)
            at += 4
            if count < 0:
                return COUNT, 0
        if count > (limit - at) // layout.key_bytes:
            return short, 0
        at += count * layout.key_bytes
        keys += count
    if at > limit:
        return short, 0
    if layout.checked:
        if at != limit:
            return LENGTH, 0
        total = 0
        for i in range(begin, limit):
            total += data[i]
        if total % 256 != data[limit]:
            return SUM, 0
        at += 1
    return at, keys


@kernel
def decode(
    data: Bytes,
    at: int,
    layout: Layout,
    keys: KeyColumns,
    labels: npt.NDArray[np.float32],
    filled: int,
    indices: npt.NDArray[np.int32],
    values: npt.NDArray[np.float32],
) -> tuple[int, int]:
    """Write a measured record: its labels, and its features from `filled` on.

    Dense features are columns 0, 1, ...; zeros are left out. A key has the value 1; a hashed key
    has 1 or -1, by the hash's highest bit. Values in the same column are added. Columns ascend.

    Returns the number of features written so far, or a fault; and the slot or number at fault.
    """
    start = filled
    at += 4 if layout.checked else 0
    for i in range(layout.labels + layout.dense):
        number = read_number(data, at, layout.integers)
        at += 4
        if i >= layout.labels and layout.integers:
            number = np.log1p(number) if number > -1 else np.nan
        if not np.isfinite(number):
            return FINITE, i
        if i < layout.labels:
            labels[i] = number
        elif number != 0:
            indices[filled], values[filled] = i - layout.labels, number
            filled += 1
    for slot in range(layout.slots):
        count = 1
        if layout.counted:
            count = read_count(data, at)
            at += 4
        for _ in range(count):
            key, value = read_key(data, at, layout.key_bytes), 1.0
            at += layout.key_bytes
            if keys.bits > 0:
                key = mix_one(key * GOLDEN + keys.seeds[slot])
                value = -1.0 if key >> np.uint64(63) == np.uint64(1) else 1.0
                key &= np.uint64((1 << keys.bits) - 1)
            elif key >= np.uint64(keys.sizes[slot]):
                return KEY, slot
            indices[filled], values[filled] = keys.first[slot] + np.int64(key), value
            filled += 1
    return tidy_row(indices[start:filled], values[start:filled]) + start, 0
