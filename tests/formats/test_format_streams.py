"""Packed files, lines, numbers: what all formats stand on."""

import bz2
import gzip
import lzma
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blocklearn.datasources import DataError
from blocklearn.datasources.packed.streams import kind_of, opened
from blocklearn.datasources.parsing.layout import Place
from blocklearn.datasources.parsing.lines import file_chunks, placed_lines, split_lines
from blocklearn.datasources.parsing.numbers import parse_number, read_float
from blocklearn.datasources.parsing.scratch import Scratch, silent
from tests.support.formats import lz4_blocks

DATA = np.random.default_rng(0).integers(0, 5, 300_000).astype(np.uint8).tobytes() + bytes(70_000)


def frame(data: bytes, codec: str) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, codec) as stream:
        stream.write(data)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "raw.bin": lambda data: data,
    "a.gz": gzip.compress,
    "a.bz2": bz2.compress,
    "a.xz": lzma.compress,
    "a.zst": lambda data: frame(data, "zstd"),
    "a.lz4": lz4_blocks,
    "frame.lz4": lambda data: frame(data, "lz4"),
}


@pytest.mark.parametrize("name", PACKERS)
@pytest.mark.parametrize("offset", [0, 1, 65_536, 300_001, len(DATA)])
def test_packed_files_are_read_from_any_place(tmp_path: Path, name: str, offset: int) -> None:
    path = tmp_path / name
    path.write_bytes(PACKERS[name](DATA))
    told: list[int] = []
    with opened(path, told.append, offset) as stream:
        assert stream.read() == DATA[offset:]
    assert sum(told) <= path.stat().st_size
    if offset == 0:
        assert sum(told) == path.stat().st_size


