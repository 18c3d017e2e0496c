"""ParquetSource: what the files say comes out, whatever their types and however they are cut."""

import json
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from scipy import sparse

from blocklearn.datasources import (
    DataError,
    Dense,
    HostBlock,
    MatrixSource,
    ParquetSource,
    Reader,
    Reading,
    Sparse,
)
from blocklearn.datasources.parquet.kind import ParquetData
from blocklearn.learner.command_line.cli import main
from tests.support.parquet_files import (
    as_bytes,
    csr_columns,
    dense_rows,
    lists,
    random_csr,
    read_block,
    whole_pass,
    write,
)

PAIR = Sparse("i", "v", 40)


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    rows=st.integers(1, 300),
    group=st.integers(1, 120),
    files=st.integers(1, 4),
    block_rows=st.sampled_from([1, 3, 16, 50, 256, 1000]),
    shuffle=st.sampled_from([False, "blocks"]),
    seed=st.integers(0, 5),
)
@example(300, 60, 1, 50, False, 0)  # jumps to blocks of two row groups
def test_blocks_are_those_of_the_matrix(tmp_path, rows, group, files, block_rows, shuffle, seed):
    X = random_csr(rows, 40, seed)
    y, w = np.arange(rows) / 8, np.arange(rows) % 5
    columns = {**csr_columns(X), "y": y, "w": w}
    folder = write(tmp_path / f"{rows}-{group}-{files}-{seed}", columns, files, group)
    source = ParquetSource(folder, PAIR, targets=["y"], weights="w", block_rows=block_rows,
                           shuffle=shuffle, seed=seed)  # fmt: skip
    assert source.shape.total_rows == rows
    for pass_ in (1, 0):
        ids, found, targets, weights = whole_pass(source, pass_)
        np.testing.assert_array_equal(np.sort(ids), np.arange(rows))
        np.testing.assert_array_equal(found, X.toarray()[ids])
        np.testing.assert_array_equal(targets[:, 0], y[ids].astype(np.float32))
        np.testing.assert_array_equal(weights, w[ids].astype(np.float32))
        if not shuffle:
            matrix = MatrixSource(X, targets=y, weights=w, block_rows=block_rows)
            assert source.blocks == matrix.blocks
            for index in np.random.default_rng(seed).permutation(source.blocks)[:5]:
                ours, other = read_block(source, index), HostBlock(matrix.shape)
                matrix.read(0, index, other)
                for name in ("row_ids", "indptr", "targets", "weights"):
                    np.testing.assert_array_equal(getattr(ours, name), getattr(other, name))
                np.testing.assert_array_equal(ours.values[: ours.nnz], other.values[: other.nnz])


def test_capacity_is_counted_not_guessed(tmp_path):
    X = random_csr(1000, 40)
    exact = MatrixSource(X, block_rows=64).shape.nnz
    source = ParquetSource(write(tmp_path, csr_columns(X), 2, 130), PAIR, block_rows=64)
    assert source.shape.nnz == exact
    assert source.notes == ["'i' had to be read once beforehand: the footers lack their sizes"]


def test_footers_are_enough_for_large_blocks_and_for_categories(tmp_path):
    X = random_csr(1000, 40)
    folder = write(tmp_path / "x", csr_columns(X), 2, 100)
    source = ParquetSource(folder, PAIR, block_rows=500)
    assert source.notes == []
    assert X[:500].nnz <= source.shape.nnz <= 1.5 * X.nnz / 2
    folder = write(tmp_path / "c", {"c": np.arange(1000) % 7, "x": np.ones(1000)}, 1, 300)
    source = ParquetSource(folder, ["x", Sparse("c")], block_rows=10)
    assert (source.shape.nnz, source.shape.columns) == (20, 8)
    assert source.notes == [
        "the largest index in 'c' makes its size 7; set size: 7 if the model will read other files"
    ]


def test_sizes_are_found_by_reading_where_there_are_no_statistics(tmp_path):
    columns = {"c": np.arange(100) % 7, "i": lists(np.arange(101), np.arange(100) % 30)}
    folder = write(tmp_path, columns, 3, 20, write_statistics=False)
    source = ParquetSource(folder, [Sparse("c"), Sparse("i")], block_rows=10)
    assert source.features == (Sparse("c", None, 7), Sparse("i", None, 30))
    _, found, _, _ = whole_pass(source)
    assert (found[:, :7].argmax(1) == np.arange(100) % 7).all()
    assert (found[:, 7:].argmax(1) == np.arange(100) % 30).all()


