"""A digest of what files hold: all bytes of small ones, samples of large ones, the ETag of those
that a server tells versions of.
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np
import xxhash

from .files import Table

Digest = Literal["samples", "all"]
SAMPLE = 1 << 16  # bytes
LEAST = 1 << 20  # bytes that are read of every file, if it has as many
BUDGET = {True: 1 << 28, False: 0}  # bytes of all files, on a local disk or not; but see `LEAST`


def content_digest(tables: Sequence[Table], digest: Digest) -> bytes:
    """XXH3 of the contents of files, in their order; not of their names and times.

    samples: a file of at most 256 MiB / (number of files), or of 1 MiB, is read whole; of a larger
    one so many bytes are read, 64 KiB at a time, the first and the last ones and others at even
    distances. all: every file is read whole. Of a file with an ETag this is taken, and nothing read
    (but with all). Raises `DataError` where a file has changed since it was opened, and
    `RemoteError`.
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
    """Where samples begin in `size` bytes, of which about `most` are to be read.

    >>> places(3 * 65536, 3 * 65536), places(10 * 65536, 3 * 65536)
    ([0, 65536, 131072], [0, 294912, 589824])
    """
    if size <= most:
        return list(range(0, size, SAMPLE))
    count = max(2, most // SAMPLE)
    return [int(start) for start in np.linspace(0, size - SAMPLE, count).astype(np.int64)]
