"""Parquet files that are damaged, lie, or change: an error that says where."""

import re

import numpy as np
import pyarrow as pa
import pytest

from blocklearn.datasources import DataError, Dense, HostBlock, ParquetSource, Sparse
from blocklearn.datasources.parquet.footer import numbers_in, read_footer
from blocklearn.learner.exit_codes import ExitCode, exit_code
from tests.support.parquet_files import (
    as_bytes,
    csr_columns,
    lists,
    random_csr,
    read_block,
    whole_pass,
    write,
)


def pairs(indices: list, values: list) -> dict[str, object]:
    """Columns `i` and `v`, lists of int64 and of float64."""
    return {
        "i": pa.array(indices, pa.list_(pa.int64())),
        "v": pa.array(values, pa.list_(pa.float64())),
    }


PAIR = Sparse("i", "v", 4)
BAD_ROWS = [
    (pairs([[0], [1, -1]], [[1], [1, 1]]), PAIR, "row 1.*'i' has the index -1; indices must be"),
    (pairs([[0], [4]], [[1], [1]]), PAIR, "row 1.*'i' has the index 4; indices must be 0 to 3"),
    (pairs([[0], [2**40]], [[1], [1]]), PAIR, "row 1.*has the index 1099511627776"),
    (pairs([[0], [1, 2]], [[1], [1]]), PAIR, "row 1.*'i' has 2 indices, but .*'v' has 1 v"),
    (pairs([[0], [1]], [[1], [float("nan")]]), PAIR, "row 1.*'v' is nan, but every value"),
    (pairs([[0], [1, 2]], [[1], [1, float("-inf")]]), PAIR, "row 1.*'v' is -inf"),
    (pairs([[0], [1]], [[1], [1e39]]), PAIR, r"row 1.*'v' is 1e\+39"),
    ({"x": [0.0, float("inf")]}, "x", "row 1.*'x' is inf"),
    ({"c": pa.array([1, 2**63], pa.uint64())}, Sparse("c", None, 4), "row 1.*'c' is not an index"),
    ({"e": pa.array([[1, 2], [3]], pa.list_(pa.float32()))}, Dense("e", 2), "row 1.*'e' has 1 num"),
]  # fmt: skip


@pytest.mark.parametrize("columns, feature, text", BAD_ROWS)
def test_bad_rows_are_named(tmp_path, columns, feature, text):
    """With a good file before, and the row in the second row group."""
    good = {name: pa.array(column)[:1] for name, column in columns.items()}
    (tmp_path / "a.parquet").write_bytes(as_bytes(good))
    table = pa.concat_tables([pa.table(good)] * 3 + [pa.table(columns)])
    (tmp_path / "b.parquet").write_bytes(as_bytes(table, 3))
    source = ParquetSource(tmp_path, feature, block_rows=2)
    with pytest.raises(
        DataError, match=r"b.parquet: row group 1, row 1 \(row 4 of the file\): column"
    ):
        whole_pass(source)
    with pytest.raises(DataError, match=text):
        whole_pass(source)


def test_bad_targets_and_weights(tmp_path):
    columns = {"x": np.ones(9), "y": [1.0] * 8 + [np.nan], "w": [1.0] * 6 + [-1.0] + [1.0] * 2}
    folder = write(tmp_path, columns, group=4)
    with pytest.raises(
        DataError, match=r"row group 2, row 0 \(row 8 of the file\): column 'y' is nan"
    ):
        whole_pass(ParquetSource(folder, "x", targets=["y"]))
    with pytest.raises(
        DataError, match=r"row group 1, row 2 \(row 6 .*column 'w' is -1.0, but a wei"
    ):
        whole_pass(ParquetSource(folder, "x", weights="w"))
    with pytest.raises(DataError, match="row 6 of the file"):
        ParquetSource(folder, "x", weights="w").label_sums()


WRONG_TYPES = [
    ({"x": ["a", "b"]}, "x", "column 'x' is of type string, but must be a number"),
    ({"x": pa.array([1, 2], pa.timestamp("s"))}, "x", "'x' is of type timestamp"),
    ({"x": [[1.0], [2.0]]}, "x", r"'x' has lists of any length .* set their common length"),
    ({"x": pa.array([[1, 2]], pa.list_(pa.float32(), 2))}, Dense("x", 3), "has 2 numbers in each"),
    ({"x": [1.5, 2]}, Sparse("x", None, 3), "'x' is of type double, but indices must be integers"),
    ({"x": [[1], [2]], "v": [1.0, 2]}, Sparse("x", "v", 3), r"'v' is of type double.*same lengths"),
    ({"x": [1, 2], "v": [[1.0], [2]]}, Sparse("x", "v", 3), r"'v' is of type list.*must be num"),
    ({"x": [1, 2]}, "y", "no column 'y'; it has x"),
    ({"x": [{"a": 1}]}, "x", "'x' is of type struct"),
]  # fmt: skip


@pytest.mark.parametrize("columns, feature, text", WRONG_TYPES)
def test_wrong_types(tmp_path, columns, feature, text):
    with pytest.raises(DataError, match=f"part-00.parquet: .*{text}"):
        ParquetSource(write(tmp_path, columns), feature)


