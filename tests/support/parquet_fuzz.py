"""Reads damaged Parquet files: `python -m tests.support.parquet_fuzz FOLDER SEED COUNT yes|no`.

The last word says whether their pages have checksums. Ends with 1 where something else than a
DataError is raised, where a file takes longer than 20 seconds, or where checksums let a wrong
number through; a crash of the interpreter ends it with another number.
"""

import resource
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from blocklearn.datasources import DataError, Dense, ParquetSource, Sparse
from tests.support.parquet_files import as_bytes, csr_columns, random_csr, whole_pass

EACH = 10  # ways to damage a file that is made, and read undamaged, once
CODECS = ["none", "snappy", "zstd", "lz4", "gzip", "brotli"]


def make(rng: np.random.Generator, checksums: bool) -> bytes:
    """A file with columns of every kind."""
    rows = int(rng.integers(1, 400))
    columns = {
        **csr_columns(random_csr(rows, 50, int(rng.integers(2**31)))),
        "y": rng.random(rows),
        "c": rng.integers(0, 9, rows),
        "e": pa.FixedSizeListArray.from_arrays(pa.array(rng.random(3 * rows)), 3),
        "id": [f"r{i}" for i in range(rows)],
    }
    return as_bytes(
        columns,
        int(rng.integers(20, 400)),
        compression=CODECS[int(rng.integers(len(CODECS)))],
        use_dictionary=bool(rng.integers(2)),
        data_page_version=["1.0", "2.0"][int(rng.integers(2))],
        write_page_checksum=checksums,
    )


def damage(rng: np.random.Generator, good: bytes) -> bytes:
    """Cut off, bits flipped, bytes of the footer changed, or a stretch overwritten."""
    data, kind = bytearray(good), int(rng.integers(4))
    if kind == 0:
        return bytes(data[: int(rng.integers(len(data)))])
    if kind == 1:
        for place in rng.integers(0, len(data), int(rng.integers(1, 4))):
            data[place] ^= 1 << int(rng.integers(8))
    elif kind == 2:
        footer = int.from_bytes(data[-8:-4], "little")
        for place in rng.integers(1, footer, int(rng.integers(1, 4))):
            data[-8 - int(place)] = int(rng.integers(256))
    else:
        start = int(rng.integers(len(data)))
        stretch = rng.bytes(int(rng.integers(1, 40)))[: len(data) - start]
        data[start : start + len(stretch)] = stretch
    return bytes(data)


def read(path: Path) -> list[object]:
    """Everything in the file."""
    features = [Dense("e"), Sparse("c", None, 9), Sparse("i", "v", 50)]
    source = ParquetSource(path, features, targets=["y"], ids="id", block_rows=64)
    return [*whole_pass(source), list(source.row_names or [])]


def main(folder: Path, seed: int, count: int, checksums: bool) -> int:
    """The exit status."""
    resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))  # no damage asks for more memory
    path, refused, same, other, made = folder / "x.parquet", 0, 0, 0, -1
    for number in range(seed, seed + count):
        if number // EACH != made:
            made = number // EACH
            good = make(np.random.default_rng(made), checksums)
            path.write_bytes(good)
            expected = read(path)
        path.write_bytes(damage(np.random.default_rng(number), good))
        started = time.monotonic()
        try:
            found = read(path)
        except DataError:
            refused += 1
        else:
            equal = all(map(np.array_equal, found, expected))
            same, other = same + equal, other + (not equal)
            if checksums and not equal:
                print(f"{number}: wrong numbers")
                return 1
        if time.monotonic() - started > 20:
            print(f"{number}: too slow")
            return 1
    print(f"{same + other + refused} files: {refused} refused, {same} as written, {other} not")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4] == "yes"))