def test_features_are_stacked(tmp_path):
    A, B = random_csr(90, 40, 1), random_csr(90, 9, 2)
    e = np.arange(270.0).reshape(90, 3)
    columns = {
        **csr_columns(A),
        "bi": lists(B.indptr, B.indices.astype(np.uint16), pa.LargeListArray),
        "bv": lists(B.indptr, B.data.astype(np.float64), pa.LargeListArray),
        "c": pa.array(np.arange(90) % 4, pa.int8()),
        "x": pa.array([Decimal(f"{i}.5") for i in range(90)]),
        "e": pa.FixedSizeListArray.from_arrays(pa.array(e.ravel()), 3),
    }
    folder = write(tmp_path, columns, 2, 17)
    source = ParquetSource(
        folder, [PAIR, "x", Sparse("c", None, 4), Dense("e"), Sparse("bi", "bv", 9)], block_rows=8
    )
    _, found, _, _ = whole_pass(source)
    x = np.arange(90)[:, None] + 0.5
    c = np.eye(4)[np.arange(90) % 4]
    expected = np.hstack([x, e, A.toarray(), c, B.toarray()]).astype(np.float32)
    np.testing.assert_array_equal(found, expected)
    assert source.names is None


def test_dense_blocks(tmp_path):
    e = np.arange(200.0).reshape(100, 2)
    columns = {
        "a": np.arange(100, dtype=np.float16),
        "b": np.arange(100) % 2 == 0,
        "e": lists(np.arange(101) * 2, e.ravel()),
        "d": pa.array(np.arange(100) % 3).dictionary_encode(),
        "y": pa.FixedSizeListArray.from_arrays(pa.array(e.ravel()), 2),
    }
    folder = write(tmp_path, columns, 1, 30)
    source = ParquetSource(folder, ["a", "b", Dense("e", 2), "d"], targets=["y", "b2"][:1],
                           block_rows=32)  # fmt: skip
    assert source.shape.dense and source.shape.nnz == 0
    assert source.names == ["a", "b", "e[0]", "e[1]", "d"]
    assert source.target_names == ["y[0]", "y[1]"]
    _, found, targets, weights = whole_pass(source)
    n = np.arange(100)
    np.testing.assert_array_equal(found, np.column_stack([n, n % 2 == 0, e, n % 3]))
    np.testing.assert_array_equal(targets, e)
    np.testing.assert_array_equal(weights, 1)


@pytest.mark.parametrize("kind", [pa.int8, pa.uint8, pa.int16, pa.uint32, pa.int64, pa.uint64])
def test_integer_types_of_indices(tmp_path, kind):
    indices = pa.array([1, 0, 3, 2], kind())
    columns = {"i": pa.ListArray.from_arrays(pa.array([0, 2, 2, 4], pa.int32()), indices)}
    _, found, _, _ = whole_pass(ParquetSource(write(tmp_path, columns), Sparse("i", None, 4)))
    np.testing.assert_array_equal(found, [[1, 1, 0, 0], [0, 0, 0, 0], [0, 0, 1, 1]])


@given(
    st.lists(st.lists(st.tuples(st.integers(0, 20), st.integers(-3, 3)), max_size=60), min_size=1)
)
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_unsorted_and_repeated_indices_are_added_up(tmp_path, rows):
    expected = np.zeros((len(rows), 21), np.float32)
    for number, row in enumerate(rows):
        for index, value in row:
            expected[number, index] += value
    columns = {
        "i": pa.array([[i for i, _ in row] for row in rows], pa.list_(pa.int32())),
        "v": pa.array([[v for _, v in row] for row in rows], pa.list_(pa.float32())),
    }
    (tmp_path / "x.parquet").write_bytes(as_bytes(columns, 3))
    source = ParquetSource(tmp_path / "x.parquet", Sparse("i", "v", 21), block_rows=4)
    np.testing.assert_array_equal(whole_pass(source)[1], expected)
    block = read_block(source, 0)
    for row in range(block.rows):
        assert (np.diff(block.indices[block.indptr[row] : block.indptr[row + 1]]) > 0).all()


