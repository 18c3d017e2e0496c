"""Send the score of a block from one worker to another: its numbers, without its kind.

All workers score with the same model, so the parts of their scores are alike but for their numbers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from blocklearn.matcache import Mat
from blocklearn.models.score import Part, Score

Array = NDArray[Any]


class Received:
    """Numbers of a `Mat` of another worker."""

    def __init__(self, array: Array) -> None:
        self._array = array

    def shown(self) -> Array:
        """Return the numbers, as `Mat.shown`."""
        return self._array


def packed(score: Score, rows: int) -> NDArray[np.uint8]:
    """Return the numbers of a score, already read, and of its true rows, as bytes.

    Raises TypeError if a part of it is no dataclass.
    """
    found: list[Array] = []

    def note(number: Any) -> Any:
        found.append(np.ascontiguousarray(number.shown() if isinstance(number, Mat) else number))
        return number

    for name in score:
        _changed(score[name], note)
    about = [[array.dtype.str, array.shape] for array in found]
    head = json.dumps([rows, list(score), about]).encode()
    size = np.array([len(head)], np.int64)
    return np.frombuffer(
        b"".join([size.tobytes(), head, *(array.tobytes() for array in found)]), np.uint8
    )


def unpacked(part: NDArray[np.uint8], like: Score) -> tuple[Score, int]:
    """Return the score and the number of rows that another worker has packed.

    like: a score of the same kind.
    """
    data = part.tobytes()
    end = 8 + int.from_bytes(data[:8], "little")
    rows, names, about = json.loads(data[8:end])
    arrays = _arrays(data, end, about)

    def take(number: Any) -> Any:
        array = next(arrays)
        return Received(array) if isinstance(number, Mat) else type(number)(array.item())

    return {name: _changed(like[name], take) for name in names}, rows


def _arrays(data: bytes, start: int, about: list[Any]) -> Iterator[Array]:
    for kind, shape in about:
        count = int(np.prod(shape))
        yield np.frombuffer(data, kind, count, start).reshape(shape).copy()
        start += count * np.dtype(kind).itemsize


def _changed(part: Part, change: Callable[[Any], Any]) -> Part:
    """Return a part with `change` of each number and Mat, in the order of its fields."""
    if not is_dataclass(part):
        raise TypeError(
            f"{type(part).__name__}: must be a dataclass of numbers and Mats, so that workers can "
            "send it to each other. Score with one worker, or make it one."
        )

    def changed(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(changed, value))
        return change(value) if isinstance(value, (int, float, np.number, Mat)) else value

    each = {field.name: changed(getattr(part, field.name)) for field in fields(part)}
    return cast(Part, replace(part, **each))
