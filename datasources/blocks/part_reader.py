"""Reads the blocks of one orientation into host blocks, in place."""

import weakref
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import xxhash

from ..arrays.block_shape import BlockShape
from ..arrays.compiled import kernel
from ..block import HostBlock
from ..errors import DataError
from ..remote import Place, RemoteError, StoredPath
from ..source import RowLabels
from .arrow_file import Codec, padded
from .layout import Arrays
from .manifest import Part
from .read_bytes import LocalFile, Stamp, byte_view, decode_lz4
from .stored_file import StoredFile

Verify = bool | Literal["always"]
DAMAGED = "Restore the file, or convert the data again."


class PartReader:
    """Reads blocks from the files `paths`, one per stripe. Threads may share it.

    verify: when to compare the digest of a block.

    - True: when the block is read for the first time, and when its file was written to since.
    - "always": whenever the block is read.
    - False: never. The numbers of the block are then checked at each read.

    A block with the right digest is checked number by number only the first time.

    The files stay open, so a file that is replaced under its name is still read as it was. Files
    are not mapped into memory, because a file that is cut off would then end the process. Blocks
    of a store are verified at each read unless `verify` is False. Raises `DataError` if a file does
    not match the manifest, else `OSError`.
    """

    def __init__(
        self, paths: Sequence[Place], part: Part, codec: Codec, verify: Verify, block_rows: int
    ) -> None:
        """Open the files; block_rows: rows of a host block, at least as stored."""
        self.kind, self.codec, self._verify = part.kind, codec, verify
        blocks = part.blocks
        self.rows, self.nnz = np.array(blocks.rows), np.array(blocks.nnz)
        self.starts = np.cumsum(self.rows) - self.rows  # number of the first row of each block
        self._offsets, self._heads = np.array(blocks.offset), np.array(blocks.head)
        self._bytes, self._stored = np.array(blocks.bytes), np.array(blocks.stored)
        self._digests = np.array([int(digest, 16) for digest in blocks.xxh3], np.uint64)
        # Per block: None, or the stamp of its file when its digest was right.
        self._verified: list[Stamp | tuple[()] | None] = [None] * len(self.rows)
        self.shape = BlockShape(
            rows=block_rows,
            columns=part.columns,
            nnz=0 if part.dense else max(1, int(self.nnz.max())),
            total_rows=part.rows,
            dense=part.dense,
            targets=part.targets,
            weighted=part.weighted,
        )
        self._scratch: deque[Scratch] = deque()
        self.paths, self._files = list(paths), list[LocalFile | StoredFile]()
        self.close = weakref.finalize(self, close_files, self._files)
        for path, size in zip(paths, part.files, strict=True):
            if isinstance(path, StoredPath):
                self._files.append(StoredFile(path, size))
            else:
                self._files.append(LocalFile(path, size))

    def read(self, number: int, into: HostBlock, *, pass_: int, index: int) -> None:
        """Fill `into` with block `number` and finish it as block `index` of pass `pass_`."""
        if not self._files:
            raise DataError("BlockSource: it is closed; open it again.")
        file, known = self._files[number % len(self._files)], self._verified[number]
        scratch = self._scratch.pop() if self._scratch else self._make_scratch()
        into.write()
        try:
            with self._naming(number):
                stamp = file.stamp()
                trusted = self._verify is True and stamp is not None and known == stamp
                self._fill(number, file, into, scratch, bool(self._verify) and not trusted)
                if trusted and file.stamp() != stamp:  # written to meanwhile
                    self._fill(number, file, into, scratch, verify=True)
                rows, checked = int(self.rows[number]), bool(self._verify) and known is not None
                into.finish(pass_=pass_, index=index, rows=rows, checked=checked)
        finally:
            self._scratch.append(scratch)
        self._verified[number] = stamp or ()

    def labels(self, number: int) -> RowLabels:
        """Return the labels of block `number`: only they are read, and no digest is compared."""
        if not self._files:
            raise DataError("BlockSource: it is closed; open it again.")
        rows, first = int(self.rows[number]), int(self.starts[number])
        found: Arrays = {"targets": np.empty((rows, 0), np.float32)}
        at = int(self._offsets[number] + self._heads[number])
        parts = self.kind.parts(rows, int(self.nnz[number])).items()
        for (name, (size, dtype)), length in zip(parts, self._stored[number].tolist(), strict=True):
            if name in ("targets", "weights"):
                found[name] = np.empty(size, dtype)
                with self._naming(number):
                    self._read_part(number % len(self._files), at, length, found[name])
            at += padded(length)
        ids = np.arange(first, first + rows)
        return RowLabels(ids, found["targets"], found.get("weights", np.ones(rows, np.float32)))

    def _read_part(self, stripe: int, at: int, length: int, into: npt.NDArray[Any]) -> None:
        """Fill `into` with a part of a batch: `length` stored bytes from `at` on."""
        raw, target = self.codec == "raw", byte_view(into)
        stored = target if raw else byte_view(np.empty(length, np.uint8))
        if len(stored) != length or not self._files[stripe].read(at, [stored], None):
            raise DataError(f"cut off: the file ends before the batch does. {DAMAGED}")
        if not raw:
            decode_part(stored, target)

    @contextmanager
    def _naming(self, number: int) -> Iterator[None]:
        """Name the file in errors, and the block in those of its contents."""
        path = self.paths[number % len(self._files)]
        try:
            yield
        except DataError as error:
            raise DataError(f"{path}, block {number}: {error}") from error
        except RemoteError:
            raise
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(path)) from error

    def _fill(
        self,
        number: int,
        file: LocalFile | StoredFile,
        into: HostBlock,
        scratch: "Scratch",
        verify: bool,
    ) -> None:
        rows, nnz = int(self.rows[number]), int(self.nnz[number])
        targets = self._targets(rows, nnz, into, scratch)
        if self.codec == "raw":
            pieces = self._pieces(number, targets, scratch)
        else:
            pieces = [scratch.message[: int(self._bytes[number])]]
        digest = xxhash.xxh3_64() if verify else None
        if not file.read(int(self._offsets[number]), pieces, digest):
            raise DataError(f"cut off: the file ends before the batch does. {DAMAGED}")
        if digest is not None and digest.intdigest() != int(self._digests[number]):
            raise DataError(
                f"damaged: its digest is {digest.hexdigest()}, but {self._digests[number]:016x} "
                f"was written. {DAMAGED}"
            )
        if self.codec != "raw":
            self._decode(number, targets, scratch)
        first = int(self.starts[number])
        if not is_counting(into.row_ids[:rows], first):
            raise DataError(f"its rows are not those from {first} on. {DAMAGED}")
        if not self.shape.dense:
            bad = widen(scratch.starts, scratch.value_starts, rows, nnz, into.indptr)
            if bad >= 0:
                raise DataError(
                    f"row {first + bad}: its offsets end at {scratch.starts[bad + 1]} and "
                    f"{scratch.value_starts[bad + 1]}, but both lists must be the same, start at "
                    f"0, never fall and end at {nnz}. {DAMAGED}"
                )

    def _targets(
        self, rows: int, nnz: int, into: HostBlock, scratch: "Scratch"
    ) -> list[memoryview]:
        """Return the memory that each part of a block is read into."""
        arrays: Arrays = {
            "row": into.row_ids,
            "starts": scratch.starts,
            "indices": into.indices,
            "value_starts": scratch.value_starts,
            "values": into.values,
            "dense": into.dense,
            "targets": into.targets,
            "weights": into.weights,
        }
        parts = self.kind.parts(rows, nnz)
        return [byte_view(arrays[name][: size[0]]) for name, (size, _) in parts.items()]

    def _pieces(
        self, number: int, targets: Sequence[memoryview], scratch: "Scratch"
    ) -> list[memoryview]:
        """Return the memory for all bytes of an uncompressed batch, in order.

        These are its description, then each part and its padding.
        """
        used = int(self._heads[number])
        pieces = [scratch.message[:used]]
        for target, length in zip(targets, self._stored[number], strict=True):
            if len(target) != length:
                raise DataError(f"a part has {length} bytes, but {len(target)} are needed.")
            pad = padded(len(target)) - len(target)
            pieces += [target, scratch.message[used : used + pad]]
            used += pad
        return pieces

    def _decode(self, number: int, targets: Sequence[memoryview], scratch: "Scratch") -> None:
        at = int(self._heads[number])
        for target, length in zip(targets, self._stored[number].tolist(), strict=True):
            if length or target:
                decode_part(scratch.message[at : at + length], target)
            at += padded(length)

    @property
    def scratch_bytes(self) -> int:
        """The bytes that each thread needs besides the host block."""
        rows = 0 if self.shape.dense else self.shape.rows + 1
        return 2 * 4 * rows + self._message_bytes

    @property
    def _message_bytes(self) -> int:
        heads = int(self._heads.max()) + 8 * self._stored.shape[1]
        return heads if self.codec == "raw" else int(self._bytes.max())

    def _make_scratch(self) -> "Scratch":
        return Scratch(self.shape, self._message_bytes)


