"""Block datasets: what is written is what is read."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from blocklearn.datasources import (
    BlockSource,
    BlockWriter,
    DataError,
    HashedWords,
    HostBlock,
    MatrixSource,
    Reader,
    RowFilter,
    TwoSidedSource,
    row_names,
    split_rows,
    target_names,
    write_blocks,
)
from blocklearn.datasources.source import labels_of
from tests.support.block_datasets import (
    Data,
    arrays,
    collect,
    counts,
    folders,
    labelled,
    table,
    write,
)

CODECS = ("raw", "lz4")


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("stripes", [1, 3])
@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("targets", [1, 2])
def test_round_trip(tmp_path: Path, codec: Any, stripes: int, dense: bool, targets: int) -> None:
    data = labelled(23, targets, dense=dense)
    paths = folders(tmp_path, stripes)
    write(data, paths, codec=codec)
    source = BlockSource(paths)
    assert (source.blocks, source.shape.rows, source.shape.total_rows) == (6, 4, 23)
    assert source.readers == stripes
    found = collect(source)
    np.testing.assert_array_equal(found.X, data.X if dense else data.X.toarray())
    np.testing.assert_array_equal(found.targets, data.targets)
    np.testing.assert_array_equal(found.weights, data.weights)
    assert list(row_names(source) or ()) == data.ids


@settings(max_examples=60, deadline=None)
@given(
    rows=st.integers(1, 30),
    columns=st.integers(1, 9),
    block_rows=st.integers(1, 12),
    steps=st.integers(1, 31),
    stripes=st.integers(1, 4),
    codec=st.sampled_from(CODECS),
    density=st.sampled_from([0.0, 0.1, 1.0]),
    seed=st.integers(0, 99),
)
def test_any_cut(
    tmp_path_factory: pytest.TempPathFactory, rows: int, columns: int, block_rows: int,
    steps: int, stripes: int, codec: Any, density: float, seed: int,
) -> None:  # fmt: skip
    """Rows come in any pieces; blocks are full but the last; both orientations agree."""
    rng = np.random.default_rng(seed)
    X = (rng.random((rows, columns)) < density) * rng.normal(size=(rows, columns))
    paths = folders(tmp_path_factory.mktemp("data"), stripes)
    write(
        Data(sparse.csr_array(X.astype(np.float32))), paths,
        steps=steps, block_rows=block_rows, codec=codec, columns=columns, both_orientations=True,
    )  # fmt: skip
    source = BlockSource(paths[::-1])
    assert source.blocks == -(-rows // block_rows)
    np.testing.assert_array_equal(collect(source).X, X.astype(np.float32))
    across = source.transposed()
    assert across.shape.rows == block_rows
    np.testing.assert_array_equal(collect(across).X, X.T.astype(np.float32))
    np.testing.assert_array_equal(collect(across.transposed()).X, X.astype(np.float32))


def test_order_depends_on_seed_and_pass_alone(tmp_path: Path) -> None:
    write(Data(counts(40)), [tmp_path])
    block = None

    def order(source: BlockSource, pass_: int) -> list[int]:
        nonlocal block
        block = block or HostBlock(source.shape)
        firsts = []
        for index in range(source.blocks):
            source.read(pass_, index, block)
            firsts.append(int(block.row_ids[0]))
        return firsts

    source = BlockSource([tmp_path], shuffle="blocks", seed=3)
    passes = [order(source, p) for p in range(3)]
    assert all(sorted(found) == list(range(0, 40, 4)) for found in passes)
    assert len({tuple(found) for found in passes}) == 3
    again = BlockSource([tmp_path], shuffle="blocks", seed=3)
    assert order(again, 2) == passes[2]
    assert order(BlockSource([tmp_path], shuffle="blocks", seed=4), 0) != passes[0]
    assert order(BlockSource([tmp_path]), 7) == list(range(0, 40, 4))


@pytest.mark.parametrize("stripes", [1, 2, 5])
def test_reader_with_a_thread_per_stripe(tmp_path: Path, stripes: int) -> None:
    X = counts(200)
    paths = folders(tmp_path, stripes)
    write(Data(X), paths)
    source = BlockSource(paths, shuffle="blocks")
    with Reader(source) as reader:
        for pass_ in range(3):
            found = np.zeros(X.shape, np.float32)
            for number, block in enumerate(reader.blocks(pass_)):
                assert block.index == number
                found[block.row_ids[: block.rows]] = table(block)
            np.testing.assert_array_equal(found, X.toarray())


def test_write_blocks_of_a_source_with_everything(tmp_path: Path) -> None:
    data = labelled(30)
    given = MatrixSource(
        data.X, targets=data.targets, weights=data.weights, block_rows=7, shuffle="blocks",
        names=[f"c{i}" for i in range(11)], target_names=["a", "b"], row_names=data.ids,
    )  # fmt: skip
    paths = folders(tmp_path, 2)
    write_blocks(given, paths, block_rows=5, both_orientations=True)
    source = BlockSource(paths)
    found = collect(source)
    names = row_names(source)
    assert names is not None and sorted(names) == sorted(data.ids)
    order = [data.ids.index(name) for name in names]
    np.testing.assert_array_equal(found.X, data.X.toarray()[order])
    np.testing.assert_array_equal(found.targets, data.targets[order])
    assert source.names == given.names and target_names(source) == ["a", "b"]
    assert source.transposed().names == names and row_names(source.transposed()) == given.names
    weights, sums = given.label_sums()
    assert source.label_sums()[0] == pytest.approx(weights, rel=1e-12)
    assert source.label_sums()[1] == pytest.approx(sums, rel=1e-6)
    assert source.value_sums() == given.value_sums()
    assert source.transposed().value_sums() == given.value_sums()


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("dense", [False, True])
def test_labels_are_read_alone(
    tmp_path: Path, codec: Any, weighted: bool, dense: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = labelled(43, 2, dense=dense)
    data.weights = data.weights if weighted else None
    paths = folders(tmp_path, 2)
    write(data, paths, codec=codec)
    source = BlockSource(paths, shuffle="blocks", seed=3)
    whole = collect(source)
    weights = np.ones(43) if data.weights is None else whole.weights
    monkeypatch.setattr(BlockSource, "read", None)  # features stay on the disk
    found = list(source.read_labels())
    ids = np.concatenate([labels.ids for labels in found])
    assert ids[0] > 3 and sorted(ids) == list(range(43))  # in the order of pass 0
    np.testing.assert_array_equal(np.concatenate([x.targets for x in found]), whole.targets[ids])
    np.testing.assert_array_equal(np.concatenate([x.weights for x in found]), weights[ids])
    parts = [RowFilter(source, 0.3, 1, held=held).read_labels() for held in (False, True)]
    kept, held = (np.concatenate([x.ids for x in part or ()]) for part in parts)
    np.testing.assert_array_equal(kept, ids[np.isin(ids, split_rows(43, 0.3, 1)[0])])
    np.testing.assert_array_equal(held, ids[np.isin(ids, split_rows(43, 0.3, 1)[1])])


def test_labels_that_cannot_be_read_name_their_file(tmp_path: Path) -> None:
    write(labelled(), [tmp_path])
    source, file = BlockSource([tmp_path]), tmp_path / "rows-0-of-1.arrow"
    data = file.read_bytes()
    file.write_bytes(bytes(len(data)))
    with pytest.raises(DataError, match="rows-0-of-1.arrow, block 0: cannot be decompressed"):
        next(source.read_labels())
    file.write_bytes(data[:700])
    with pytest.raises(DataError, match="rows-0-of-1.arrow, block 0: cut off"):
        next(source.read_labels())
    source.close()
    with pytest.raises(DataError, match="it is closed"):
        next(source.read_labels())


def test_labels_of_other_sources_come_with_features() -> None:
    source = MatrixSource(counts(), targets=np.ones(23))
    assert labels_of(source) is None
    assert RowFilter(source, 0.3, 1, held=True).read_labels() is None


def test_fingerprint_is_of_the_contents(tmp_path: Path) -> None:
    data = labelled()

    def fingerprint(name: str, data: Data, stripes: int = 1, **settings: Any) -> str:
        paths = folders(tmp_path / name, stripes)
        write(data, paths, **settings)
        return BlockSource(paths).fingerprint

    first = fingerprint("a", data, codec="raw")
    assert fingerprint("b", data, codec="lz4", stripes=3, steps=2, both_orientations=True) == first
    other = labelled()
    other.targets[5, 1] += 1e-3
    assert fingerprint("c", other) != first
    other = labelled()
    other.X.data[0] += 1
    assert fingerprint("d", other) != first
    assert fingerprint("e", Data(data.X)) != first


def test_one_orientation_has_no_other(tmp_path: Path) -> None:
    write(Data(counts()), [tmp_path])
    assert not isinstance(BlockSource([tmp_path]), TwoSidedSource)
    with pytest.raises(DataError, match="one orientation.*both orientations"):
        BlockSource([tmp_path], side="columns")


def test_transposed_with_little_memory(tmp_path: Path) -> None:
    """Many buckets, a column that alone is larger than one, and blocks cut otherwise."""
    X = counts(97, 40, seed=3)
    paths = folders(tmp_path, 2)
    write(Data(X), paths, both_orientations=True, column_block_rows=3, budget_bytes=240, columns=40)
    across = BlockSource(paths).transposed()
    assert across.shape.rows == 3 and across.blocks == 14
    block = HostBlock(across.shape)
    for index in range(across.blocks):
        across.read(0, index, block)
        np.testing.assert_array_equal(table(block), X.T.toarray()[3 * index : 3 * index + 3])
    assert not list(tmp_path.rglob("*.spill"))


def test_hashed_columns_have_no_file_of_names(tmp_path: Path) -> None:
    words = HashedWords(4)
    write(Data(counts(9, 16)), [tmp_path], names=words)
    assert BlockSource([tmp_path]).names == words
    assert not (tmp_path / "columns-names.arrow").exists()


def test_integer_ids(tmp_path: Path) -> None:
    data = Data(counts(10), ids=np.arange(10) * 10**12)
    write(data, [tmp_path])
    names = row_names(BlockSource([tmp_path]))
    assert names is not None and names[3] == "3000000000000" and names[-1:] == ["9000000000000"]
    with pytest.raises(IndexError):
        names[10]


def test_more_rows_than_written(tmp_path: Path) -> None:
    X = counts()
    write(Data(X), [tmp_path])
    source = BlockSource([tmp_path], block_rows=6)
    assert source.shape.rows == 6
    np.testing.assert_array_equal(collect(source).X, X.toarray())
    with pytest.raises(DataError, match="4 rows: must have at most 3.*Convert"):
        BlockSource([tmp_path], block_rows=3)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("data", [labelled(), labelled(dense=True), Data(counts())])
def test_files_are_arrow_files(tmp_path: Path, codec: Any, data: Data) -> None:
    """What is said about the format, by Arrow's own reader."""
    paths = folders(tmp_path, 2)
    write(data, paths, codec=codec, both_orientations=sparse.issparse(data.X))
    files = sorted(tmp_path.rglob("*.arrow"))
    rows: dict[int, Any] = {}
    for path in files:
        reader = pa.ipc.open_file(path)
        everything = reader.read_all()
        everything.validate(full=True)
        assert all(column.null_count == 0 for column in everything.columns)
        if path.name.startswith("rows-") and "names" not in path.name:
            assert reader.num_record_batches == 3
            rows |= {row["row"]: row for row in everything.to_pylist()}
    assert sorted(rows) == list(range(23))
    for number, row in rows.items():
        if sparse.issparse(data.X):
            part = data.X[[number]]
            assert row["indices"] == part.indices.tolist() and row["values"] == part.data.tolist()
        else:
            assert row["features"] == data.X[number].tolist()
        if data.targets is not None:
            assert row["targets"] == data.targets[number].tolist()
            assert row["weight"] == data.weights[number]


