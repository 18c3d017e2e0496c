"""Block datasets that are damaged, incomplete or not ours: an error that says what and where."""

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import xxhash
from scipy import sparse

from blocklearn.datasources import BlockSource, DataError, HostBlock, Reader, row_names
from blocklearn.datasources.blocks import manifest as manifests
from blocklearn.datasources.blocks.read_bytes import decode_lz4
from tests.support.block_datasets import Data, arrays, counts, folders, labelled, write

CODECS = ("raw", "lz4")


def read_all(paths: list[Path], passes: int = 1, **settings: Any) -> None:
    source = BlockSource(paths, **settings)
    block = HostBlock(source.shape)
    for pass_ in range(passes):
        for index in range(source.blocks):
            source.read(pass_, index, block)


def edit_manifest(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """A manifest with a right digest and wrong contents: what only a mistake of ours could make."""
    path = folder / "manifest.json"
    content = json.loads(path.read_text())
    del content["digest"]
    change(content)
    body = ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in content.items()) + "\n}\n"
    digest = xxhash.xxh3_128_hexdigest(body.encode())
    path.write_text(f'{{"digest": "{digest}",\n' + body)


def flip(path: Path, at: int, bit: int = 0) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 1 << bit]))


@pytest.mark.parametrize("codec", CODECS)
def test_every_bit_of_a_batch_counts(tmp_path: Path, codec: Any) -> None:
    """The first bit of every third byte of every batch."""
    write(labelled(9), [tmp_path], codec=codec)
    path = tmp_path / "rows-0-of-1.arrow"
    blocks = manifests.read_manifest(tmp_path).rows.blocks
    source = BlockSource([tmp_path])
    block = HostBlock(source.shape)
    for number, (start, size) in enumerate(zip(blocks.offset, blocks.bytes, strict=True)):
        for at in range(start, start + size, 3):
            flip(path, at)
            with pytest.raises(DataError, match=f"rows-0-of-1.arrow, block {number}: damaged"):
                source.read(0, number, block)
            flip(path, at)
        source.read(0, number, block)


@pytest.mark.parametrize("codec", CODECS)
def test_cut_off_anywhere(tmp_path: Path, codec: Any) -> None:
    """Before it is opened, the size tells; while it is open, the missing bytes."""
    write(labelled(9), [tmp_path], codec=codec)
    path = tmp_path / "rows-0-of-1.arrow"
    whole = path.read_bytes()
    blocks = manifests.read_manifest(tmp_path).rows.blocks
    ends = [a + b for a, b in zip(blocks.offset, blocks.bytes, strict=True)]
    for size in {0, 7, 8, blocks.offset[0], *range(blocks.offset[0], len(whole), 97)}:
        path.write_bytes(whole)
        source = BlockSource([tmp_path])
        block = HostBlock(source.shape)
        os.truncate(path, size)
        for number in range(source.blocks):
            if size < ends[number]:
                with pytest.raises(DataError, match=f"block {number}: cut off"):
                    source.read(0, number, block)
            else:
                source.read(0, number, block)
        with pytest.raises(DataError, match=f"{size:,} bytes, but {len(whole):,} were written"):
            BlockSource([tmp_path])


@pytest.mark.parametrize("codec", CODECS)
def test_written_to_during_the_run(tmp_path: Path, codec: Any) -> None:
    """Blocks that were good in the first pass are looked at again when their file has changed."""
    write(Data(counts()), [tmp_path], codec=codec)
    path = tmp_path / "rows-0-of-1.arrow"
    source = BlockSource([tmp_path])
    block = HostBlock(source.shape)
    with Reader(source) as reader:
        assert len([block.index for block in reader.blocks(0)]) == 6
        flip(path, manifests.read_manifest(tmp_path).rows.blocks.offset[2] + 345)
        seen = []
        with pytest.raises(DataError, match=r"block 2 of pass 1 .* block 2: damaged") as error:
            seen += [block.index for block in reader.blocks(1)]
    assert "Restore the file" in str(error.value)
    source.read(1, 0, block)


def test_replaced_during_the_run(tmp_path: Path) -> None:
    """Another file under the same name is not ours: the one that was opened is read on."""
    write(Data(counts()), [tmp_path])
    path = tmp_path / "rows-0-of-1.arrow"
    source = BlockSource([tmp_path])
    block = HostBlock(source.shape)
    source.read(0, 1, block)
    before = arrays(block)
    (tmp_path / "new").write_bytes(b"something else")
    os.replace(tmp_path / "new", path)
    source.read(0, 1, block)
    assert arrays(block) == before
    with pytest.raises(
        DataError, match="14 bytes, but .* were written; it was cut off or replaced"
    ):
        BlockSource([tmp_path])


