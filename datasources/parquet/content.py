"""Compute a digest of the contents of files, from all bytes, samples or ETags."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
import xxhash

from .files import Table

Digest = Literal["samples", "all"]
SAMPLE = 1 << 16  # bytes
LEAST = 1 << 20  # bytes read of every file, or the whole file if it is smaller
BUDGET = {True: 1 << 28, False: 0}  # bytes read of all files, by whether they are on a local disk


def content_digest(tables: Sequence[Table], digest: Digest) -> bytes:
    """Return the XXH3 of the contents of files, in order.

    Names and times do not matter.

    digest: "samples" or "all".

    With "samples", a file of at most max(1 MiB, 256 MiB / number of files) is read whole. Of a
    larger file, that many bytes are read: 64 KiB pieces from the start, the end and evenly between.
    Remote files are sampled with 1 MiB. A file with an ETag is not read; its ETag is used.
    With "all", every file is read whole. Raises `DataError` for a file that has changed since it
    was opened, and `RemoteError`.
    """
    found = xxhash.xxh3_64()
    for table in tables:
        tag = table.status.identity.partition(" ")[2]
        if digest == "samples" and tag.startswith('"') and not table.files.quick:
            found.update(tag.encode())
            continue
        share = max(LEAST, BUDGET[table.files.quick] // len(tables))
        most = table.status.size if digest == "all" else share
        table.check()
        with table.files.open(table.status) as file:
            for start in places(table.status.size, most):
                file.seek(start)
                found.update(file.read(min(SAMPLE, table.status.size - start)))
    return found.digest()


def places(size: int, most: int) -> list[int]:
    """Return where to read samples in `size` bytes, about `most` bytes in all.

    >>> places(3 * 65536, 3 * 65536), places(10 * 65536, 3 * 65536)
    ([0, 65536, 131072], [0, 294912, 589824])
    """
    if size <= most:
        return list(range(0, size, SAMPLE))
    count = max(2, most // SAMPLE)
    return [int(start) for start in np.linspace(0, size - SAMPLE, count).astype(np.int64)]