def test_files_that_do_not_agree(tmp_path):
    write(tmp_path, {"e": pa.array([[1, 2]], pa.list_(pa.float32(), 2))})
    (tmp_path / "z.parquet").write_bytes(
        as_bytes({"e": pa.array([[1]], pa.list_(pa.float32(), 1))})
    )
    with pytest.raises(
        DataError, match="z.parquet: column 'e' has 1 numbers in each row, but 2 in"
    ):
        ParquetSource(tmp_path, "e")


def test_no_rows(tmp_path):
    empty = {"x": pa.array([], pa.float32())}
    write(tmp_path, empty)
    with pytest.raises(DataError, match=r"part-00.parquet: no rows\."):
        ParquetSource(tmp_path, "x")
    (tmp_path / "b.parquet").write_bytes(as_bytes({"x": np.arange(5.0)}, 2))
    (tmp_path / "c.parquet").write_bytes(as_bytes(empty))
    assert whole_pass(ParquetSource(tmp_path, "x"))[1][:, 0].tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(DataError, match="column 'i' has no index; set its size"):
        columns = {"i": pa.array([[], []], pa.list_(pa.int32()))}
        ParquetSource(write(tmp_path / "i", columns), Sparse("i"))


def test_budget(tmp_path):
    X = random_csr(2000, 50)
    folder = write(tmp_path, csr_columns(X), 1, 1000)
    features = Sparse("i", "v", 50)
    text = r"row group 0 has 0.0 MiB in the columns.*row_group_size=\d+\)\), or allow more memory"
    with pytest.raises(DataError, match=text):
        ParquetSource(folder, features, memory=10_000)
    columns = {"i": pa.array([[1]] * 50 + [list(range(40_000))] + [[2]] * 50)}
    long = write(tmp_path / "long", columns)
    text = r"1.2 MiB each, but memory is 1.0 MiB; the longest row, with 40,000, is .*row 50"
    with pytest.raises(DataError, match=text):
        ParquetSource(long, Sparse("i"), block_rows=10, memory=2**20)
    assert read_block(ParquetSource(long, Sparse("i"), block_rows=10), 5).nnz == 40_009


def test_two_billion_entries_in_a_block_are_refused(tmp_path, monkeypatch):
    """By what the footers say: nothing of this size is made."""
    X = random_csr(100, 50)
    folder = write(tmp_path, csr_columns(X))
    monkeypatch.setattr(
        "blocklearn.datasources.parquet.sizes.bound_of",
        lambda name, tables, cut: np.full(cut.blocks, 2**31),
    )
    monkeypatch.setattr("blocklearn.datasources.parquet.sizes.TIGHT", 1e9)
    with pytest.raises(DataError, match=r"up to 2,147,483,648 non-zeros need"):
        ParquetSource(folder, Sparse("i", "v", 50))


# ------------------------------------------------------------- damage


def test_truncated_anywhere(tmp_path):
    data = as_bytes(csr_columns(random_csr(300, 50)))
    path = tmp_path / "x.parquet"
    for length in [0, 1, 4, 8, 11, 12, 13, *range(100, len(data), 61), len(data) - 1]:
        path.write_bytes(data[:length])
        with pytest.raises(DataError, match=r"x.parquet: .*(not a whole Parquet file|its footer)"):
            ParquetSource(path, Sparse("i", "v", 50))
    path.write_bytes(b"PAR1junkPAR1")
    with pytest.raises(
        DataError, match="announce a footer of 1,802,401,130 bytes, but the file has"
    ):
        ParquetSource(path, Sparse("i", "v", 50))


def test_holes_in_the_data(tmp_path):
    """The footer is as it was; a stretch of the file is zeros, as after a crash."""
    data = as_bytes(csr_columns(random_csr(3000, 50)), 1000, write_page_checksum=True)
    path = tmp_path / "x.parquet"
    footer = int.from_bytes(data[-8:-4], "little") + 8
    for start in range(4, len(data) - footer - 500, 1500):
        path.write_bytes(data[:start] + bytes(500) + data[start + 500 :])
        with pytest.raises(
            DataError, match=r"x.parquet: row group \d cannot be read from row \d+ on"
        ):
            whole_pass(ParquetSource(path, Sparse("i", "v", 50)))


def test_not_parquet(tmp_path):
    for name, data in [("a.csv", b"x,y\n1,2\n" * 100), ("b.parquet", b"PAR1" * 40)]:
        (tmp_path / name).write_bytes(data)
        with pytest.raises(DataError, match=f"{name}: "):
            ParquetSource(tmp_path / name, "x")
    (tmp_path / "c.parquet").mkdir()
    with pytest.raises(DataError, match="c.parquet: no file in this folder ends with"):
        ParquetSource(tmp_path / "c.parquet", "x")