def test_rewritten_during_the_run(tmp_path: Path) -> None:
    """Converting again into the same folder takes nothing away from a run that reads it."""
    write(Data(counts()), [tmp_path])
    source = BlockSource([tmp_path])
    block = HostBlock(source.shape)
    write(Data(counts(seed=8)), [tmp_path], overwrite=True)
    source.read(0, 5, block)
    assert block.rows == 3


def test_a_stripe_is_missing(tmp_path: Path) -> None:
    paths = folders(tmp_path, 3)
    write(Data(counts()), paths)
    with pytest.raises(DataError, match=r"3 stripes, but rows-1-of-3.arrow is in none of these"):
        BlockSource([paths[0], paths[2]])
    (paths[1] / "rows-1-of-3.arrow").unlink()
    with pytest.raises(DataError, match="name all folders"):
        BlockSource(paths)
    (paths[1] / "manifest.json").unlink()
    with pytest.raises(FileNotFoundError, match=re.escape(str(paths[1]))):
        BlockSource(paths)
    with pytest.raises(FileNotFoundError):
        BlockSource([tmp_path / "nothing"])


def test_folders_of_two_datasets(tmp_path: Path) -> None:
    one, other = folders(tmp_path / "a", 2), folders(tmp_path / "b", 2)
    write(Data(counts()), one, origin="monday.csv")
    write(Data(counts(seed=1)), other, origin="tuesday.csv")
    with pytest.raises(DataError, match=r"tuesday.csv.*monday.csv.*folders of one dataset"):
        BlockSource([one[0], other[1]])


def test_the_other_orientation_is_missing(tmp_path: Path) -> None:
    write(Data(counts()), [tmp_path], both_orientations=True)
    (tmp_path / "columns-0-of-1.arrow").unlink()
    with pytest.raises(FileNotFoundError, match="columns-0-of-1.arrow"):
        BlockSource([tmp_path]).transposed()


def test_permission_denied() -> None:
    user = os.geteuid()
    for name in ("manifest.json", "rows-0-of-1.arrow"):
        with TemporaryDirectory() as name_of_folder:
            folder = Path(name_of_folder)
            folder.chmod(0o755)
            write(Data(counts()), [folder])
            (folder / name).chmod(0)
            try:
                if user == 0:  # who may read everything
                    os.seteuid(65534)
                with pytest.raises(PermissionError, match=name):
                    BlockSource([folder])
            finally:
                os.seteuid(user)


def test_damaged_names(tmp_path: Path) -> None:
    data = labelled()
    write(data, [tmp_path])
    path = tmp_path / "rows-names.arrow"
    names = row_names(BlockSource([tmp_path]))
    assert names is not None
    flip(path, manifests.read_manifest(tmp_path).names["rows"].batches[0].offset + 200)  # type: ignore[union-attr]
    with pytest.raises(DataError, match="rows-names.arrow: batch 0 is damaged or cut off"):
        names[0]
    path.write_bytes(b"")
    with pytest.raises(DataError, match="0 of .* bytes"):
        list(names)


