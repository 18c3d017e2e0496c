"""Small files in the formats that converters read, and all rows of such a file in one piece."""

import gzip
import struct
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash
from scipy import sparse

from blocklearn.datasources.formats import Known, Layout, Rows, Scratch, Sparse, open_rows


@dataclass
class Found:
    """All rows of a file. X: CSR float32, or a table."""

    X: Any
    targets: Any
    weights: Any
    ids: list[str] | None
    layout: Layout
    dropped: int

    @property
    def dense(self) -> npt.NDArray[np.float32]:
        table: npt.NDArray[np.float32] = self.X.toarray() if sparse.issparse(self.X) else self.X
        return table

    @property
    def numbers(self) -> npt.NDArray[np.float32]:
        """All that is stored of X."""
        stored: npt.NDArray[np.float32] = self.X.data if sparse.issparse(self.X) else self.X
        return stored

    def agrees(self, other: "Found") -> bool:
        """Whether the rows are the same."""
        pairs = [(self.numbers, other.numbers), (self.targets, other.targets),
                 (self.weights, other.weights), (self.ids, other.ids)]  # fmt: skip
        if sparse.issparse(self.X):
            pairs += [(self.X.indices, other.X.indices), (self.X.indptr, other.X.indptr)]
        return all(np.array_equal(a, b) for a, b in pairs)  # type: ignore[arg-type]


def read(
    *paths: Path | str,
    format: str | None = None,
    known: Known | None = None,
    memory: int = 1 << 28,
    **options: Any,
) -> Found:
    """Read everything; and again from every place where a chunk began, to compare."""
    with tempfile.TemporaryDirectory() as folder:
        scratch = Scratch(Path(folder), memory)
        names = [str(path) for path in paths]
        file = open_rows(names, scratch, format=format, known=known, options=options)
        chunks = []
        for rows in file.chunks():
            check(rows, file.layout)
            chunks.append(join([rows], file.layout))
            chunks[-1].place = rows.next  # type: ignore[attr-defined]
        for i in sorted({0, len(chunks) // 2, len(chunks) - 1}):
            place = chunks[i].place  # type: ignore[attr-defined]
            if place is None:
                continue
            rest = [join([rows], file.layout) for rows in file.chunks(place)]
            again, once = merge(rest, file.layout), merge(chunks[i + 1 :], file.layout)
            assert again.agrees(once)
        return merge(chunks, file.layout)


def check(rows: Rows, layout: Layout) -> None:
    """A chunk is what it promises to be."""
    if isinstance(rows.X, Sparse):
        indptr, indices, values = rows.X
        assert not layout.dense and indptr.dtype == np.int64 and indptr[0] == 0
        assert indices.dtype == np.int32 and values.dtype == np.float32
        assert indices.size == values.size == indptr[-1]
    else:
        assert layout.dense and rows.X.dtype == np.float32
        assert rows.X.shape[1] == layout.columns
    assert (rows.targets is None) == (layout.targets == 0)
    assert (rows.weights is None) == (not layout.weighted)
    assert (rows.ids is None) == (not layout.named)
    for part in (rows.targets, rows.weights):
        assert part is None or (part.dtype == np.float32 and len(part) == len(rows))
    assert rows.ids is None or len(rows.ids) == len(rows)


def join(rows: Sequence[Rows], layout: Layout) -> Found:
    """Copies of a chunk's rows."""
    (one,) = rows
    X: Any = np.array(one.X) if not isinstance(one.X, Sparse) else csr(one.X, layout.columns)
    return Found(
        X,
        None if one.targets is None else one.targets.copy(),
        None if one.weights is None else one.weights.copy(),
        None if one.ids is None else list(one.ids),
        layout,
        sum(one.remarks.values()),
    )


def csr(X: Sparse, columns: int) -> Any:
    matrix = sparse.csr_array(
        (X.values.copy(), X.indices.copy(), X.indptr.copy()), shape=(X.indptr.size - 1, columns)
    )
    assert matrix.has_canonical_format
    return matrix


def merge(parts: Sequence[Found], layout: Layout) -> Found:
    """One after the other."""
    empty = np.empty((0, layout.columns), np.float32)
    X: Any = empty if layout.dense else sparse.csr_array(empty)
    if parts:
        X = (
            np.concatenate([part.X for part in parts])
            if layout.dense
            else sparse.vstack([part.X for part in parts], "csr")
        )
    targets = np.concatenate([np.empty((0, layout.targets)), *(p.targets for p in parts)]) if (
        layout.targets
    ) else None  # fmt: skip
    weights = (
        np.concatenate([np.empty(0), *(p.weights for p in parts)]) if layout.weighted else None
    )
    ids = [name for part in parts for name in part.ids or []] if layout.named else None
    return Found(X, targets, weights, ids, layout, sum(part.dropped for part in parts))


def lz4_blocks(data: bytes, size: int = 1 << 16) -> bytes:
    """The LZ4Block framing: as LZ4BlockOutputStream writes it."""
    codec, out = pa.Codec("lz4_raw"), []
    level = size.bit_length() - 1 - 10
    for start in range(0, len(data), size):
        piece = data[start : start + size]
        packed = codec.compress(piece, asbytes=True)
        token = 0x20 | level
        if len(packed) >= len(piece):
            packed, token = piece, 0x10 | level
        check = xxhash.xxh32_intdigest(piece, 0x9747B28C) & 0x0FFFFFFF
        out.append(struct.pack("<8sBiii", b"LZ4Block", token, len(packed), len(piece), check))
        out.append(packed)
    out.append(struct.pack("<8sBiii", b"LZ4Block", 0x10 | level, 0, 0, 0))
    return b"".join(out)


def packed(data: bytes, name: str) -> bytes:
    """Packed as the end of the name says."""
    if name.endswith(".lz4"):
        return lz4_blocks(data)
    return gzip.compress(data) if name.endswith(".gz") else data


BIDMAT_DENSE = {".bmat": (100, "<i1"), ".imat": (110, "<i4"), ".lmat": (120, "<i8"),
                ".fmat": (130, "<f4"), ".dmat": (140, "<f8")}  # fmt: skip
BIDMAT_SPARSE = {".sbmat": (201, "<i1"), ".smat": (231, "<f4"), ".sdmat": (241, "<f8")}


def bidmat(X: Any, kind: str) -> bytes:
    """The rows of X as the columns of a BIDMat matrix."""
    rows, columns = X.shape
    if kind in BIDMAT_DENSE:
        word, dtype = BIDMAT_DENSE[kind]
        return struct.pack("<4i", word, columns, rows, 0) + np.asarray(X).astype(dtype).tobytes()
    word, dtype = BIDMAT_SPARSE[kind]
    X = sparse.csr_array(X)
    head = struct.pack("<4i", word, columns, rows, X.nnz)
    offsets, places = X.indptr.astype("<i4").tobytes(), X.indices.astype("<i4").tobytes()
    return head + offsets + places + X.data.astype(dtype).tobytes()


def example(rows: int = 50, columns: int = 20, seed: int = 0) -> Any:
    """A sparse matrix of small whole numbers, with empty rows, and no number in its last column."""
    rng = np.random.default_rng(seed)
    X = rng.integers(-3, 9, (rows, columns)) * (rng.random((rows, columns)) < 0.2)
    X[3], X[-1], X[:, -1] = 0, 0, 0
    X[0, 0] = 5
    return sparse.csr_array(X.astype(np.float32))
