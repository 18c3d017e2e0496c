"""Estimate the time of a pass on a GPU from bytes, operations and launches; no GPU is needed.

It is a floor: each operation takes the longer of the time of its bytes and of its arithmetic, and
no less than its launches. These are counted: the backend makes them, on a device that does nothing.
An update takes the time of its kernels, or that of the host, which copies a block and starts it
meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

import numpy as np

from blocklearn.datasources import DataSource, HostBlock
from blocklearn.matcache.containers.dispatch import Launched
from blocklearn.matcache.operations.traffic import traffic

from ..replicas.replica import Replica

# what a block launches, and the number of launches that it is, with those that bring rows
Operations = tuple[list[Launched], int]


class Card(NamedTuple):
    """What a GPU can do, by its maker's data sheet; of an H200, copying was measured.

    memory: bytes a second of its memory.
    flops: operations a second, in float32.
    link: bytes a second from the host.
    launch: seconds from one kernel of a graph to the next, an assumption.
    room: bytes of its memory.
    """

    memory: float
    flops: float
    link: float
    launch: float = 2e-6
    room: int = 141_000_000_000


HOST = 37e-6  # seconds of the host's thread for a block, over a driver that does nothing: measured


CARDS = {
    "B200": Card(8.0e12, 75e12, 64e9, room=180_000_000_000),
    "H200": Card(4.3e12, 67e12, 64e9),
    "H100": Card(3.35e12, 67e12, 64e9, room=80_000_000_000),
    "A100": Card(2.04e12, 19.5e12, 32e9, room=80_000_000_000),
    "L40S": Card(0.86e12, 91.6e12, 32e9, room=48_000_000_000),
    "V100": Card(0.9e12, 15.7e12, 16e9, room=32_000_000_000),
}


class Update(NamedTuple):
    """What an update of the largest block does, or several of them.

    launches: of kernels, products of libraries, and copies of single numbers.
    nbytes, flops: of the kernels.
    copied: bytes of the block, and of the state of its rows.
    kernels: seconds of the kernels.
    host: seconds of the host's thread beside its copies.
    """

    launches: float
    nbytes: float
    flops: float
    copied: float
    kernels: float
    host: float = HOST

    def seconds(self, card: Card) -> float:
        """Return the least seconds. The host waits for its copies; kernels overlap with both."""
        return max(self.kernels, self.host + self.copied / card.link)

    def times(self, count: int) -> Update:
        """Return the same, `count` times."""
        return Update(*(count * number for number in self))

    def plus(self, other: Update) -> Update:
        """Return the sum of both."""
        return Update(*(a + b for a, b in zip(self, other, strict=True)))


def card_of(name: str) -> tuple[str, Card]:
    """Return the card that a device's name contains; an H200 for an unknown one.

    >>> card_of("cuda:0 (NVIDIA H100 80GB HBM3)")[0], card_of("cuda:1 (another)")[0]
    ('H100', 'H200')
    """
    found = next((card for card in CARDS if card in name), "H200")
    return found, CARDS[found]


def update_of(
    operations: Sequence[Launched], launches: int, nnz: int, copied: int, card: Card
) -> Update:
    """Return what these operations do on a card, for a block of so many non-zeros."""
    moved = [traffic(launched, nnz) for launched in operations]
    work = [max(part.nbytes / card.memory, part.flops / card.flops) for part in moved]
    return Update(
        launches,
        sum(part.nbytes for part in moved),
        sum(part.flops for part in moved),
        copied,
        launches * card.launch + sum(max(0.0, seconds - card.launch) for seconds in work),
    )


def pass_of(replica: Replica, sources: Sequence[DataSource], card: Card) -> Update:
    """Return what a pass does: all blocks of all sides, each as large as the largest.

    replica: of `Assembly.counting`.
    """
    whole = Update(0, 0, 0, 0, 0, 0)
    for update in updates_of_sides(replica, sources, card):
        whole = whole.plus(update)
    return whole


def updates_of_sides(replica: Replica, sources: Sequence[DataSource], card: Card) -> list[Update]:
    """Return what the updates of all blocks of each side do; see `pass_of`."""
    found = []
    for side, (source, blocks) in enumerate(zip(sources, launched(replica), strict=True)):
        nnz, copied = replica.intakes[side].shape.nnz, _copied(replica, side)
        first, later = (update_of(*block, nnz, copied, card) for block in blocks)
        found.append(first.plus(later.times(source.blocks - 1)))
    return found


def launched(replica: Replica) -> list[list[Operations]]:
    """Return what full blocks ask of the device, for a replica of `Assembly.counting` alone.

    By side, of the first block of a pass and of a later one.
    """
    hosts = [HostBlock(intake.shape) for intake in replica.trained]
    for pass_ in range(3):  # the first ones make what stays the same
        found = [
            [_launched(replica, host, side, pass_, index) for index in range(2)]
            for side, host in enumerate(hosts)
        ]
        with suppress(ZeroDivisionError), np.errstate(all="ignore"):  # its numbers are all 0
            replica.end_pass()
    return found


def _launched(replica: Replica, host: HostBlock, side: int, pass_: int, index: int) -> Operations:
    host.finish(pass_=pass_, index=index, rows=host.shape.rows)
    host.transpose()
    backend, operations = replica.cache.backend, list[Launched]()
    before, replica.cache.launched = backend.count(), operations
    replica.train(host, side)
    replica.cache.launched = None
    return operations, backend.count() - before


def _copied(replica: Replica, side: int) -> int:
    """Return the bytes of a block, and of states of its rows that the host holds, both ways."""
    intake = replica.intakes[side]
    shape, indexed = intake.shape, intake.reads_index(0)
    features = 4 * shape.rows * shape.columns if shape.dense else (8 + 8 * indexed) * shape.nnz
    rows = shape.rows * (20 + 4 * shape.targets)  # offsets, numbers, weights, targets
    if intake.all_rows is not None:  # which have the rest
        features = 0 if intake.all_rows.features else features
        rows = shape.rows * (8 if intake.all_rows.features else 20)
    states = [s for s in replica.model.states.values() if s.side == side and not s.held]
    return (
        features
        + rows
        + 2 * sum(4 * state.block_shape[0] * state.block_shape[1] for state in states)
    )