@pytest.mark.parametrize(
    "text", ["", "{", "[1]", "null", '{"format": "blocklearn blocks"}', "\xff"]
)
def test_not_a_manifest(tmp_path: Path, text: str) -> None:
    write(Data(counts()), [tmp_path])
    (tmp_path / "manifest.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(DataError, match=r"manifest.json: (damaged|not the|format None)"):
        BlockSource([tmp_path])


def test_every_byte_of_the_manifest_counts(tmp_path: Path) -> None:
    write(Data(counts(9)), [tmp_path])
    path = tmp_path / "manifest.json"
    whole = path.read_bytes()
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(DataError, match=r"manifest.json: "):
            BlockSource([tmp_path])
        path.write_bytes(whole[:at])
        with pytest.raises(DataError, match=r"manifest.json: "):
            BlockSource([tmp_path])


def test_of_another_version(tmp_path: Path) -> None:
    write(Data(counts()), [tmp_path])
    edit_manifest(tmp_path, lambda content: content.update(version=2))
    with pytest.raises(DataError, match="format 2, but this blocklearn reads format 1; convert"):
        BlockSource([tmp_path])


def part(name: str, *path: Any, to: Any) -> Callable[[dict[str, Any]], None]:
    """Set one number of the manifest."""

    def change(content: dict[str, Any]) -> None:
        place = content[name]
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = to

    return change


CONTRADICTIONS = {
    "rows": part("rows", "rows", to=24),
    "no rows": part("rows", "rows", to=0),
    "block of no rows": part("rows", "blocks", "rows", 0, to=0),
    "negative rows": part("rows", "blocks", "rows", 0, to=-4),
    "block rows": part("rows", "block_rows", to=3),
    "offsets beyond 2**62": part("rows", "blocks", "offset", 0, to=2**62),
    "batches that overlap": part("rows", "blocks", "offset", 1, to=8),
    "a length": part("rows", "blocks", "stored", 0, 2, to=4000),
    "a part too few": part("rows", "blocks", "stored", 0, to=[32]),
    "lists of two lengths": part("rows", "blocks", "nnz", to=[1]),
    "a digest": part("rows", "blocks", "xxh3", 0, to="xyz"),
    "columns": part("rows", "columns", to=2**31),
    "fields": part("rows", "fields", "values", to="double"),
    "another kind": part("rows", "targets", to=1),
    "files": part("rows", "files", to=[]),
    "text for a number": part("rows", "rows", to="23"),
    "a number for a float": part("rows", "sums", "values", to=None),
    "non-zeros": part("rows", "blocks", "nnz", 0, to=3),
    "many non-zeros": part("rows", "blocks", "nnz", 0, to=2**61),
    "behind the end": part("rows", "blocks", "offset", 5, to=2**40),
    "file size": part("rows", "files", 0, to=100),
    "codec": lambda content: content.update(codec="zstd"),
    "stripes": lambda content: content.update(stripes=2),
    "unknown": lambda content: content.update(more=1),
    "names": lambda content: content["names"].update(columns={"hash_bits": 3}),
}  # fmt: skip


@pytest.mark.parametrize("what", CONTRADICTIONS)
def test_numbers_that_contradict_each_other(tmp_path: Path, what: str) -> None:
    write(Data(counts()), [tmp_path], codec="raw")
    edit_manifest(tmp_path, CONTRADICTIONS[what])
    with pytest.raises(DataError, match=r"manifest.json: .*copy the file from another folder"):
        BlockSource([tmp_path])


def forge(folder: Path, number: int, **numbers: Any) -> None:
    """Replace numbers of a stored block of raw data, with right digests."""
    manifest = manifests.read_manifest(folder)
    blocks, kind = manifest.rows.blocks, manifest.rows.kind
    path = folder / "rows-0-of-1.arrow"
    data = bytearray(path.read_bytes())
    at = blocks.offset[number] + blocks.head[number]
    sizes = kind.parts(blocks.rows[number], blocks.nnz[number])
    for (name, (_, dtype)), length in zip(sizes.items(), blocks.stored[number], strict=True):
        if name in numbers:
            place, value = numbers[name]
            start = at + place * np.dtype(dtype).itemsize
            new = np.array([value], dtype).tobytes()
            data[start : start + len(new)] = new
        at += -(-length // 8) * 8
    path.write_bytes(data)
    batch = data[blocks.offset[number] :][: blocks.bytes[number]]
    digest = xxhash.xxh3_64_hexdigest(bytes(batch))
    edit_manifest(folder, part("rows", "blocks", "xxh3", number, to=digest))


FORGED: dict[str, tuple[dict[str, Any], str]] = {
    "negative index": ({"indices": (0, -1)}, "row 4 has column index -1"),
    "index too large": ({"indices": (0, 11)}, "row 4 has column index 11, but there are 11 col"),
    "index twice": ({"indices": (1, 0), "values": (0, 1)}, "row 4 has column index 0 twice or"),
    "not a number": ({"values": (2, np.nan)}, "is nan, but every value must be"),
    "infinite": ({"values": (0, -np.inf)}, "is -inf, but every value must be"),
    "target": ({"targets": (5, np.inf)}, "targets: row 6, column 1 is inf"),
    "weight": ({"weights": (1, -1)}, "row 5 has the weight -1.0"),
    "weight not a number": ({"weights": (3, np.nan)}, "row 7 has the weight nan"),
    "row": ({"row": (2, 7)}, "its rows are not those from 4 on"),
    "offsets fall": ({"starts": (2, 0), "value_starts": (2, 0)}, "row 5: its offsets end at 0"),
    "offsets differ": ({"starts": (2, 5), "value_starts": (2, 6)}, "row 5: its offsets end at"),
    "first offset": ({"starts": (0, 1), "value_starts": (0, 1)}, "row 4: its offsets"),
    "last offset": ({"starts": (4, 2**31 - 1), "value_starts": (4, 2**31 - 1)}, "row 7: its off"),
    "negative": ({"starts": (1, -(2**31)), "value_starts": (1, -(2**31))}, "row 4: its offsets"),
}


@pytest.mark.parametrize("what", FORGED)
@pytest.mark.parametrize("verify", [True, False])
def test_wrong_numbers_with_right_digests(tmp_path: Path, what: str, verify: bool) -> None:
    numbers, text = FORGED[what]
    data = labelled()
    data.X = sparse.csr_array(np.ones((23, 11), np.float32))
    write(data, [tmp_path], codec="raw")
    forge(tmp_path, 1, **numbers)
    with pytest.raises(DataError, match=f"rows-0-of-1.arrow, block 1: .*{re.escape(text)}"):
        read_all([tmp_path], verify=verify)


def test_without_digests_numbers_are_checked_in_every_pass(tmp_path: Path) -> None:
    data = labelled()
    data.X = sparse.csr_array(np.ones((23, 11), np.float32))
    write(data, [tmp_path], codec="raw")
    source = BlockSource([tmp_path], verify=False)
    block = HostBlock(source.shape)
    source.read(0, 1, block)
    forge(tmp_path, 1, indices=(0, -1))
    with pytest.raises(DataError, match="row 4 has column index -1"):
        source.read(1, 1, block)


@pytest.mark.parametrize("length", [0, 7, 8, 9, 40])
def test_lz4_that_is_cut_off(length: int) -> None:
    frame = pa.Codec("lz4").compress(bytes(1000))
    stored = memoryview((1000).to_bytes(8, "little") + frame.to_pybytes())
    into = memoryview(bytearray(1000))
    decode_lz4(stored, into)
    with pytest.raises((ValueError, OSError)):
        decode_lz4(stored[: min(length, len(stored) - 1)], into)


def test_lz4_of_another_length() -> None:
    frame = pa.Codec("lz4").compress(bytes(1000)).to_pybytes()
    for claimed, size in [(999, 999), (1001, 1001), (1000, 999), (-1, 1000), (-2, 1000)]:
        with pytest.raises(ValueError, match="bytes"):
            decode_lz4(
                memoryview(claimed.to_bytes(8, "little", signed=True) + frame),
                memoryview(bytearray(size)),
            )
    into = memoryview(bytearray(3))
    decode_lz4(memoryview((-1).to_bytes(8, "little", signed=True) + b"abc"), into)
    assert bytes(into) == b"abc"


def test_offsets_beyond_2_to_the_31(tmp_path: Path) -> None:
    """A block that lies behind four gigabytes of nothing."""
    write(Data(counts()), [tmp_path], codec="raw")
    far = 2**32 + 2**31
    path = tmp_path / "rows-0-of-1.arrow"
    with path.open("r+b") as file:
        blocks = manifests.read_manifest(tmp_path).rows.blocks
        file.seek(blocks.offset[5])
        batch = file.read(blocks.bytes[5])
        file.seek(far)
        file.write(batch)
    edit_manifest(tmp_path, part("rows", "blocks", "offset", 5, to=far))
    edit_manifest(tmp_path, part("rows", "files", 0, to=path.stat().st_size))
    source = BlockSource([tmp_path])
    block = HostBlock(source.shape)
    source.read(0, 5, block)
    assert block.row_ids.tolist() == [20, 21, 22, -1]
    path.unlink()


def test_a_pipe_in_place_of_a_file(tmp_path: Path) -> None:
    write(Data(counts()), [tmp_path])
    (tmp_path / "rows-0-of-1.arrow").unlink()
    os.mkfifo(tmp_path / "rows-0-of-1.arrow")
    with pytest.raises(DataError, match="0 bytes, but"):
        BlockSource([tmp_path])


def test_a_folder_that_was_copied_without_its_files(tmp_path: Path) -> None:
    write(Data(counts()), [tmp_path / "a"])
    (tmp_path / "b").mkdir()
    shutil.copy(tmp_path / "a" / "manifest.json", tmp_path / "b")
    with pytest.raises(DataError, match="rows-0-of-1.arrow is in none"):
        BlockSource([tmp_path / "b"])