def test_footers_are_understood_as_by_the_library():
    """pyarrow's own way to ask is right for good footers."""
    import io

    import pyarrow.parquet as pq

    X = random_csr(500, 50)
    columns = {**csr_columns(X), "c": np.arange(500), "d": np.arange(500), "s": ["a"] * 500}
    data = as_bytes(columns, 70)
    footer = read_footer(io.BytesIO(data), len(data))
    metadata = pq.read_metadata(io.BytesIO(data))
    rows, noted = numbers_in(footer, metadata.num_row_groups, metadata.num_columns)
    for group in range(metadata.num_row_groups):
        found = metadata.row_group(group)
        assert rows[group] == found.num_rows
        for leaf in range(metadata.num_columns):
            chunk = found.column(leaf)
            expected = [
                chunk.num_values,
                chunk.total_uncompressed_size,
                chunk.statistics.null_count,
            ]
            assert noted[group, leaf, 1:4].tolist() == expected


def test_row_groups_that_lost_rows(tmp_path):
    """No checksum covers the footer, whose numbers of rows say where a row group ends."""
    data = as_bytes({"x": np.arange(1000.0)}, 1000)
    thousand, fewer = b"\x16\xd0\x0f", b"\x16\xd0\x07"  # 1,000 and 488 in Thrift
    places = [m.start() for m in re.finditer(re.escape(thousand), data)]
    texts = []
    for place in places:
        path = tmp_path / "x.parquet"
        path.write_bytes(data[:place] + fewer + data[place + 3 :])
        try:
            assert whole_pass(ParquetSource(path, "x"))[1][:, 0].tolist() == list(range(1000))
        except DataError as error:
            texts.append(str(error).partition("its row groups have ")[2])
    expected = {
        "488 rows together, but the file has 1,000.",
        "1,000 rows together, but the file has 488.",
    }
    assert expected <= set(texts)


def test_a_file_that_is_replaced(tmp_path):
    """By another one, in place, or by none: while a row group is read, or between two."""
    first, second = ({"x": np.arange(1000.0) + start} for start in (0, 5000))
    for step in (1, 9):
        for how in ("rename", "overwrite", "remove"):
            folder = write(tmp_path / f"{how}{step}", first, 1, 100)
            path = folder / "part-00.parquet"
            source = ParquetSource(folder, "x", block_rows=30)
            for index in range(step):
                source.read(0, index, HostBlock(source.shape))
            if how == "rename":
                write(tmp_path / "new", second, 1, 100)
                (tmp_path / "new" / "part-00.parquet").rename(path)
            elif how == "overwrite":
                path.write_bytes(as_bytes(second, 100))
            else:
                path.unlink()
            error = FileNotFoundError if how == "remove" else DataError
            with pytest.raises(error, match=r"part-00.parquet"):
                for index in range(step, source.blocks):
                    source.read(0, index, HostBlock(source.shape))


def test_after_an_error_it_goes_on(tmp_path):
    """What was wrong is put right: the same source reads on."""
    folder = write(tmp_path, {"x": np.arange(1000.0)}, 2, 100)
    source = ParquetSource(folder, "x", block_rows=30)
    expected = whole_pass(source)[1]
    path = folder / "part-01.parquet"
    path.rename(tmp_path / "away")
    with pytest.raises(FileNotFoundError):
        whole_pass(source)
    (tmp_path / "away").rename(path)
    np.testing.assert_array_equal(whole_pass(source)[1], expected)


def test_an_error_that_is_kept_does_no_harm(tmp_path):
    """It keeps the frames of a read that was given up, which end when it goes."""
    columns = {"x": np.arange(1000.0)}
    columns["x"][65] = np.inf
    source = ParquetSource(write(tmp_path, columns, 1, 100), "x", block_rows=30)
    with pytest.raises(DataError) as kept:
        read_block(source, 2)
    block = read_block(source, 4)
    for index in (5, 6):
        if index == 6:
            kept.value.__traceback__ = None
            del kept
        source.read(0, index, block)
        assert block.dense[0, 0] == 30 * index


def test_what_may_not_be_read(tmp_path, monkeypatch):
    folder = write(tmp_path, {"x": np.arange(10.0)})

    def refuse(self, status):
        raise PermissionError(13, "Permission denied", status.path)

    monkeypatch.setattr("blocklearn.datasources.remote.filesystems.LocalFiles.open", refuse)
    with pytest.raises(PermissionError, match="part-00.parquet") as caught:
        ParquetSource(folder, "x")
    assert exit_code(caught.value) is ExitCode.PERMISSION


def test_capacity_that_is_not_enough(tmp_path):
    """A file that changes without a trace: same size, same time. It has the last word here."""
    columns = {"i": lists([0, 1, 2, 4], [0, 1, 2, 3])}
    source = ParquetSource(write(tmp_path, columns), Sparse("i", None, 9), block_rows=1)
    assert source.shape.nnz == 2
    grown = {"i": lists([0, 1, 2, 5], [0, 1, 2, 3, 4])}
    other = ParquetSource(write(tmp_path / "b", grown), Sparse("i", None, 9), block_rows=1)
    source._cursor = other._cursor
    with pytest.raises(DataError, match=r"a block has 3 non-zeros or more, but 2 were counted"):
        whole_pass(source)