def test_reading_allocates_nothing(tmp_path: Path) -> None:
    """Host memory by tracemalloc, Arrow's by its pool: flat once every block was read."""
    import tracemalloc

    rng = np.random.default_rng(0)
    X = sparse.random_array((4000, 500), density=0.1, format="csr", rng=rng, dtype=np.float32)
    for codec in CODECS:
        path = tmp_path / codec
        write(Data(X), [path], block_rows=500, steps=4000, codec=codec)
        source = BlockSource([path])
        block = HostBlock(source.shape)

        def one_pass(source: BlockSource = source, block: HostBlock = block) -> None:
            for index in range(source.blocks):
                source.read(0, index, block)

        one_pass()
        one_pass()
        arrow, peak = pa.total_allocated_bytes(), 0
        tracemalloc.start()
        for _ in range(3):
            one_pass()
            assert pa.total_allocated_bytes() == arrow
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 50_000  # a block has 200,000 bytes of values


def test_reading_gives_the_same_bits_with_every_kind_of_verification(tmp_path: Path) -> None:
    write(labelled(), [tmp_path])
    sources = [BlockSource([tmp_path], verify=verify) for verify in (True, "always", False)]
    block = HostBlock(sources[0].shape)
    for index in range(6):
        seen = set()
        for source in sources * 2:
            source.read(0, index, block)
            seen.add(tuple(arrays(block)))
        assert len(seen) == 1


