"""HugeCTR's Norm and Raw files: what is in them comes out, and what is wrong with them is said."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blocklearn.datasources import (
    DataError,
    DataSource,
    HostBlock,
    HugeCTRNorm,
    HugeCTRRaw,
    Reader,
    Reading,
    hash_features,
)
from blocklearn.datasources.hugectr.parts import listed_files
from blocklearn.learner.exit_codes import ExitCode
from tests.support.hugectr_files import write_norm, write_raw
from tests.support.learn_command import Learn

Array = np.ndarray[Any, np.dtype[Any]]


def contents(source: DataSource, pass_: int = 0) -> tuple[Array, Array, list[int]]:
    """X and Y of a pass in the order of the row numbers, and these in the order of the pass."""
    shape = source.shape
    X, Y = np.zeros((shape.total_rows, shape.columns)), np.zeros((shape.total_rows, shape.targets))
    order: list[int] = []
    with Reader(source) as reader:
        for block in reader.blocks(pass_):
            for i, row in enumerate(block.row_ids[: block.rows].tolist()):
                part = slice(block.indptr[i], block.indptr[i + 1])
                X[row, block.indices[part]], Y[row] = block.values[part], block.targets[i]
                order.append(row)
    return X, Y, order


class Example:
    """Rows of `dense` numbers and `slots` slots of up to three keys below 6, some of them twice."""

    def __init__(self, rows: int, labels: int, dense: int, slots: int, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.labels = rng.random((rows, labels)).astype(np.float32)
        self.dense = rng.integers(0, 3, (rows, dense)).astype(np.float32)
        self.slots = [
            [rng.integers(0, 6, rng.integers(0, 4)) for _ in range(rows)] for _ in range(slots)
        ]

    def expected(self, offset: int) -> Array:
        """X, where keys of slot k are columns from k * offset on."""
        columns = 6 + offset * (len(self.slots) - 1) if self.slots else 6
        table = np.zeros((len(self.labels), columns))
        for k, slot in enumerate(self.slots):
            for row, keys in enumerate(slot):
                np.add.at(table[row], keys + k * offset, 1)
        return np.hstack([self.dense, table])


@settings(deadline=None, max_examples=25)
@given(
    rows=st.integers(1, 40),
    sizes=st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 3)).filter(any),
    files=st.integers(1, 5),
    checked=st.booleans(),
    key_type=st.sampled_from(["I32", "I64"]),
    block_rows=st.integers(1, 50),
    shuffle=st.sampled_from([False, True, "blocks"]),
    by_slot=st.booleans(),
)
def test_norm_round_trip(
    tmp_path_factory: pytest.TempPathFactory,
    rows: int,
    sizes: tuple[int, int, int],
    files: int,
    checked: bool,
    key_type: Any,
    block_rows: int,
    shuffle: Any,
    by_slot: bool,
) -> None:
    example = Example(rows, *sizes)
    path = tmp_path_factory.mktemp("norm") / "list.txt"
    parts = (example.labels, example.dense, example.slots)
    write_norm(path, *parts, files=files, checked=checked, key_type=key_type)
    columns: dict[str, Any] = (
        {"slot_size_array": [6] * sizes[2]} if by_slot else {"vocabulary_size": 6}
    )
    if by_slot and not sizes[1] + sizes[2]:
        return  # no column at all
    data = HugeCTRNorm(path=path, input_key_type=key_type, **columns)
    source = data.open_source(Reading(block_rows, shuffle, 3))
    assert source.blocks == -(-rows // block_rows) and source.shape.targets == sizes[0]
    expected = example.expected(6 if by_slot else 0)[:, : source.shape.columns]
    for pass_ in (0, 1):
        X, Y, order = contents(source, pass_)
        assert (X == expected).all() and (Y == example.labels).all()
        assert sorted(order) == list(range(rows))
        assert order == list(range(rows)) or shuffle
    again = data.open_source(Reading(block_rows))
    write_norm(path, *parts, files=1, checked=checked, key_type=key_type)
    assert data.open_source(Reading(7)).fingerprint == again.fingerprint == source.fingerprint


def test_norm_bytes_are_those_of_the_documentation(tmp_path: Path) -> None:
    """Packed by hand, without the writer."""

    def sum_checked(data: bytes) -> bytes:
        return struct.pack("<i", len(data)) + data + bytes([sum(data) % 256])

    header = struct.pack("<8q", 1, 2, 1, 2, 2, 0, 0, 0)
    first = struct.pack("<fffiIIi", 1.0, 0.5, -2.0, 2, 7, 3, 0)
    second = struct.pack("<fffiiI", 0.0, 0.0, 9.0, 0, 1, 5)
    path = tmp_path / "one.data"
    path.write_bytes(b"".join(map(sum_checked, (header, first, second))))
    X, Y, _ = contents(HugeCTRNorm(path=path, vocabulary_size=8).open_source(Reading()))
    assert X.tolist() == [[0.5, -2, 0, 0, 0, 1, 0, 0, 0, 1], [0, 9, 0, 0, 0, 0, 0, 1, 0, 0]]
    assert Y.tolist() == [[1], [0]]
    plain = header.replace(b"\x01", b"\x00", 1) + first + second
    path.write_bytes(plain)
    again, _, _ = contents(HugeCTRNorm(path=path, vocabulary_size=8).open_source(Reading()))
    assert (again == X).all()
    example = ([[1.0], [0.0]], [[0.5, -2], [0, 9]], [[[7, 3], []], [[], [5]]])
    write_norm(tmp_path / "l.txt", *map(np.array, example[:2]), example[2], checked=False)  # type: ignore[arg-type]
    assert (tmp_path / "l0.data").read_bytes() == plain
    assert (tmp_path / "l.txt").read_text() == "1\nl0.data\n"


@pytest.mark.parametrize("floats", [True, False])
def test_raw_round_trip(tmp_path: Path, floats: bool) -> None:
    rng = np.random.default_rng(0)
    labels, dense = rng.integers(0, 2, (50, 1)), rng.integers(0, 9, (50, 3))
    keys = rng.integers(0, [4, 9], (50, 2))
    path = tmp_path / "train.bin"
    write_raw(path, labels, dense, keys, float_label_dense=floats)
    assert path.stat().st_size == 50 * 24
    data = HugeCTRRaw(path=path, dense_dim=3, slot_size_array=[4, 9], float_label_dense=floats)
    source = data.open_source(Reading(8, True, 1))
    X, Y, order = contents(source)
    assert (Y == labels).all() and order != sorted(order) == list(range(50))
    assert X[:, :3] == pytest.approx(dense if floats else np.log(1 + dense), rel=1e-6)
    assert (X[:, 3:] == np.hstack([np.eye(4)[keys[:, 0]], np.eye(9)[keys[:, 1]]])).all()
    assert source.shape.nnz <= 8 * 5 and "13" not in repr(source)
    shared = HugeCTRRaw(path=path, dense_dim=3, vocabulary_size=9, slot_num=2)
    assert shared.open_source(Reading()).shape.columns == 12


def test_hashed_keys_are_hashed_features(tmp_path: Path) -> None:
    """Of columns that are called after the numbers of their slots."""
    keys = np.random.default_rng(0).integers(0, 2**32, (40, 3))
    path = tmp_path / "x.bin"
    write_raw(path, np.zeros((40, 1)), np.zeros((40, 0)), keys)
    data = HugeCTRRaw(path=path, slot_num=3, hash_bits=6)
    X, _, _ = contents(data.open_source(Reading()))
    expected = hash_features({str(k): keys[:, k] for k in range(3)}, 6)
    assert (X == expected.toarray()).all()


def test_long_rows_and_large_records(tmp_path: Path) -> None:
    """A record larger than what is read at a time, of keys in any order, most of them twice."""
    keys = np.random.default_rng(0).integers(0, 2**20, 1_500_000)
    path = tmp_path / "x.txt"
    write_norm(path, np.zeros((3, 1)), np.zeros((3, 0)), [[[5], keys, []]])
    source = HugeCTRNorm(path=path, vocabulary_size=2**20).open_source(Reading(2))
    block = HostBlock(source.shape)
    source.read(0, 0, block)
    expected, counts = np.unique(keys, return_counts=True)
    assert block.indptr.tolist() == [0, 1, 1 + expected.size]
    assert (block.indices[1 : block.nnz] == expected).all()
    assert (block.values[1 : block.nnz] == counts).all()


def test_file_lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    example = Example(9, 1, 1, 1)
    path = tmp_path / "list.txt"
    write_norm(path, example.labels, example.dense, example.slots, files=3)

    def opened() -> int:
        data = HugeCTRNorm(path=path, vocabulary_size=6)
        return data.open_source(Reading()).shape.total_rows

    assert opened() == 9  # beside the list
    os.rename(tmp_path / "list1.data", "list1.data")
    path.write_text("3\n./list0.data\n./list1.data\n./list2.data\n\n")
    assert opened() == 9  # from the working directory
    for text, message in [
        ("2\nlist0.data\n", "list.txt:1: '2', and 1 lines follow"),
        ("0\n", "list.txt:1: '0', and 0 lines follow"),
        ("1\nlist7.data\n", "list.txt:2: file list7.data does not exist"),
        ("one\nlist0.data\n", "list.txt: 15 bytes are too few for the header"),
        ("", "list.txt: 0 bytes are too few for the header"),
        ("1\n\xff\n", "list.txt: neither a file list nor a data file"),
    ]:
        path.write_bytes(text.encode("latin-1"))
        with pytest.raises(DataError, match=message):
            opened()
    other = Example(9, 1, 2, 1)
    write_norm(tmp_path / "b.txt", other.labels, other.dense, other.slots)
    path.write_text("2\nlist0.data\nb0.data\n")
    with pytest.raises(
        DataError, match="b0.data: 1 labels, 2 dense features, 1 slots, check sums,"
    ):
        opened()


def edited(header: tuple[int, ...], records: bytes = b"") -> bytes:
    """An unchecked Norm file with this header."""
    return struct.pack("<8q", *header, *[0] * (8 - len(header))) + records


RECORD = struct.pack("<ffiI", 1, 2, 1, 3)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (edited((0, 1, 1, 1, 1), RECORD[:-1]), "record 0 .* is cut off"),
        (edited((0, 2, 1, 1, 1), RECORD), "80 bytes are too few for 2 records of 12 bytes or more"),
        (edited((0, 1, 1, 1, 1), RECORD + b"1"), "1 bytes follow its 1 records"),
        (edited((0, 0, 1, 1, 1)), "the data set has no records"),
        (edited((0, 1, 0, 0, 0)), "not a Norm file's header: .*slot_num 0"),
        (edited((0, -1, 1, 1, 1), RECORD), "number_of_records -1"),
        (edited((0, 1, -1, 1, 1), RECORD), "label_dim -1"),
        (edited((2, 1, 1, 1, 1), RECORD), "error_check 2"),
        (edited((1, 1, 1, 1, 1), RECORD), "error_check 1"),
        (edited((0, 2**62, 1, 1, 1), RECORD), "too few for 4,611,686,018,427,387,904 records"),
        (edited((0, 1, 2**40, 1, 1), RECORD), "too few for 1 records of"),
        (
            edited((0, 1, 1, 1, 1), struct.pack("<ffi", 1, 2, -1)),
            "has an impossible number of keys",
        ),
        (edited((0, 1, 1, 1, 1), struct.pack("<ffi", 1, 2, 2**30)), "record 0 .* is cut off"),
        (edited((0, 1, 1, 1, 1), struct.pack("<ffiI", 1, 2, 1, 4)), "without a column in slot 0"),
        (edited((0, 1, 1, 1, 1), struct.pack("<ffi", np.nan, 2, 0)), "label 0 that is not finite"),
        (edited((0, 1, 1, 1, 1), struct.pack("<ffi", 1, np.inf, 0)), "dense feature 0 that is not"),
        (edited((0, 1, 1, 1, 1))[:40], "40 bytes are too few for the header"),
        (b"\x40" + bytes(90), "header does not match its check sum|not a Norm file's header"),
    ],
)
def test_faults_of_norm_are_named(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "x.data"
    path.write_bytes(data)
    with pytest.raises(DataError, match=message) as error:
        contents(HugeCTRNorm(path=path, vocabulary_size=4).open_source(Reading()))
    assert str(path) in str(error.value)


def test_the_record_at_fault_is_named_across_files(tmp_path: Path) -> None:
    slots = [[[1]] * 5 + [[9]] + [[1]] * 4]
    write_norm(tmp_path / "x.txt", np.zeros((10, 1)), np.zeros((10, 0)), slots, files=2)
    source = HugeCTRNorm(path=tmp_path / "x.txt", vocabulary_size=4).open_source(Reading(3))
    with pytest.raises(DataError, match=r"x1\.data: record 0 .* key without a column in slot 0"):
        contents(source)


def test_every_flipped_bit_of_a_checked_file_is_found(tmp_path: Path) -> None:
    example = Example(4, 1, 1, 2)
    write_norm(tmp_path / "x.txt", example.labels, example.dense, example.slots)
    path = tmp_path / "x0.data"
    whole = path.read_bytes()
    data = HugeCTRNorm(path=path, vocabulary_size=6)
    contents(data.open_source(Reading()))
    for bit in range(8 * len(whole)):
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        with pytest.raises(DataError):
            contents(data.open_source(Reading()))
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(DataError):
            contents(data.open_source(Reading()))


def test_keys_of_another_size_are_noticed(tmp_path: Path) -> None:
    example = Example(20, 1, 0, 2)
    for checked in (True, False):
        write_norm(
            tmp_path / "x.txt", example.labels, example.dense, example.slots, checked=checked
        )
        with pytest.raises(DataError, match="input_key_type"):
            data = HugeCTRNorm(path=tmp_path / "x.txt", vocabulary_size=6, input_key_type="I64")
            contents(data.open_source(Reading()))


def test_files_that_change_are_noticed(tmp_path: Path) -> None:
    example = Example(20, 1, 1, 1)
    write_norm(tmp_path / "x.txt", example.labels, example.dense, example.slots)
    source = HugeCTRNorm(path=tmp_path / "x.txt", vocabulary_size=6).open_source(Reading(5))
    block = HostBlock(source.shape)
    source.read(0, 0, block)
    path = tmp_path / "x0.data"
    copy = path.read_bytes()
    for change in (lambda: os.truncate(path, 100), lambda: replace_file(path, copy)):
        change()
        with pytest.raises(DataError, match="x0.data: the file has changed since it was opened"):
            source.read(0, 1, block)
    path.unlink()
    with pytest.raises(FileNotFoundError):
        source.read(0, 1, block)


def replace_file(path: Path, contents: bytes) -> None:
    path.with_suffix(".new").write_bytes(contents)
    os.replace(path.with_suffix(".new"), path)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"dense_dim": 3, "slot_size_array": [4]}, "not a whole number of records of 20 bytes"),
        ({"slot_size_array": [4, 1]}, "record 1 .* without a column in slot 1"),
        ({"slot_num": 2, "slot_size_array": [4]}, "2 slots, but slot_size_array has 1 sizes"),
        (
            {"label_dim": 0, "slot_num": 0, "hash_bits": 4},
            "without a number: must have labels, dense",
        ),
        ({"slot_num": 1, "vocabulary_size": 2**31 - 1, "dense_dim": 1}, "2,147,483,648 columns"),
        ({"slot_size_array": [2**31 - 1, 5]}, "2,147,483,652 columns: must be 1 to"),
        ({"dense_dim": 2, "slot_size_array": []}, "dense feature 1 that is not finite"),
    ],
)
def test_faults_of_raw_are_named(tmp_path: Path, settings: Any, message: str) -> None:
    write_raw(
        tmp_path / "x.bin", np.zeros((4, 1)), np.zeros((4, 0)), np.tile([[0, 0], [3, 1]], (2, 1))
    )
    if settings == {"dense_dim": 2, "slot_size_array": []}:
        write_raw(tmp_path / "x.bin", np.zeros((1, 1)), np.array([[1, np.nan]]), np.zeros((1, 0)))
    with pytest.raises(DataError, match=message):
        contents(HugeCTRRaw(path=tmp_path / "x.bin", **settings).open_source(Reading()))


def test_negative_integers_have_no_logarithm(tmp_path: Path) -> None:
    write_raw(tmp_path / "x.bin", np.ones((1, 1)), -np.ones((1, 1)), [[0]], float_label_dense=False)
    data = HugeCTRRaw(
        path=tmp_path / "x.bin", dense_dim=1, vocabulary_size=1, slot_num=1, float_label_dense=False
    )
    with pytest.raises(DataError, match="record 0 .* has dense feature 0 that is not finite"):
        contents(data.open_source(Reading()))


def test_what_does_not_fit_is_not_written(tmp_path: Path) -> None:
    none = np.zeros((2, 0))
    with pytest.raises(DataError, match=r"have \[2, 3\] rows"):
        write_norm(tmp_path / "x.txt", np.zeros((2, 1)), none, [[[1]] * 3])
    with pytest.raises(DataError, match="row 1: keys -1 to -1 do not fit uint32"):
        write_norm(tmp_path / "x.txt", np.zeros((2, 1)), none, [[[1], [-1]]])
    with pytest.raises(DataError, match="row 0: keys 1 to 4294967296 do not fit uint32"):
        write_raw(tmp_path / "x.bin", np.zeros((2, 1)), none, np.array([[1], [2**32]]))
    with pytest.raises(DataError, match=r"labels have the shape \(2,\)"):
        write_raw(tmp_path / "x.bin", np.zeros(2), none, np.zeros((2, 1)))
    assert not list(tmp_path.iterdir())


CONFIG = """\
model: {kind: glm}
data:
  train:
    kind: hugectr-norm
    path: list.txt
    vocabulary_size: 6
  eval: {kind: holdout, share: 0.2}
  block_rows: 64
