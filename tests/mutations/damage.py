"""Damage to bytes: by disks, by programs, by people with editors, and by people who mean harm."""

import re
from collections.abc import Callable
from typing import TypeVar

import numpy as np

Item = TypeVar("Item")
Random = np.random.Generator
Damage = Callable[[Random, bytes, bytes], bytes]
"""Changes the second argument. The third is another good file, to take pieces from."""

EXTREMES = [0, 1, 2, -1, 2**15, 2**31 - 1, -(2**31), 2**31, 2**32 - 1, 2**62, 2**63 - 1, -(2**63)]

NUMBERS = [
    b"-1", b"0", b"-0", b"+3", b"007", b"1.", b".5", b"1e3", b"1E+05", b"1e400", b"-1e400",
    b"1e-400", b"nan", b"NaN", b"inf", b"-Infinity", b"0x1p3", b"0x10", b"1_000", b"1,5", b"1d3",
    b"3.4028236e38", b"3.4028234e38", b"1e38", b"16777217", b"0.1", b"0.30000000000000004",
    b"2147483647", b"2147483648", b"4294967296", b"9223372036854775808", b"99999999999999999999",
    b"18446744073709551616", b"0.18446744073709551616", b"1" * 30, b"9" * 400, b"9" * 5000,
    b"0." + b"0" * 60 + b"1", "\u0663\u0664".encode(), "\uff11".encode(), "\u00bd".encode(),
    b"1 2", b"--1", b"1e", b"e5", b"", b"true", b"null", b"1.2.3", b"1e999999999999999999",
]  # fmt: skip

WORDS = [
    b"\n", b"\r", b"\r\n", b"\n\n", b"\t", b" ", b",", b";", b":", b"|", b'"', b"'", b"#", b"%",
    b"\\", b"\x00", b"\xff", b"\x1b[31m", b"\xc3", b"\xef\xbb\xbf", b"\xff\xfe", b"\xe2\x80\xa8",
    b"\x0b", b"\x0c", b"\x1c", b"\x85", b"\xc2\x85", b"qid:1", b"{", b"[", b"}", b"]",
    "\u00e9".encode(), "\U0001f600".encode(), b"a" * 5000, b"\\u0000", b"\\ud800", b"-",
]  # fmt: skip

NUMBER = re.compile(rb"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")


def place(rng: Random, data: bytes) -> int:
    """A position in `data`, its end included."""
    return int(rng.integers(len(data) + 1))


def choose(rng: Random, items: list[Item]) -> Item:
    return items[int(rng.integers(len(items)))]


def stretch(rng: Random, data: bytes, most: int = 64) -> slice:
    """Some bytes in a row, short ones more often."""
    at = place(rng, data)
    return slice(at, min(len(data), at + int(rng.integers(1, 1 + int(rng.integers(1, most))))))


def flip_bits(rng: Random, data: bytes, other: bytes) -> bytes:
    found = bytearray(data)
    for _ in range(int(rng.integers(1, 4)) if data else 0):
        found[int(rng.integers(len(data)))] ^= 1 << int(rng.integers(8))
    return bytes(found)


def change_byte(rng: Random, data: bytes, other: bytes) -> bytes:
    at = place(rng, data)
    return data[:at] + bytes([int(rng.integers(256))]) + data[at + 1 :]


def cut_off(rng: Random, data: bytes, other: bytes) -> bytes:
    return data[: place(rng, data)]


def cut_the_beginning(rng: Random, data: bytes, other: bytes) -> bytes:
    return data[place(rng, data) :]


def delete(rng: Random, data: bytes, other: bytes) -> bytes:
    part = stretch(rng, data)
    return data[: part.start] + data[part.stop :]


def repeat(rng: Random, data: bytes, other: bytes) -> bytes:
    part = stretch(rng, data, 400)
    return data[: part.stop] + data[part] * int(rng.integers(1, 4)) + data[part.stop :]


def exchange(rng: Random, data: bytes, other: bytes) -> bytes:
    """Two neighbouring stretches change places."""
    part = stretch(rng, data)
    end = min(len(data), part.stop + (part.stop - part.start))
    return data[: part.start] + data[part.stop : end] + data[part] + data[end:]


def fill(rng: Random, data: bytes, other: bytes) -> bytes:
    """A stretch as a disk leaves it that lost a page."""
    part = stretch(rng, data, 600)
    size = part.stop - part.start
    rest = choose(rng, [b"\0" * size, b"\xff" * size, b" " * size, rng.bytes(size)])
    return data[: part.start] + rest + data[part.stop :]


def splice(rng: Random, data: bytes, other: bytes) -> bytes:
    """The beginning of this, the end of another."""
    return data[: place(rng, data)] + other[place(rng, other) :]


def paste(rng: Random, data: bytes, other: bytes) -> bytes:
    at = place(rng, data)
    return data[:at] + other[stretch(rng, other, 400)] + data[at:]


def put_in_word(rng: Random, data: bytes, other: bytes) -> bytes:
    at = place(rng, data)
    return data[:at] + choose(rng, WORDS) + data[at:]


def overwrite_word(rng: Random, data: bytes, other: bytes) -> bytes:
    at, word = place(rng, data), choose(rng, WORDS)
    return data[:at] + word + data[at + len(word) :]


def replace_number(rng: Random, data: bytes, other: bytes) -> bytes:
    found = list(NUMBER.finditer(data[:20_000]))
    if not found:
        return put_in_word(rng, data, other)
    match = choose(rng, found)
    return data[: match.start()] + choose(rng, NUMBERS) + data[match.end() :]