def test_a_block_that_another_source_has_filled(tmp_path: Path) -> None:
    """Whatever arrays that one lent to the block, ours go into its own."""
    X = counts(24)
    memory = MatrixSource(X, block_rows=4)
    write_blocks(memory, [tmp_path])
    block = HostBlock(memory.shape)
    source = BlockSource([tmp_path])
    for pass_ in range(2):
        for index in (3, 0, 5):
            memory.read(pass_, index, block)
            source.read(pass_, index, block)
            np.testing.assert_array_equal(table(block), X.toarray()[4 * index : 4 * index + 4])
            memory.read(pass_, index, block)
            np.testing.assert_array_equal(table(block), X.toarray()[4 * index : 4 * index + 4])


def test_wrong_questions(tmp_path: Path) -> None:
    write(Data(counts()), [tmp_path])
    source = BlockSource([tmp_path])
    with pytest.raises(DataError, match="block 6 of pass 0, but blocks are 0 to 5"):
        source.read(0, 6, HostBlock(source.shape))
    with pytest.raises(DataError, match="cannot hold"):
        source.read(0, 0, HostBlock(MatrixSource(np.eye(3)).shape))
    with pytest.raises(DataError, match='False or "blocks"'):
        BlockSource([tmp_path], shuffle=True)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="list of folders"):
        BlockSource(str(tmp_path))
    source.close()
    with pytest.raises(DataError, match="closed"):
        source.read(0, 0, HostBlock(source.shape))


def test_a_writer_is_a_context_that_leaves_nothing_behind(tmp_path: Path) -> None:
    paths = folders(tmp_path, 2)
    with pytest.raises(DataError, match="row 3"), BlockWriter(paths, block_rows=1) as writer:
        writer.append([0, 1, 1, 2], [0, 1], [1.0, 2.0])
        writer.append([0, 1], [0], [np.nan])
    assert not any(path.exists() for path in paths)
