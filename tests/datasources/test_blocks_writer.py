"""Writing block datasets: whole or not at all, and going on after an interruption."""

import errno
import itertools
import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from blocklearn.datasources import BlockSource, BlockWriter, DataError, MatrixSource, row_names
from blocklearn.datasources import write_blocks as write_source
from blocklearn.datasources.blocks import unfinished
from blocklearn.datasources.blocks import writer as writers
from blocklearn.datasources.blocks.layout import Kind
from blocklearn.datasources.blocks.part_writer import Pending
from blocklearn.datasources.blocks.rows import Rows
from tests.support.block_datasets import Data, collect, counts, folders, labelled, write
from tests.support.largest_file import largest_file

ROWS = 43


def contents(paths: list[Path]) -> dict[str, bytes]:
    """All files."""
    files = [file for path in paths for file in path.rglob("*") if file.is_file()]
    return {str(file): file.read_bytes() for file in sorted(files)}


def convert(data: Data, paths: list[Path], stop: int | None = None, **settings: Any) -> int:
    """As a converter does it: go on where the last one was, tell the position; how many rows were
    left out. Interrupted behind row `stop`.
    """
    rows, columns = data.X.shape
    with BlockWriter(paths, block_rows=4, columns=columns, resume=True, **settings) as writer:
        position, there = writer.position
        start = 0 if position is None else position["row"]
        assert (start == there <= writer.rows and writer.rows % 4 == 0) or writer.rows == rows
        done = writer.rows
        for row in range(start, rows):
            if row == stop:
                raise KeyboardInterrupt
            if row >= done:  # told every third row; some rows behind the last time are there
                data.append(writer, row, row + 1, {"row": row + 1} if row % 3 == 2 else None)
        writer.finish()
    return done


@pytest.mark.parametrize("codec", ["raw", "lz4"])
@pytest.mark.parametrize("commit", [1, 900])
def test_an_interruption_leaves_no_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, codec: Any, commit: int
) -> None:
    """Interrupted at many rows: the same bytes as without, and stored rows are not asked again."""
    monkeypatch.setattr(unfinished, "COMMIT_BYTES", commit)
    data = labelled(ROWS)
    whole = folders(tmp_path / "whole", 2)
    convert(data, whole, codec=codec, both_orientations=True)
    expected = [path.read_bytes() for path in sorted((tmp_path / "whole").rglob("*.*"))]
    for stop in [*range(0, ROWS, 5), ROWS - 1]:
        paths = folders(tmp_path / f"stop{stop}", 2)
        with pytest.raises(KeyboardInterrupt):
            convert(data, paths, stop, codec=codec, both_orientations=True)
        with pytest.raises((DataError, FileNotFoundError), match="unfinished|manifest.json"):
            BlockSource(paths)
        left_out = convert(data, paths, codec=codec, both_orientations=True)
        assert stop - 4 < left_out <= stop or commit > 1
        found = sorted((tmp_path / f"stop{stop}").rglob("*.*"))
        assert [path.read_bytes() for path in found] == expected
    np.testing.assert_array_equal(collect(BlockSource(paths)).X, data.X.toarray())


@pytest.mark.parametrize("step", ["write_manifest", "exchange", "write_names"])
def test_a_failure_while_finishing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Wherever it fails, there is no dataset before it is whole, and all rows are kept."""
    data = labelled(ROWS)
    paths = folders(tmp_path, 3)
    calls = 0

    def fail(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == (2 if step == "write_manifest" else 1):
            raise OSError(errno.EIO, "broken")
        return real(*arguments)

    real = getattr(writers, step)
    monkeypatch.setattr(writers, step, fail)
    with (
        pytest.raises(OSError, match="broken"),
        BlockWriter(paths, block_rows=4, resume=True, both_orientations=True) as writer,
    ):
        data.append(writer, 0, ROWS)
        writer.finish(names=[f"c{i}" for i in range(11)])
    monkeypatch.undo()
    with pytest.raises(DataError, match="unfinished dataset.*Resume it"):
        BlockSource(paths)
    with BlockWriter(paths, block_rows=4, resume=True, both_orientations=True) as writer:
        assert writer.rows == ROWS
        writer.finish(names=[f"c{i}" for i in range(11)])
    source = BlockSource(paths)
    np.testing.assert_array_equal(collect(source).X, data.X.toarray())
    np.testing.assert_array_equal(collect(source.transposed()).X, data.X.toarray().T)
    assert list(row_names(source) or ()) == data.ids
    assert not [name for name in contents(paths) if "unfinished" in name or "bucket" in name]


CHILD = """
import sys, time
import numpy as np
from blocklearn.datasources import BlockWriter
from blocklearn.datasources.blocks import unfinished