# ------------------------------------------------------------- nulls


def with_nulls() -> dict[str, object]:
    """Nulls of every kind, in the rows 1 to 6 of 10."""
    integers, numbers = pa.list_(pa.int32()), pa.list_(pa.float32())
    return {
        "i": pa.array([[0], None, [1, None], [2, 3], [1], [0], [1], [2], [3], []], integers),
        "v": pa.array([[1], None, [2, 7], [None, 4], [1], [5], [6], [7], [8], []], numbers),
        "x": pa.array([0, 1, 2, 3, None, 5, 6, 7, 8, 9], pa.float64()),
        "e": pa.array([[1, 2]] * 5 + [None] + [[3, 4]] * 4, pa.list_(pa.float32(), 2)),
        "c": pa.array([0, 1, 2, 0, 1, 2, None, 1, 2, 0], pa.int32()),
        "y": np.arange(10.0),
        "id": [f"r{i}" for i in range(10)],
    }  # fmt: skip


NULL_FEATURES = ["x", Dense("e"), Sparse("i", "v", 4), Sparse("c", None, 3)]


def test_nulls_are_errors(tmp_path):
    folder = write(tmp_path, with_nulls(), 1, 4)
    source = ParquetSource(folder, NULL_FEATURES, block_rows=3)
    where = r"part-00.parquet: row group 1, row 2 \(row 6 of the file\): column 'c' is null; `nulls"
    with pytest.raises(DataError, match=where):
        source.read(0, 2, HostBlock(source.shape))
    with pytest.raises(DataError, match=r"row group 0, row 1 \(row 1 of the file\): column 'i'"):
        source.read(0, 0, HostBlock(source.shape))


def test_nulls_as_zero(tmp_path):
    source = ParquetSource(write(tmp_path, with_nulls(), 1, 4), NULL_FEATURES, block_rows=3,
                           nulls="zero")  # fmt: skip
    assert source.shape.total_rows == 10
    assert source.notes[:5] == [
        "1 of 10 rows have a null in 'x', which are read as 0",
        "1 of 10 rows have a null in 'e', which are read as 0",
        "2 of 10 rows have a null in 'i', which are read as 0",
        "2 of 10 rows have a null in 'v', which are read as 0",
        "1 of 10 rows have a null in 'c', which are read as 0",
    ]
    found = whole_pass(source)[1]
    assert found[4, 0] == 0 and (found[5, 1:3] == 0).all() and (found[:5, 1:3] == [1, 2]).all()
    np.testing.assert_array_equal(
        found[:4, 3:7], [[1, 0, 0, 0], [0] * 4, [0, 2, 0, 0], [0, 0, 0, 4]]
    )
    assert (found[6, 7:] == 0).all() and (found[[5, 7], 7:].argmax(1) == [2, 1]).all()
    block = read_block(source, 0)
    assert block.indptr.tolist() == [0, 5, 9, 14]  # an index that is null is no entry


def test_rows_with_nulls_left_out(tmp_path):
    columns = with_nulls()
    source = ParquetSource(write(tmp_path, columns, 1, 4), NULL_FEATURES, targets=["y"], ids="id",
                           block_rows=3, nulls="drop_row")  # fmt: skip
    left = [0, 7, 8, 9]
    assert source.shape.total_rows == 4
    assert "1 of 10 rows have a null in 'c', which are left out" in source.notes
    ids, found, targets, _ = whole_pass(source)
    np.testing.assert_array_equal(ids, range(4))
    np.testing.assert_array_equal(targets[:, 0], left)
    np.testing.assert_array_equal(found[:, 0], left)
    assert [read_block(source, i).rows for i in range(4)] == [1, 0, 2, 1]
    assert list(source.row_names) == ["r0", "r7", "r8", "r9"]
    assert source.label_sums() == (4.0, [24.0])
    drop = {name: column for name, column in columns.items() if name in "xy"}
    drop["x"] = pa.nulls(10, pa.float32())
    with pytest.raises(DataError, match="every row has a null, so none is left"):
        ParquetSource(write(tmp_path / "all", drop), ["x"], nulls="drop_row")


