"""Sorts the features of a row and merges repeated ones; sorts numbers."""

from typing import Any

import numpy as np
import numpy.typing as npt

from .jit import helper, kernel

_kernel, _helper = kernel(), helper()

SHORT = 64


@_kernel
def tidy_row(indices: npt.NDArray[np.int32], values: npt.NDArray[Any]) -> int:
    """Sort a row by index in place, add up equal indices, return the new length.

    The remaining entries are at the front. Takes O(n log n) time and no further memory. Equal
    indices are added in the order of the sort.
    """
    falls = False
    for i in range(1, indices.size):
        falls |= indices[i] <= indices[i - 1]
    if not falls:
        return indices.size
    if indices.size <= SHORT:
        insertion_sort(indices, values)
    else:
        heap_sort(indices, values)
    left = 0
    for i in range(1, indices.size):
        if indices[i] == indices[left]:
            values[left] += values[i]
        else:
            left += 1
            indices[left], values[left] = indices[i], values[i]
    return left + 1


@_helper
def insertion_sort(indices: npt.NDArray[np.int32], values: npt.NDArray[Any]) -> None:
    """Sort by index in place, in O(n**2); beats `heap_sort` for some dozen entries."""
    for i in range(1, indices.size):
        index, value, at = indices[i], values[i], i
        while at > 0 and indices[at - 1] > index:
            indices[at], values[at] = indices[at - 1], values[at - 1]
            at -= 1
        indices[at], values[at] = index, value


@_helper
def heap_sort(indices: npt.NDArray[np.int32], values: npt.NDArray[Any]) -> None:
    """Sort by index in place (Williams, Algorithm 232, CACM 1964)."""
    for root in range(indices.size // 2 - 1, -1, -1):
        sift(indices, values, root, indices.size)
    for stop in range(indices.size - 1, 0, -1):
        indices[0], indices[stop] = indices[stop], indices[0]
        values[0], values[stop] = values[stop], values[0]
        sift(indices, values, 0, stop)


@_helper
def sift(indices: npt.NDArray[np.int32], values: npt.NDArray[Any], root: int, stop: int) -> None:
    """Let the entry at `root` sink until no entry below it, before `stop`, is larger."""
    while True:
        child = 2 * root + 1
        if child >= stop:
            return
        if child + 1 < stop and indices[child + 1] > indices[child]:
            child += 1
        if indices[child] <= indices[root]:
            return
        indices[root], indices[child] = indices[child], indices[root]
        values[root], values[child] = values[child], values[root]
        root = child


@_helper
def sort_numbers(numbers: npt.NDArray[Any]) -> None:
    """Sort numbers in place (Shell, CACM 1959, with Knuth's gaps), in kernels."""
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
