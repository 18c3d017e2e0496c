"""Parse decimal numbers in bytes, bit for bit as Python does.

Every number equals `numpy.float32(float(text))`. Kernels read the numbers they are certain of. The
rest (too many digits, `1e400`, a mistake) is left to Python, which also writes the error messages.
Method: an integer w below 2**64 times a power of ten approximates the number in float64. If both
are exact, the result is that of `float` (Clinger, How to read floating point numbers accurately,
PLDI 1990). Otherwise its relative error is below 2**-50, and it is certain only if all numbers
within this distance round to one float32.
"""

import re

import numpy as np
import numpy.typing as npt

from ..arrays.compiled import kernel
from ..arrays.validate import LARGEST

TOO_LARGE = 2.0**128 - 2.0**103  # the least number that rounds to infinity in float32
POWERS = np.array([float(f"1e{i}") for i in range(61)])
EXACT_POWER = 22  # 10**22 is the largest power of ten that float64 holds exactly
PLUS, MINUS, DOT, ZERO, NINE, UPPER_E, LOWER_E = (ord(c) for c in "+-.09Ee")
INTEGER = re.compile(rb"\d{1,18}")
NUMBER = re.compile(rb"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?|[+-]?(inf|infinity|nan)", re.I)


def parse_number(text: bytes) -> float:
    """Return `text` as a number.

    Raises `ValueError`, also for `1_000`, which Python accepts.
    """
    if not NUMBER.fullmatch(text):
        raise ValueError(f"{show(text)} is not a number")
    return float(text)


def parse_float32(text: bytes) -> float:
    """Return `text` as a number. Raises `ValueError` unless it is a finite float32."""
    value = parse_number(text)
    if not abs(value) < TOO_LARGE:
        raise ValueError(
            f"{show(text)}, but every number must be a finite float32 (at most {LARGEST:.3g})"
        )
    return value


def show(text: bytes) -> str:
    """Return text of a file for a message: shortened and in quotes."""
    return repr(text[:40].decode("utf-8", "replace") + ("..." if len(text) > 40 else ""))


@kernel
def read_index(data: npt.NDArray[np.uint8], at: int, end: int) -> tuple[np.int64, int]:
    """Read an integer >= 0 of at most 18 digits at `data[at:end]`.

    Return it and its end. The integer is -1 if it is missing or has more digits.
    """
    start, value = at, np.int64(0)
    while at < end and ZERO <= data[at] <= NINE:
        if at - start == 18:
            return np.int64(-1), at
        value = value * 10 + (np.int64(data[at]) - ZERO)
        at += 1
    return (value if at > start else np.int64(-1)), at


@kernel
def read_float(data: npt.NDArray[np.uint8], at: int, end: int) -> tuple[np.float32, int, bool]:
    """Read a decimal number at `data[at:end]`.

    Return it, its end, and whether it is certain. Certain numbers are finite. The others are for
    `parse_number`.
    """
    negative = False
    if at < end and (data[at] == PLUS or data[at] == MINUS):
        negative = data[at] == MINUS
        at += 1
    w, exponent, digits, seen = np.uint64(0), 0, 0, 0
    while at < end and ZERO <= data[at] <= NINE:
        w = w * np.uint64(10) + np.uint64(data[at] - ZERO)
        digits += 1 if digits > 0 or data[at] != ZERO else 0  # w may wrap around to 0, so count
        seen += 1
        at += 1
    if at < end and data[at] == DOT:
        at += 1
        while at < end and ZERO <= data[at] <= NINE:
            w = w * np.uint64(10) + np.uint64(data[at] - ZERO)
            digits += 1 if digits > 0 or data[at] != ZERO else 0
            seen += 1
            exponent -= 1
            at += 1
    if seen == 0 or digits > 19:
        return np.float32(0.0), at, False
    if at < end and (data[at] == LOWER_E or data[at] == UPPER_E):
        at += 1
        sign = 1
        if at < end and (data[at] == PLUS or data[at] == MINUS):
            sign = -1 if data[at] == MINUS else 1
            at += 1
        shift, at = read_index(data, at, end)
        if shift < 0 or shift > 1000:
            return np.float32(0.0), at, False
        exponent += sign * int(shift)
    value, certain = scale(w, exponent)
    return (-value if negative else value), at, certain


@kernel
def scale(w: np.uint64, exponent: int) -> tuple[np.float32, bool]:
    """Return w * 10**exponent as float32, and whether it is certain and finite."""
    if w == 0:
        return np.float32(0.0), True
    if not -60 <= exponent <= 60:
        return np.float32(0.0), False
    value = np.float64(w)
    value = value * POWERS[exponent] if exponent >= 0 else value / POWERS[-exponent]
    single = np.float32(value)
    if w <= np.uint64(2**53) and -EXACT_POWER <= exponent <= EXACT_POWER:
        return single, np.isfinite(single)
    low, high = np.float32(value * (1.0 - 2.0**-50)), np.float32(value * (1.0 + 2.0**-50))
    return single, low == high and np.isfinite(high)