unfinished.COMMIT_BYTES = 1
most, *folders = sys.argv[1:]
with BlockWriter(folders, block_rows=4, columns=11, resume=True) as writer:
    begun = writer.rows
    for row in range(begun, 400):
        if row == begun + int(most):
            sys.stdin.read()  # until it is killed, at the latest
        writer.append([0, 2], [row % 7, 7 + row % 4], [row, 1.0], ids=[row])
        print(row, flush=True)
    writer.finish()
"""


@pytest.mark.slow
def test_killed_at_any_time(tmp_path: Path) -> None:
    """The process is killed several times, and resumes each time."""
    paths = folders(tmp_path, 2)
    reached = []
    for patience in (9, 90, 170, 1000):
        child = subprocess.Popen(
            [sys.executable, "-c", CHILD, str(patience + 20), *map(str, paths)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert child.stdout is not None and child.stdin is not None
        rows = []
        for line in child.stdout:
            rows.append(int(line))
            if len(rows) == patience:
                child.send_signal(signal.SIGKILL)
                break
        child.stdout.close()
        child.wait()
        child.stdin.close()
        reached.append(rows[0])
    assert child.returncode == 0
    assert reached[0] == 0 < reached[1] < reached[2] < reached[3]
    source = BlockSource(paths)
    found = collect(source).X
    rows_ = np.arange(400)
    assert (found[rows_, rows_ % 7] == rows_).all() and (found[rows_, 7 + rows_ % 4] == 1).all()
    assert list(row_names(source) or ()) == [str(row) for row in range(400)]


def test_a_line_of_the_journal_that_was_not_written_completely(tmp_path: Path) -> None:
    writer = BlockWriter([tmp_path], block_rows=2, resume=True)
    data = Data(counts(8))
    data.append(writer, 0, 4)
    writer._rows.commit()  # type: ignore[union-attr]
    journal = tmp_path / "unfinished.jsonl"
    with journal.open("ab") as file:
        file.write(b'{"blocks": {"rows": [2')
    writer.close()
    with BlockWriter([tmp_path], block_rows=2, resume=True) as writer:
        assert writer.rows == 4
        data.append(writer, 4, 8)
        writer.finish()
    np.testing.assert_array_equal(collect(BlockSource([tmp_path])).X, data.X.toarray())


def test_what_cannot_be_gone_on_with(tmp_path: Path) -> None:
    def begin(**settings: Any) -> BlockWriter:
        return BlockWriter([tmp_path], **{"block_rows": 2, "resume": True, **settings})

    with pytest.raises(KeyboardInterrupt), begin() as writer:
        Data(counts(8)).append(writer, 0, 4)
        writer._rows.commit()  # type: ignore[union-attr]
        raise KeyboardInterrupt
    with pytest.raises(DataError, match=r"begun with .*block_rows=2.*block_rows=3.*same settings"):
        begin(block_rows=3)
    with pytest.raises(DataError, match="origin='b'"):
        begin(origin="b")
    with (
        begin() as writer,
        pytest.raises(DataError, match="ids: text, but those before have .* ids: none"),
    ):
        writer.append([0, 0], [], [], ids=["a"])
    with begin() as writer, pytest.raises(DataError, match="all rows must have the same"):
        writer.append(dense=[[1.0]])
    journal = tmp_path / "unfinished.jsonl"
    lines = journal.read_text().splitlines()
    journal.write_text(lines[0] + "\n{}\n")
    with pytest.raises(DataError, match=r"unfinished.jsonl.*damaged.*Delete it"):
        begin()
    with BlockWriter([tmp_path], block_rows=3) as writer:  # not resumed: begun again
        assert writer.rows == 0


def test_files_of_an_unfinished_dataset_that_were_cut(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        convert_once(tmp_path)
    path = tmp_path / "rows-0-of-1.arrow"
    os.truncate(path, path.stat().st_size - 1)
    with pytest.raises(DataError, match=r"rows-0-of-1.arrow: .* bytes, but .* were stored"):
        BlockWriter([tmp_path], block_rows=2, resume=True)


def convert_once(folder: Path) -> None:
    with BlockWriter([folder], block_rows=2, resume=True) as writer:
        Data(counts(8)).append(writer, 0, 8)
        writer._rows.commit()  # type: ignore[union-attr]
        raise KeyboardInterrupt


def test_a_dataset_is_not_overwritten_by_mistake(tmp_path: Path) -> None:
    write(Data(counts()), [tmp_path])
    before = contents([tmp_path])
    for resume in (False, True):
        with pytest.raises(DataError, match="holds a dataset already.*overwritten"):
            BlockWriter([tmp_path], block_rows=4, resume=resume)
    assert contents([tmp_path]) == before
    (tmp_path / "mine.txt").write_text("kept")
    write(Data(counts(9)), [tmp_path], overwrite=True, codec="raw")
    assert BlockSource([tmp_path]).shape.total_rows == 9
    assert (tmp_path / "mine.txt").exists() and not (tmp_path / "unfinished.jsonl").exists()


@pytest.mark.parametrize("resume", [False, True])
def test_an_old_dataset_stays_until_the_new_one_is_whole(tmp_path: Path, resume: bool) -> None:
    old, new, paths = Data(counts()), Data(counts(9)), folders(tmp_path, 2)
    write(old, paths)
    before = contents(paths)
    with (
        pytest.raises(KeyboardInterrupt),
        BlockWriter(paths, block_rows=4, columns=11, resume=resume, overwrite=True) as writer,
    ):
        new.append(writer, 0, 9)
        raise KeyboardInterrupt
    np.testing.assert_array_equal(collect(BlockSource(paths)).X, old.X.toarray())
    assert resume or contents(paths) == before
    with BlockWriter(paths, block_rows=4, columns=11, resume=resume, overwrite=True) as writer:
        new.append(writer, writer.rows, 9)
        writer.finish()
    assert collect(BlockSource(paths)).X.shape[0] == 9
    assert not list(tmp_path.rglob(".*"))


@pytest.mark.parametrize("step", range(14))
def test_a_stop_while_a_new_dataset_takes_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    """At every moment readers find one of the two whole, and the next writer replaces it."""
    old, new, paths = labelled(), labelled(9), folders(tmp_path, 2)
    write(old, paths, both_orientations=True)
    done = 0

    def stopping(real: Any) -> Any:
        def stop(*arguments: Any) -> Any:
            nonlocal done
            done += 1
            if done > step:
                raise KeyboardInterrupt
            return real(*arguments)

        return stop

    for name in ("rename", "replace"):
        monkeypatch.setattr(os, name, stopping(getattr(os, name)))
    done = -2  # manifests are renamed first
    with suppress(KeyboardInterrupt):
        write(new, paths, overwrite=True)
    monkeypatch.undo()
    with BlockSource(paths[::-1]) as source:
        rows = collect(source).X
    wanted = new if step >= 2 else old
    np.testing.assert_array_equal(rows, wanted.X.toarray())
    write(new, paths, overwrite=True)
    assert collect(BlockSource(paths)).X.shape[0] == 9
    assert not list(tmp_path.rglob(".*"))
    names = {path.name for folder in paths for path in folder.iterdir()}
    assert not any(name.startswith("columns-0-of") for name in names)


def test_what_an_earlier_writer_left_in_another_folder_does_not_matter(tmp_path: Path) -> None:
    paths = folders(tmp_path, 2)
    write(labelled(), paths[1:])
    (paths[1] / ".next").mkdir()
    write(labelled(), [paths[1]], overwrite=True)
    (paths[1] / "manifest.json").rename(tmp_path / "manifest.json")
    (paths[1] / ".next").mkdir()
    (tmp_path / "manifest.json").rename(paths[1] / ".next" / "manifest.json")
    write(labelled(9), paths)
    assert collect(BlockSource(paths)).X.shape[0] == 9 and not list(tmp_path.rglob(".*"))


def test_overwriting_with_fewer_stripes_leaves_no_file_behind(tmp_path: Path) -> None:
    paths = folders(tmp_path, 3)
    write(labelled(), paths, both_orientations=True)
    write(Data(counts()), paths[:1], overwrite=True)
    assert sorted(file.name for file in paths[0].iterdir()) == [
        "manifest.json", "rows-0-of-1.arrow"
    ]  # fmt: skip


def test_a_manifest_half_written_by_a_killed_process_is_ours(tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / ".manifest.json.12345").write_bytes(b"{")
    BlockWriter([tmp_path / "new"], block_rows=4).discard()
    assert not (tmp_path / "new").exists()


def test_a_full_disk_is_named(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="rows-0-of-1.arrow") as error:
        with BlockWriter([tmp_path / "new"], block_rows=4) as writer:
            Data(counts()).append(writer, 0, 1)
            size = (tmp_path / "new" / "rows-0-of-1.arrow").stat().st_size
            with largest_file(size + 10):
                Data(counts()).append(writer, 0, 8)
    assert error.value.errno == errno.EFBIG
    assert not (tmp_path / "new").exists()


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "nothing": ({}, "given as "),
    "half": ({"indptr": [0]}, r"given as \['indptr'\]"),
    "both": ({"indptr": [0], "indices": [], "values": [], "dense": [[1.0]]}, "given as"),
    "offsets": ({"indptr": [0, 2], "indices": [0], "values": [1.0]}, "row 2 spans the offsets"),
    "falling": ({"indptr": [0, 1, 0], "indices": [0], "values": [1.0]}, "row 3 spans"),
    "negative": ({"indptr": [0, 1], "indices": [-1], "values": [1.0]}, "row 2 has column index -1"),
    "too large": ({"indptr": [0, 1], "indices": [5], "values": [1.0]}, "there are 5 columns"),
    "order": ({"indptr": [0, 2], "indices": [1, 0], "values": [1.0, 1.0]}, "ascend"),
    "infinite": ({"indptr": [0, 1], "indices": [1], "values": [1e39]}, "row 2, column 1 is 1e"),
    "text": ({"indptr": [0, 1], "indices": [1], "values": ["a"]}, "values real numbers, not int"),
    "fractions": ({"indptr": [0, 1], "indices": [1.5], "values": [1.0]}, "indices must be int"),
    "shape": ({"indptr": [[0]], "indices": [], "values": []}, "one-dimensional"),
    "no offsets": ({"indptr": [], "indices": [], "values": []}, "one-dimensional"),
    "targets": (
        {"indptr": [0], "indices": [], "values": [], "targets": [1.0]},
        "1 targets for the 0 rows",
    ),
    "weights": ({"indptr": [0, 0], "indices": [], "values": [], "weights": [-1]}, "row 2 has the"),
    "more weights": (
        {"indptr": [0], "indices": [], "values": [], "weights": [1]},
        "1 weights for the 0 rows",
    ),
    "nan": ({"dense": [[1.0, np.nan]]}, "row 2, column 1 is nan"),
    "no table": ({"dense": [1.0]}, "must be a table"),
    "ids": ({"indptr": [0, 0], "indices": [], "values": [], "ids": ["a", "b"]}, "2 ids"),
    "targets come": ({"indptr": [0, 0], "indices": [], "values": [], "targets": [1]}, "the same"),
}


@pytest.mark.parametrize("what", WRONG)
def test_rows_that_no_block_can_hold(tmp_path: Path, what: str) -> None:
    rows, text = WRONG[what]
    with BlockWriter([tmp_path], block_rows=4, columns=5) as writer:
        writer.append([0, 1, 2], [0, 4], [1, 2])
        with pytest.raises(DataError, match=text):
            writer.append(**rows)
        writer.append([0, 1], [3], [3])  # the writer still works
        writer.finish()
    found = collect(BlockSource([tmp_path])).X
    assert found.tolist() == [[1, 0, 0, 0, 0], [0, 0, 0, 0, 2], [0, 0, 0, 3, 0]]


def test_settings_and_ends_that_make_no_dataset(tmp_path: Path) -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"columns": 2**31}, "columns=2147483648"),
        ({"column_block_rows": -1}, "column_block_rows=-1"),
        ({"codec": "zstd"}, "codec='zstd'"),
    ]
    with pytest.raises(DataError, match="block_rows=0"):
        BlockWriter([tmp_path], block_rows=0)
    for settings, text in wrong:
        with pytest.raises(DataError, match=text):
            BlockWriter([tmp_path], block_rows=4, **settings)
    for paths in ([], str(tmp_path), [tmp_path, tmp_path / ".." / tmp_path.name]):
        with pytest.raises(DataError, match="paths="):
            BlockWriter(paths, block_rows=4)
    with BlockWriter([tmp_path], block_rows=4) as writer:
        with pytest.raises(DataError, match="no rows"):
            writer.finish()
        writer.append([0, 1], [8], [1])
        with pytest.raises(DataError, match="3 names of columns are given, but the index 8 occurs"):
            writer.finish(names=["a", "b", "c"])
        with pytest.raises(
            DataError, match="3 names of columns are given, but 9 columns were given"
        ):
            writer.finish(columns=9, names=["a", "b", "c"])
        with pytest.raises(DataError, match="1 target_names, but there are 0 targets"):
            writer.finish(target_names=["a"])
        writer.finish(columns=20)
        with pytest.raises(DataError, match="finished"):
            writer.append([0, 1], [8], [1])
        with pytest.raises(DataError, match="finished"):
            writer.finish()
    assert BlockSource([tmp_path]).shape.columns == 20
    with (
        pytest.raises(DataError, match="both orientations are for sparse data"),
        BlockWriter([tmp_path / "x"], block_rows=4, both_orientations=True) as writer,
    ):
        writer.append(dense=[[1.0]])


def test_any_dtype_that_holds_numbers(tmp_path: Path) -> None:
    X = counts()
    for number, (indices, values) in enumerate(
        [(np.int64, np.float64), (np.uint8, np.int16), (np.int32, np.float16), (np.uint32, bool)]
    ):
        path = tmp_path / str(number)
        given = X.data.astype(values)
        with BlockWriter([path], block_rows=4, columns=11) as writer:
            writer.append(X.indptr.astype(np.uint32), X.indices.astype(indices), given)
            writer.finish()
        expected = sparse.csr_array((given.astype(np.float32), X.indices, X.indptr), X.shape)
        np.testing.assert_array_equal(collect(BlockSource([path])).X, expected.toarray())


@given(
    lengths=st.lists(st.integers(0, 9), min_size=1, max_size=40),
    block_rows=st.integers(1, 8),
    most=st.integers(9, 30),
    step=st.integers(1, 41),
)
def test_a_block_ends_where_more_non_zeros_do_not_fit(
    lengths: list[int], block_rows: int, most: int, step: int
) -> None:
    """Offsets of lists are int32: 2**31 - 1 non-zeros at most, here a few."""
    pending = Pending(Kind(), block_rows, most)
    blocks: list[list[int]] = []
    for first in range(0, len(lengths), step):
        part = lengths[first : first + step]
        indptr = np.cumsum([7, *part])
        arrays = {
            "indptr": indptr,
            "indices": np.zeros(indptr[-1], np.int32),
            "values": np.zeros(indptr[-1], np.float32),
        }
        rows, start = Rows(len(part), Kind(), 1, arrays), 0
        while start < len(part):
            start = pending.take(rows, start)
            if pending.full:
                blocks.append(np.diff(pending.arrays(0)["starts"]).tolist())
                assert blocks[-1] and pending.nnz == sum(blocks[-1])
                pending.clear()
    blocks.append(np.diff(pending.arrays(0)["starts"]).tolist())
    assert sum(blocks, []) == lengths
    for block, after in itertools.pairwise(blocks):
        assert len(block) <= block_rows and sum(block) <= most
        assert len(block) == block_rows or not after or sum(block) + after[0] > most


def test_a_row_that_no_block_can_hold() -> None:
    arrays = {"indptr": np.array([0, 2**31]), "indices": np.empty(0), "values": np.empty(0)}
    with pytest.raises(DataError, match="a row has 2,147,483,648 non-zeros, but .*2,147,483,647"):
        Pending(Kind(), 4).take(Rows(1, Kind(), 1, arrays), 0)


@pytest.mark.parametrize("names", [["a", "", "ä\n", "b" * 5000, "\0"], ["x"] * 70_000])
def test_any_text_is_a_name(tmp_path: Path, names: list[str]) -> None:
    with BlockWriter([tmp_path], block_rows=4) as writer:
        writer.append([0, 1], [1], [1.0], ids=names[:1])
        writer.finish(names=names)
    source = BlockSource([tmp_path])
    assert source.names == names and source.names[-2:] == names[-2:]
    assert source.names is not None and source.names != names[1:]


@pytest.mark.parametrize(
    "ids", [["a", 1], [1, "a"], [1, 2**64], ["\ud800", "a"], [1.5, 2.5], [[], []]]
)
def test_ids_that_are_not_all_text_or_integers(tmp_path: Path, ids: list[Any]) -> None:
    with BlockWriter([tmp_path], block_rows=4) as writer:
        with pytest.raises(DataError, match="ids of the rows from row 0 on are not all"):
            writer.append([0, 0, 0], [], [], ids=ids)
        writer.append([0, 0], [], [])
        with pytest.raises(DataError, match="names of columns are not all text"):
            writer.finish(names=["\ud800"])


@pytest.mark.slow
def test_exchanging_takes_no_more_memory_than_it_may(tmp_path: Path) -> None:
    import tracemalloc

    rng = np.random.default_rng(0)
    X = sparse.random_array((20_000, 3000), density=0.02, format="csr", rng=rng, dtype=np.float32)
    budget, blocks = 1 << 20, 2 * 8 * 0.02 * 3000 * 500  # one that is read, one that is written
    with BlockWriter([tmp_path], block_rows=500, budget_bytes=budget, both_orientations=True,
                     column_block_rows=75) as writer:  # fmt: skip
        Data(X).append(writer, 0, 20_000)
        tracemalloc.start()
        writer.finish(columns=3000)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 1.5 * budget + 2 * blocks
    assert 12 * X.nnz > 10 * budget
    across = BlockSource([tmp_path]).transposed()
    np.testing.assert_array_equal(collect(across).X, X.toarray().T)


def test_memory_follows_the_block_not_the_data(tmp_path: Path) -> None:
    import tracemalloc

    rng = np.random.default_rng(0)
    piece = sparse.random_array((1000, 300), density=0.1, format="csr", rng=rng, dtype=np.float32)
    peaks = []
    for pieces in (4, 24):
        with BlockWriter([tmp_path / str(pieces)], block_rows=700, codec="raw") as writer:
            tracemalloc.start()
            for _ in range(pieces):
                writer.append(piece.indptr, piece.indices, piece.data)
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
            writer.finish()
    assert peaks[1] < 1.1 * peaks[0] + 20_000


def test_write_blocks_leaves_nothing_behind_when_it_fails(tmp_path: Path) -> None:
    X = np.eye(6, dtype=np.float32)
    source = MatrixSource(X, block_rows=2)
    X[5, 5] = np.nan  # against the rules: while it is in use
    with pytest.raises(DataError, match="row 5, column 5 is nan"):
        write_source(source, [tmp_path / "new"])
    assert not (tmp_path / "new").exists()


def test_the_journal_knows_how_it_was_begun(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        convert_once(tmp_path)
    first, second = (tmp_path / "unfinished.jsonl").read_text().splitlines()
    assert json.loads(first)["settings"]["block_rows"] == 2
    assert sum(json.loads(second)["blocks"]["rows"]) == 8


def test_arrow_files_are_padded_as_readers_expect(tmp_path: Path) -> None:
    """A pyarrow that pads otherwise is noticed when writing, not when reading."""
    from blocklearn.datasources.blocks.part_writer import check_places

    check_places(100, [(100, 5), (108, 8), (116, 0), (116, 1)])
    with pytest.raises(RuntimeError, match="pyarrow put a buffer to byte 160"):
        check_places(100, [(100, 5), (160, 8)])


def test_a_full_disk_in_the_other_orientation_is_named(tmp_path: Path) -> None:
    """Its files of entries are larger than the blocks, so the disk is full there first."""
    X = sparse.csr_array(np.ones((400, 50), np.float32))
    with (
        pytest.raises(OSError, match=r"bucket-0\.spill") as caught,
        BlockWriter([tmp_path / "a"], block_rows=100, both_orientations=True) as writer,
    ):
        writer.append(X.indptr, X.indices, X.data)
        with largest_file(200_000):
            writer.finish()
    assert caught.value.errno == errno.EFBIG
    assert not (tmp_path / "a").exists()


def test_a_journal_cut_off_by_a_full_disk_is_continued(tmp_path: Path) -> None:
    """The system writes as much of a line as there is room for; that is no error by itself."""
    X = sparse.csr_array(np.ones((40, 3), np.float32))

    def writer() -> BlockWriter:
        return BlockWriter([tmp_path], block_rows=1, resume=True)

    with writer() as first:
        first.append(X.indptr[:21], X.indices, X.data)
        rows = first._rows
        assert rows is not None
        size = (tmp_path / unfinished.FILE).stat().st_size
        with largest_file(size + 10), pytest.raises(OSError, match=unfinished.FILE):
            rows.commit()
    with writer() as second:
        assert second.rows == 0
        second.append(X.indptr, X.indices, X.data)
        second.finish()
    assert BlockSource([tmp_path]).shape.total_rows == 40