def replace_early_number(rng: Random, data: bytes, other: bytes) -> bytes:
    """One of the first six: sizes stand there."""
    found = list(NUMBER.finditer(data[:400]))[:6]
    if not found:
        return put_in_word(rng, data, other)
    match = choose(rng, found)
    return data[: match.start()] + choose(rng, NUMBERS) + data[match.end() :]


def lengthen_number(rng: Random, data: bytes, other: bytes) -> bytes:
    """Digits before, behind or within a number."""
    found = list(NUMBER.finditer(data[:20_000]))
    if not found:
        return put_in_word(rng, data, other)
    match = choose(rng, found)
    at = int(rng.integers(match.start(), match.end() + 1))
    digits = bytes(48 + int(d) for d in rng.integers(0, 10, int(rng.integers(1, 45))))
    return data[:at] + choose(rng, [digits, b"0" * len(digits), b"." + digits]) + data[at:]


def extreme_integer(rng: Random, data: bytes, other: bytes) -> bytes:
    """A binary length or count becomes one that cannot be; near an end more often."""
    width = int(rng.choice([1, 2, 4, 8]))
    at = place(rng, data)
    match int(rng.integers(4)):
        case 0:
            at = int(rng.integers(0, min(len(data), 64) + 1))
        case 1:
            at = max(0, len(data) - int(rng.integers(1, 65)))
    at -= at % width
    order = "little" if rng.integers(4) else "big"
    number = (choose(rng, EXTREMES) % 256**width).to_bytes(width, order)  # type: ignore[arg-type]
    return data[:at] + number + data[at + width :]


def nudge_integer(rng: Random, data: bytes, other: bytes) -> bytes:
    """A binary number becomes a little larger or smaller."""
    width = int(rng.choice([1, 4, 8]))
    at = place(rng, data)
    at -= at % width
    found = int.from_bytes(data[at : at + width], "little") + int(rng.integers(-2, 3))
    return data[:at] + (found % 256**width).to_bytes(width, "little") + data[at + width :]


def change_line_ends(rng: Random, data: bytes, other: bytes) -> bytes:
    end = choose(rng, [b"\r\n", b"\r", b"\n\n", b"\n\r", b" \n", b"\t\r\n", b",\n", b"\x00\n"])
    if rng.integers(2):
        return data.replace(b"\n", end)
    found = [i for i, byte in enumerate(data) if byte == 10]
    if not found:
        return data + end
    at = choose(rng, found)
    return data[:at] + end + data[at + 1 :]


def move_lines(rng: Random, data: bytes, other: bytes) -> bytes:
    """Lines are lost, doubled, exchanged, joined, or come from another file."""
    lines = data.split(b"\n")
    at, to = int(rng.integers(len(lines))), int(rng.integers(len(lines)))
    match int(rng.integers(6)):
        case 0:
            del lines[at]
        case 1:
            lines.insert(to, lines[at])
        case 2:
            lines[at], lines[to] = lines[to], lines[at]
        case 3:
            lines[at : at + 2] = [b"".join(lines[at : at + 2])]
        case 4:
            lines.insert(to, choose(rng, other.split(b"\n")))
        case _:
            lines[at] = lines[at][: place(rng, lines[at])]
    return b"\n".join(lines)


def move_fields(rng: Random, data: bytes, other: bytes) -> bytes:
    """A field of a line is lost, doubled, emptied, quoted, or gets blanks around it."""
    lines = data.split(b"\n")
    at = int(rng.integers(len(lines)))
    mark = choose(rng, [b",", b" ", b"|", b":", b"\t"])
    fields = lines[at].split(mark)
    i = int(rng.integers(len(fields)))
    match int(rng.integers(5)):
        case 0:
            del fields[i]
        case 1:
            fields.insert(i, fields[i])
        case 2:
            fields[i] = b""
        case 3:
            fields[i] = b'"' + fields[i] + b'"'
        case _:
            fields[i] = b" " + fields[i] + b" "
    lines[at] = mark.join(fields)
    return b"\n".join(lines)


def mark_or_strip(rng: Random, data: bytes, other: bytes) -> bytes:
    """A byte order mark, a last newline that is lost, blanks at an end, or another encoding."""
    match int(rng.integers(6)):
        case 0:
            return b"\xef\xbb\xbf" + data
        case 1:
            return data.rstrip(b"\n")
        case 2:
            return data + choose(rng, [b"\n", b" ", b"\0", b"\x1a", b"\n\n \n"])
        case 3:
            return data.decode("latin1").encode("utf-16")
        case 4:
            return b"\n" + data
        case _:
            return data.replace(b" ", choose(rng, ["\u00a0".encode(), b"\t", b"  ", b"\x1f"]), 3)


BINARY: list[Damage] = [
    flip_bits, flip_bits, change_byte, cut_off, cut_the_beginning, delete, repeat, exchange, fill,
    splice, paste, extreme_integer, extreme_integer, nudge_integer,
]  # fmt: skip
TEXT: list[Damage] = [
    flip_bits, change_byte, cut_off, delete, repeat, exchange, fill, splice, paste, put_in_word,
    put_in_word, overwrite_word, replace_number, replace_number, replace_early_number,
    lengthen_number, change_line_ends, move_lines, move_lines, move_fields, move_fields,
    mark_or_strip,
]  # fmt: skip