class Scratch:
    """The memory that one thread needs to read a block; message: its bytes."""

    def __init__(self, shape: BlockShape, size: int) -> None:
        """Allocate it."""
        rows = 0 if shape.dense else shape.rows + 1
        self.starts, self.value_starts = np.empty((2, rows), np.int32)
        self.message = byte_view(np.empty(size, np.uint8))


def close_files(files: list[LocalFile | StoredFile]) -> None:
    """Close all files and empty the list."""
    while files:
        files.pop().close()


def decode_part(stored: memoryview, into: memoryview) -> None:
    """Decode a part of a compressed batch. Raises `DataError` unless it fills `into` exactly."""
    try:
        decode_lz4(stored, into)
    except (OSError, ValueError) as error:
        raise DataError(f"cannot be decompressed: {error}. {DAMAGED}") from error


@kernel
def is_counting(ids: npt.NDArray[np.int64], first: int) -> bool:
    """Whether `ids` are first, first + 1, ..."""
    wrong = 0
    for i in range(ids.size):
        wrong += ids[i] != first + i
    return wrong == 0


@kernel
def widen(
    starts: npt.NDArray[np.int32],
    value_starts: npt.NDArray[np.int32],
    rows: int,
    nnz: int,
    indptr: npt.NDArray[Any],
) -> int:
    """Copy `rows` + 1 offsets to `indptr`; return -1, or the first wrong row."""
    for row in range(rows + 1):
        here = starts[row]
        least = starts[row - 1] if row else 0
        if here != value_starts[row] or here < least or (row == 0 and here) or here > nnz:
            return max(0, row - 1)
        indptr[row] = here
    return -1 if starts[rows] == nnz else rows - 1