# ------------------------------------------------------------- names, sums, fingerprints


def test_row_names_and_sums(tmp_path):
    rng = np.random.default_rng(0)
    y, w = rng.random(500), rng.random(500)
    columns = {"x": y, "y": y, "w": w, "id": [f"é{i}" for i in range(500)], "n": np.arange(500)}
    folder = write(tmp_path, columns, 3, 50)
    source = ParquetSource(folder, ["x"], targets=["y"], weights="w", ids="id", block_rows=64)
    names = source.row_names
    assert (len(names), names[499], names[-1], names[3:5]) == (500, "é499", "é499", ["é3", "é4"])
    numbered = ParquetSource(folder, ["x"], ids="n").row_names
    assert numbered[7] == "7"
    weight, (total,) = source.label_sums()
    assert weight == pytest.approx(w.sum(), rel=1e-6)
    assert total == pytest.approx(w @ y, rel=1e-6)
    assert ParquetSource(folder, ["x"]).row_names is None


def test_fingerprint_is_of_the_data_and_of_their_roles(tmp_path):
    columns = {"x": np.arange(50.0), "y": np.arange(50.0)}
    folder = write(tmp_path / "a", columns)
    first = ParquetSource(folder, ["x"], targets=["y"])
    assert (
        first.fingerprint == ParquetSource(folder, ["x"], targets=["y"], block_rows=7).fingerprint
    )
    assert first.fingerprint != ParquetSource(folder, ["y"], targets=["x"]).fingerprint
    copied = write(tmp_path / "b", columns)
    assert first.fingerprint == ParquetSource(copied, ["x"], targets=["y"]).fingerprint
    columns["x"] = columns["x"] + 1
    changed = write(tmp_path / "c", columns)
    assert first.fingerprint != ParquetSource(changed, ["x"], targets=["y"]).fingerprint


def test_paths(tmp_path):
    folder = write(tmp_path, {"x": np.arange(100.0)}, 4)
    for paths, rows in [
        (folder, 100),
        (str(folder / "part-00.parquet"), 25),
        (f"{folder}/part-0[12].parquet", 50),
        ([folder / "part-03.parquet", f"file://{folder}/part-00.parquet"], 50),
    ]:
        assert ParquetSource(paths, ["x"]).shape.total_rows == rows
    found = whole_pass(
        ParquetSource([folder / "part-03.parquet", folder / "part-00.parquet"], ["x"])
    )
    assert found[1][[0, 25], 0].tolist() == [75, 0]


def test_order_depends_on_seed_and_pass_alone(tmp_path):
    folder = write(tmp_path, {"x": np.arange(1000.0)}, 2, 40)

    def order(seed: int, pass_: int) -> list[float]:
        source = ParquetSource(folder, ["x"], block_rows=10, shuffle="blocks", seed=seed)
        return whole_pass(source, pass_)[1][:, 0].tolist()

    assert order(0, 3) == order(0, 3)
    assert len({tuple(order(seed, pass_)) for seed in range(2) for pass_ in range(3)}) == 6
    with pytest.raises(
        DataError, match="shuffle=True: must be False or 'blocks', because single rows.*row groups"
    ):
        ParquetSource(folder, ["x"], shuffle=True)


def test_reader_reads_it_ahead(tmp_path):
    X = random_csr(500, 40)
    source = ParquetSource(write(tmp_path, csr_columns(X), 3, 60), PAIR, block_rows=64)
    with Reader(source) as reader:
        for pass_ in range(2):
            found = [dense_rows(block) for block in reader.blocks(pass_)]
            np.testing.assert_array_equal(np.concatenate(found), X.toarray())


