"""Sorts the features of a row and merges repeated ones; sorts numbers."""

from typing import Any

import numpy as np
import numpy.typing as npt

from ..compiling.jit import helper, kernel

_kernel, _helper = kernel(), helper()

SHORT = 64  # entries


@_kernel
def tidy_row(indices: npt.NDArray[np.int32], values: npt.NDArray[Any]) -> int:
    """Sort a row by index in place, add up equal indices, return the new length.

    The remaining entries are at the front. Takes no further memory. Equal indices are added in the
    order of the sort.
    """
    falls = False
    for i in range(1, indices.size):
        falls |= indices[i] <= indices[i - 1]
    if not falls:
        return indices.size
    sort_by_index(indices, values)
    left = 0
    for i in range(1, indices.size):
        if indices[i] == indices[left]:
            values[left] += values[i]
        else:
            left += 1
            indices[left], values[left] = indices[i], values[i]
    return left + 1


@_helper
def sort_by_index(indices: npt.NDArray[np.int32], values: npt.NDArray[Any]) -> None:
    """Sort by index in place (Shell, CACM 1959, with Knuth's gaps; short rows without gaps)."""
    if indices.size > SHORT:
        gap = 1
        while gap < indices.size // 9:
            gap = 3 * gap + 1
        while gap > 1:
            sort_apart(indices, values, gap)
            gap //= 3
    sort_apart(indices, values, 1)


@_helper
def sort_apart(indices: npt.NDArray[np.int32], values: npt.NDArray[Any], gap: int) -> None:
    """Sort entries that are `gap` apart by index, by insertion."""
    for i in range(gap, indices.size):
        index, value, at = indices[i], values[i], i
        while at >= gap and indices[at - gap] > index:
            indices[at], values[at] = indices[at - gap], values[at - gap]
            at -= gap
        indices[at], values[at] = index, value


@_helper
def sort_numbers(numbers: npt.NDArray[Any]) -> None:
    """Sort numbers in place, as `sort_by_index` does."""
    gap = 1
    while gap < numbers.size // 3:
        gap = 3 * gap + 1
    while gap:
        for i in range(gap, numbers.size):
            number, at = numbers[i], i
            while at >= gap and numbers[at - gap] > number:
                numbers[at] = numbers[at - gap]
                at -= gap
            numbers[at] = number
        gap //= 3