@pytest.mark.parametrize("name", [name for name in PACKERS if name != "raw.bin"])
def test_damaged_packed_files_are_named(tmp_path: Path, name: str) -> None:
    path, good = tmp_path / name, PACKERS[name](DATA)
    for cut in (1, 8, len(good) // 2, len(good) - 1):
        path.write_bytes(good[:cut])
        with pytest.raises(DataError, match=f"{name}: damaged or cut off"):
            with opened(path, silent) as stream:
                stream.read()


def test_a_flipped_bit_in_lz4_blocks_is_found(tmp_path: Path) -> None:
    path, good = tmp_path / "a.lz4", lz4_blocks(DATA)
    for place in [*range(21), *np.random.default_rng(0).integers(21, len(good), 200).tolist()]:
        bad = bytearray(good)
        bad[place] ^= 1 << (place % 8)
        path.write_bytes(bad)
        try:
            with opened(path, silent) as stream:
                assert stream.read() == DATA  # the token's bits for the size may grow
        except DataError:
            continue
        assert place == 8


def test_blocks_of_every_size(tmp_path: Path) -> None:
    path = tmp_path / "a.lz4"
    for size in (1 << 10, 1 << 13, 1 << 20):
        path.write_bytes(lz4_blocks(DATA, size))
        with opened(path, silent) as stream:
            assert stream.read() == DATA


def test_missing_files_and_folders_keep_their_errors(tmp_path: Path) -> None:
    for error, path in [(FileNotFoundError, tmp_path / "no"), (IsADirectoryError, tmp_path)]:
        with pytest.raises(error):
            with opened(path, silent) as stream:
                stream.read(1)


@pytest.mark.parametrize(
    "name, kind", [("A.MTX.GZ", ".mtx"), ("a.b.smat.lz4", ".smat"), ("x", ""), ("x.gz", "")]
)
def test_kind_of_a_name(name: str, kind: str) -> None:
    assert kind_of(Path(name)) == kind


# ---- lines ---------------------------------------------------------------------------------------


@given(
    lines=st.lists(st.text("ab\r\0é", max_size=60), max_size=40),
    ends=st.sampled_from(["\n", "\r\n"]),
    last=st.booleans(),
    bom=st.booleans(),
    memory=st.sampled_from([1, 1 << 20]),
)
@settings(max_examples=60, deadline=None)
def test_lines_are_those_of_the_text(
    tmp_path_factory: pytest.TempPathFactory,
    lines: list[str],
    ends: str,
    last: bool,
    bom: bool,
    memory: int,
) -> None:
    folder = tmp_path_factory.mktemp("lines")
    path, text = folder / "a.txt", ends.join(lines) + (ends if last else "")
    path.write_bytes(b"\xef\xbb\xbf" * bom + text.encode())
    want = [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")] if text else []
    scratch = Scratch(folder, memory)
    chunks = list(file_chunks(path, scratch, Place()))
    found = [pair for chunk in chunks for pair in split_lines(chunk)]
    assert [line.decode() for _, line in found] == want
    assert [number for number, _ in found] == list(range(1, len(want) + 1))
    for chunk in chunks:  # from any place on, all is the same
        rest = [pair for c in file_chunks(path, scratch, chunk.place) for pair in split_lines(c)]
        assert rest == found[chunk.place.line - 1 :]
    for (number, line), (place_number, text_line, after) in zip(
        found, placed_lines(path, scratch), strict=True
    ):
        assert (number, line) == (place_number, text_line)
        assert after.line == number + 1


def test_encodings_and_endless_lines_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.txt"
    for name in ("UTF-16", "UTF-32"):
        path.write_bytes("a b".encode(name))
        with pytest.raises(DataError, match=rf"a\.txt: the file is {name}: .* -f {name.lower()} "):
            list(file_chunks(path, Scratch(tmp_path), Place()))
    monkeypatch.setattr("blocklearn.datasources.parsing.lines.LONGEST", 5000)
    path.write_bytes(b"short\n" + b"x" * 9000)
    with pytest.raises(DataError, match=r"a\.txt:2: a line of more than"):
        list(file_chunks(path, Scratch(tmp_path, 1), Place()))


# ---- numbers -------------------------------------------------------------------------------------


def fast(text: str) -> tuple[float, bool]:
    data = np.frombuffer(text.encode() + b"\n", np.uint8)
    value, end, certain = read_float(data, 0, len(data))
    return float(value), bool(certain) and end == len(text)


@given(st.floats(allow_nan=False, allow_infinity=False, width=64))
@settings(max_examples=300, deadline=None)
def test_every_way_to_write_a_double_is_read_as_python_reads_it(value: float) -> None:
    for text in (repr(value), f"{value:.9g}", f"{value:.17g}", f"{value:e}", f"+{abs(value)!r}"):
        found, certain = fast(text)
        with np.errstate(over="ignore"):
            if certain:
                assert found == np.float32(float(text)), text


def test_halves_between_two_floats_are_rounded_exactly() -> None:
    rng, taken = np.random.default_rng(0), 0
    for _ in range(3000):
        low = np.float32(rng.random() * 10.0 ** rng.integers(-30, 30))
        high = np.nextafter(low, np.float32(np.inf))
        middle = (float(low) + float(high)) / 2
        for text in (repr(middle), f"{middle:.18g}", f"{middle:.12g}"):
            found, certain = fast(text)
            taken += certain
            assert not certain or found == np.float32(float(text)), text
    assert taken > 1000  # the kernel must not leave everything to Python


def test_common_numbers_are_read_by_the_kernel() -> None:
    texts = [
        "0",
        "-1",
        "+3",
        "1.",
        ".5",
        "0.1",
        "12345.678",
        "1e-3",
        "-2.5E+7",
        "0.30000000000000004",
    ]
    assert all(fast(text)[1] for text in texts)


@pytest.mark.parametrize("text", ["", "-", ".", "1e", "1e+", "1_0", "0x1p3", "nan", "inf", "1,5"])
def test_the_kernel_leaves_what_is_unusual(text: str) -> None:
    assert not fast(text)[1]


@pytest.mark.parametrize("text", ["", "-", ".", "1e", "1_0", "0x1p3", "1,5", "١", " 1", "abc"])
def test_what_is_no_number(text: str) -> None:
    with pytest.raises(ValueError, match="is not a number"):
        parse_number(text.encode())