def test_memory_is_that_of_a_batch(tmp_path):
    """Not that of the file, nor of a row group; and none of it stays."""
    columns = np.random.default_rng(0).integers(1, 66, (60_000, 15)).cumsum(1).astype(np.int32)
    offsets = np.arange(0, columns.size + 1, 15)
    X = sparse.csr_array((columns.ravel() / 4, columns.ravel(), offsets), shape=(60_000, 1000))
    folder = write(tmp_path, csr_columns(X), 1, 30_000, compression="none", use_dictionary=False)
    size = sum(path.stat().st_size for path in folder.iterdir())
    source = ParquetSource(folder, Sparse("i", "v", 1000), block_rows=500)
    block = HostBlock(source.shape)
    pool = pa.default_memory_pool()
    levels = []
    for pass_ in range(3):
        before = pool.bytes_allocated()
        peak = 0
        for index in range(source.blocks):
            source.read(pass_, index, block)
            peak = max(peak, pool.bytes_allocated() - before)
        levels.append(pool.bytes_allocated())
        assert peak < size / 2
    assert levels[2] <= levels[1]


# ------------------------------------------------------------- HugeCTR's metadata, configurations


def hugectr(tmp_path: Path, **more: object) -> Path:
    columns = {
        "label": np.arange(100) % 2,
        "I1": np.arange(100) / 4,
        "C1": np.arange(100) % 10,
        "C2": pa.array([[i % 3, i % 5] for i in range(100)]),
    }
    folder = write(tmp_path, columns, 2, 20)
    metadata = {
        "file_stats": [{"file_name": f"part-0{i}.parquet", "num_rows": 50} for i in range(2)],
        "labels": [{"col_name": "label", "index": 0}],
        "conts": [{"col_name": "I1", "index": 1}],
        "cats": [{"col_name": "C1", "index": 2}, {"col_name": "C2", "index": 3}],
    }
    (folder / "_metadata.json").write_text(json.dumps(metadata | more))
    return folder


@pytest.mark.parametrize("where", ["here", "beside", "nowhere"])
def test_hugectr_metadata(tmp_path, where):
    folder = hugectr(tmp_path, **({"slot_size_array": [12, 7]} if where == "here" else {}))
    if where == "beside":
        (folder / "slot_size_array.json").write_text('{"slot_size_array": [12, 7]}')
    source = ParquetData(path=str(folder)).open_source(Reading(block_rows=16))
    sizes = (10, 5) if where == "nowhere" else (12, 7)
    assert source.features == (
        Dense("I1", 1), Sparse("C1", None, sizes[0]), Sparse("C2", None, sizes[1])
    )  # fmt: skip
    assert source.target_names == ["label"]
    _, found, targets, _ = whole_pass(source)
    n = np.arange(100)
    assert (found[:, 0] == n / 4).all() and (found[:, 1 : 1 + sizes[0]].argmax(1) == n % 10).all()
    last = found[:, 1 + sizes[0] :]
    np.testing.assert_array_equal(last[:, :5], np.eye(5)[n % 3] + np.eye(5)[n % 5])
    assert (targets[:, 0] == n % 2).all()


@pytest.mark.parametrize(
    "more, text",
    [
        ({"file_stats": [{"file_name": "part-00.parquet", "num_rows": 51}]}, "50 rows, but _meta"),
        ({"slot_size_array": [1]}, r"slot_size_array is \[1\]"),
        ({"slot_size_array": [0, 3]}, "must be one size, 1 or more"),
        ({"cats": [{"name": "C1"}]}, "not HugeCTR's metadata: KeyError 'col_name'"),
        ({"file_stats": []}, "0 files, .* must be at least one file"),
        ({"file_stats": None}, "not HugeCTR's metadata"),
        ({"cats": [{"col_name": "C9"}]}, "no column 'C9'; it has label, I1, C1, C2"),
    ],
)  # fmt: skip
def test_hugectr_metadata_that_are_wrong(tmp_path, more, text):
    folder = hugectr(tmp_path, **more)
    with pytest.raises(DataError, match=text):
        ParquetData(path=str(folder)).open_source(Reading())


def test_hugectr_metadata_that_are_none(tmp_path):
    (tmp_path / "_metadata.json").write_text("{")
    with pytest.raises(DataError, match="_metadata.json: not valid JSON"):
        ParquetData(path=str(tmp_path)).open_source(Reading())
    with pytest.raises(FileNotFoundError, match="none/_metadata.json"):
        ParquetData(path=str(tmp_path / "none")).open_source(Reading())


