"""How many blocks are read ahead."""

READ_AHEAD_BYTES = 1 << 30


def ring_size(
    block_bytes: int, readers: int = 1, lend: int = 1, *, budget: int = READ_AHEAD_BYTES
) -> int:
    """Blocks of a ring: `lend` in use, one for each of `readers` threads to fill, and one that
    waits; fewer where these are more than `budget` bytes, but one more than `lend` at least.

    Threads without a block to fill wait, so memory is bounded whatever the speed of the disks.

    >>> ring_size(2**20), ring_size(2**20, readers=4), ring_size(2**28, readers=4), ring_size(2**40)
    (3, 6, 4, 2)
    """
    fits = budget // max(1, block_bytes)
    return max(lend + 1, min(lend + readers + 1, fits))
