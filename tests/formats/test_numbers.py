"""Numbers in text files are what Python reads: around every power of two and of ten."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from blocklearn.datasources import DataError
from blocklearn.datasources.formats.libsvm_lines import parse
from blocklearn.datasources.parsing.layout import Place
from blocklearn.datasources.parsing.lines import Lines
from blocklearn.datasources.parsing.numbers import TOO_LARGE, parse_float32, parse_number
from tests.support.formats import read

DIGITS = 40


def landmarks() -> list[int]:
    """Every power of two and of ten of at most `DIGITS` digits."""
    limit = 10**DIGITS
    twos = [2**i for i in range(limit.bit_length()) if 2**i < limit]
    return sorted({*twos, *(10**i for i in range(DIGITS))})


def numbers(count: int, seed: int) -> Iterator[str]:
    """Numbers near landmarks and multiples of 2**64, of 1 to 40 digits, in many spellings."""
    rng, marks, limit = np.random.default_rng(seed), landmarks(), 10**DIGITS
    for i in range(count):
        whole = marks[i % len(marks)]
        match rng.integers(4):
            case 0:
                whole += int(rng.integers(-3, 4))
            case 1:
                whole *= int(rng.integers(1, 1000))
            case 2:
                whole = 2**64 * int(rng.integers(1, 2**63)) >> int(rng.integers(64))
            case _:
                whole = int("".join(map(str, rng.integers(0, 10, rng.integers(1, 41)))))
        digits = str(abs(whole) % limit)
        zeros = "0" * int(rng.integers(0, 25)) if rng.integers(4) == 0 else ""
        point = int(rng.integers(0, len(digits) + 1))
        text = [
            digits,
            f"{digits[:point]}.{digits[point:]}",
            f"0.{zeros}{digits}",
            f"{zeros}{digits}.{zeros}",
        ][rng.integers(4)]
        if rng.integers(3) == 0:
            text += f"{'eE'[rng.integers(2)]}{['', '+', '-'][rng.integers(3)]}{rng.integers(0, 46)}"
        if abs(float(text)) < TOO_LARGE:
            yield ["", "-", "+"][rng.integers(3)] + text


def check(texts: list[str]) -> None:
    """As labels and as values of LIBSVM, all have the bits of Python's."""
    wanted = np.array([float(text) for text in texts]).astype(np.float32)
    for form in ("{}\n", "1 1:{}\n"):
        data = "".join(form.format(text) for text in texts).encode()
        parsed = parse(Lines(Path("numbers"), data, Place(), Place()), base=1)
        found = parsed.X.values if "1:" in form else parsed.labels
        same = found.view(np.uint32) == wanted.view(np.uint32)
        wrong = [(texts[i], found[i], wanted[i]) for i in np.flatnonzero(~same)[:5]]
        assert same.all(), wrong
        assert parsed.slow < len(texts)  # the kernel has read some


def test_numbers_near_powers_have_the_bits_of_python() -> None:
    texts = list(numbers(10_000, seed=0))
    assert len(texts) > 8_000
    check(texts)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 11))
def test_a_million_numbers_near_powers_have_the_bits_of_python(seed: int) -> None:
    texts = list(numbers(115_000, seed))
    assert len(texts) >= 100_000
    check(texts)


def test_landmarks_and_their_neighbours_have_the_bits_of_python() -> None:
    near = [mark + i for mark in landmarks() for i in (-1, 0, 1) if 0 < mark + i < TOO_LARGE]
    check([str(number) for number in near])
    check([f"0.{number}" for number in near])
    check([f"{number}.000" for number in near])
    check([f"{number}e-30" for number in near])


TWENTY = [f"{2**64}", f"{2**64 * 3}", f"0.{2**64}", f"{2**64}000", f"{2**64}.0", f"-{2**65}"]


@pytest.mark.parametrize("text", TWENTY)
def test_multiples_of_two_to_the_64_are_not_zero(tmp_path: Path, text: str) -> None:
    wanted = np.float32(float(text))
    libsvm, market = tmp_path / "a.libsvm", tmp_path / "a.mtx"
    libsvm.write_text(f"{text} 1:{text}\n")
    market.write_text(f"%%MatrixMarket matrix coordinate real general\n1 1 1\n1 1 {text}\n")
    csv = tmp_path / "a.csv"
    csv.write_text(f"x\n{text}\n")
    assert read(libsvm).targets.item() == wanted
    for path in (libsvm, market, csv):
        assert read(path).dense.item() == wanted, path


@pytest.mark.parametrize("text", ["3.4028235e38", "-3.4028235e38", f"{int(TOO_LARGE) - 2**75}"])
def test_the_largest_float32_is_read_however_it_is_written(text: str) -> None:
    with np.errstate(over="raise"):
        assert abs(np.float32(parse_float32(text.encode()))) == np.finfo(np.float32).max
    check([text, "1"])


@pytest.mark.parametrize("text", ["3.4028236e38", f"{int(TOO_LARGE)}", "1e39", "1" * 400])
def test_what_rounds_to_infinity_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="finite float32"):
        parse_float32(text.encode())
    data = f"{text} 1:1\n".encode()
    with pytest.raises(DataError, match="finite float32"):
        parse(Lines(Path("numbers"), data, Place(), Place()), base=1)


def test_a_mistake_behind_many_digits_is_found_in_one_look() -> None:
    """A pattern with two ways to divide a million digits makes 5e11 tries: it does not return."""
    with pytest.raises(ValueError, match="is not a number"):
        parse_number(b"1" * 1_000_000 + b"x")