learner: {passes: 4, seed: 1}
"""


@pytest.fixture
def learn(command: Learn) -> Learn:
    """Runs `learn` in a folder with Norm files whose label is whether slot 0 has key 2."""
    example = Example(1000, 1, 1, 2)
    labels = np.array([[2 in keys] for keys in example.slots[0]])
    slots = [example.slots[0], [np.zeros(0, int)] * 1000]
    write_norm(Path("list.txt"), labels, example.dense, slots, files=3)
    Path("ads.yaml").write_text(CONFIG)

    return command


def test_from_files_to_a_model(learn: Learn) -> None:
    code, out, err = learn("--config", "ads.yaml")
    assert code == ExitCode.DONE, err
    head, row = (line.split() for line in out.splitlines())
    assert float(row[head.index("auc")]) > 0.99
    assert "GLM on 816 rows (184 held out) x 7 columns, 16 blocks" in err
    code, out, err = learn("evaluate", "runs/ads", "--data", "list2.data")
    assert code == ExitCode.DONE and "auc 1" in out, err
    code, out, err = learn("predict", "runs/ads", "--data", "list.txt", "--out", "p.npy")
    assert code == ExitCode.DONE and np.load("p.npy").shape == (1000, 1), err
    data = Path("list1.data").read_bytes()
    Path("list1.data").write_bytes(data[:-1])
    code, _, err = learn("--config", "ads.yaml", "--out", "runs/b")
    assert code == ExitCode.DATA and "list1.data" in err and "cut off" in err
    code, _, err = learn("--config", "ads.yaml", "--set", "data.train.hash_bits=9")
    assert code == ExitCode.CONFIG
    assert "needs one of slot_size_array, vocabulary_size, hash_bits" in err
    raw = "data.train={kind: hugectr-raw, path: x.bin, slot_size_array: null, vocabulary_size: 3}"
    code, _, err = learn("--config", "ads.yaml", "--set", raw)
    assert code == ExitCode.CONFIG and "needs slot_num, the number of slots" in err


@pytest.mark.parametrize("count", ["9" * 5000, "0" * 40 + "1", "0" * 40 + "1\x00"])
def test_a_list_with_an_impossible_number_of_files_is_refused(tmp_path: Path, count: str) -> None:
    (tmp_path / "list.txt").write_text(f"{count}\nx.data\n")
    with pytest.raises(DataError, match="must start with the number of its files|neither a file"):
        listed_files(tmp_path / "list.txt")


def test_a_name_in_a_list_that_is_too_long_names_no_file(tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_text(f"1\n{'x' * 5000}\n")
    with pytest.raises(DataError, match=r"list\.txt:2: file x{200} does not exist"):
        listed_files(tmp_path / "list.txt")