def test_evaluation_data_have_the_sizes_of_training_data(tmp_path):
    train = write(tmp_path / "train", {"c": np.arange(50), "x": np.ones(50)})
    held = write(tmp_path / "held", {"c": np.arange(5), "x": np.ones(5)})
    beyond = write(tmp_path / "beyond", {"c": np.arange(90), "x": np.ones(90)})
    features = [{"indices": "c"}, {"dense": "x"}]
    kind = ParquetData(path=str(train), features=features)
    source = kind.open_source(Reading(block_rows=8))
    other = kind.model_copy(update={"path": str(held)}).open_source(Reading(block_rows=8), source)
    assert other.shape.columns == source.shape.columns == 51
    far = kind.model_copy(update={"path": str(beyond)}).open_source(Reading(block_rows=8), source)
    with pytest.raises(DataError, match="has the index 50; indices must be 0 to 49"):
        whole_pass(far)
    with pytest.raises(DataError, match="1 sparse features to evaluate on, but 0 to train on"):
        kind.open_source(Reading(), MatrixSource(np.ones((3, 51))))


def test_hold_out(tmp_path):
    X = random_csr(300, 40)
    kind = ParquetData(
        path=str(write(tmp_path, csr_columns(X), 2, 50)),
        features={"indices": "i", "values": "v", "size": 40},
    )
    train, held = kind.hold_out(0.2, Reading(block_rows=32, shuffle=True), Reading(block_rows=32))
    assert train.shape.total_rows + held.shape.total_rows == 300
    rows = whole_pass(held)[1]
    assert {tuple(row) for row in rows} <= {tuple(row) for row in X.toarray()}


def test_files_are_looked_for(tmp_path):
    kind = ParquetData(path=["a/b", "x/*.parquet", "s3://bucket/c"], features=["x"])
    assert list(kind.files()) == [Path("a/b")]


def test_one_role_for_a_column(tmp_path):
    folder = write(tmp_path, {"x": np.ones(3)})
    with pytest.raises(DataError, match="'x' is named twice"):
        ParquetSource(folder, ["x"], targets=["x"])
    with pytest.raises(DataError, match="no features"):
        ParquetSource(folder, [])
    with pytest.raises(DataError, match="no files"):
        ParquetSource([], ["x"])


def test_metadata_of_pandas_indexes_do_not_matter(tmp_path):
    table = pa.table({"x": np.ones(3), "__index_level_0__": np.arange(3)})
    pq.write_table(table, tmp_path / "x.parquet")
    assert whole_pass(ParquetSource(tmp_path, "x"))[1].tolist() == [[1], [1], [1]]


def test_training_by_the_command_line(tmp_path, monkeypatch, capsys):
    """LDA on lists of words and counts, evaluated on another file, then used on a third."""
    X = abs(random_csr(400, 40))
    for name in ("train", "held", "new"):
        write(tmp_path / name, csr_columns(X), 2, 60)
    (tmp_path / "run.yaml").write_text(
        """
model: {kind: lda, topics: 3, inference: vb}
data:
  train: {kind: parquet, path: train, features: {indices: i, values: v, size: 40}}
  eval: {kind: parquet, path: held/part-*.parquet, features: {indices: i, values: v, size: 40}}
  block_rows: 64
learner: {passes: 2}
out: run
"""
    )
    monkeypatch.chdir(tmp_path)
    predict = ["predict", "run", "--data", "new", "--out", "topics.npy"]
    for arguments in (["train", "--config", "run.yaml"], predict):
        with pytest.raises(SystemExit) as stop:
            main(arguments)
        assert stop.value.code == 0, capsys.readouterr().err
    assert np.load(tmp_path / "topics.npy").shape == (400, 3)
    (tmp_path / "train" / "part-01.parquet").write_bytes(b"PAR1 and nothing else")
    with pytest.raises(SystemExit) as stop:
        main(["train", "--config", "run.yaml", "--out", "other"])
    assert stop.value.code == 65
    assert "train/part-01.parquet: not a whole Parquet file" in capsys.readouterr().err


@pytest.mark.parametrize("feature", ["y", {"dense": "y"}, {"indices": "y"}])
def test_no_column_is_a_target_and_a_feature(feature) -> None:
    with pytest.raises(ValueError, match="'y' is a target and a feature"):
        ParquetData(path="a.parquet", features=["x", feature], targets=["y"])
