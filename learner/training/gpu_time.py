"""Estimate the time of a pass on a GPU from bytes, operations and launches; no GPU is needed.

It is a floor: each launch takes the longer of the time of its bytes and of its operations, and an
update the time of its launches, or of copying its block, which happen at the same time. Python's
part is not included.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from blocklearn.datasources import DataSource
from blocklearn.matcache.containers.dispatch import Launched
from blocklearn.matcache.operations.traffic import traffic

from .replica import Replica


class Card(NamedTuple):
    """What a GPU can do, by its maker's data sheet; of an H200, copying was measured.

    memory: bytes a second of its memory.
    flops: operations a second, in float32.
    link: bytes a second from the host.
    launch: seconds from one kernel of a graph to the next, an assumption.
    """

    memory: float
    flops: float
    link: float
    launch: float = 2e-6


CARDS = {
    "B200": Card(8.0e12, 75e12, 64e9),
    "H200": Card(4.3e12, 67e12, 64e9),
    "H100": Card(3.35e12, 67e12, 64e9),
    "A100": Card(2.04e12, 19.5e12, 32e9),
    "L40S": Card(0.86e12, 91.6e12, 32e9),
    "V100": Card(0.9e12, 15.7e12, 16e9),
}


class Update(NamedTuple):
    """What an update of the largest block does, or several of them.

    launches: of kernels.
    nbytes, flops: of the kernels.
    copied: bytes of the block, and of the state of its rows.
    kernels: seconds of the kernels.
    """

    launches: float
    nbytes: float
    flops: float
    copied: float
    kernels: float

    def seconds(self, card: Card) -> float:
        """Return the least seconds: copies and kernels overlap."""
        return max(self.kernels, self.copied / card.link)

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


def update_of(launches: Sequence[Launched], nnz: int, copied: int, card: Card) -> Update:
    """Return what these launches do on a card, for a block of so many non-zeros."""
    moved = [traffic(launched, nnz) for launched in launches]
    return Update(
        len(moved),
        sum(part.nbytes for part in moved),
        sum(part.flops for part in moved),
        copied,
        sum(max(card.launch, part.nbytes / card.memory, part.flops / card.flops) for part in moved),
    )


def pass_of(replica: Replica, sources: Sequence[DataSource], card: Card, phase: int = 0) -> Update:
    """Return what a pass does: all blocks of all sides, each as large as the largest.

    replica: whose memory is planned, but not allocated.
    """
    whole = Update(0, 0, 0, 0, 0)
    for side, source in enumerate(sources):
        whole = whole.plus(update_of_side(replica, side, source, card, phase))
    return whole


def update_of_side(
    replica: Replica, side: int, source: DataSource, card: Card, phase: int = 0
) -> Update:
    """Return what the updates of all blocks of one side do; see `pass_of`."""
    launches, nnz = replica.launches(side, phase), replica.intakes[side].shape.nnz
    return update_of(launches, nnz, _copied(replica, side), card).times(source.blocks)


def _copied(replica: Replica, side: int) -> int:
    """Return the bytes of a block, and of states of its rows that the host holds, both ways."""
    intake = replica.intakes[side]
    shape, indexed = intake.shape, "train" in intake.indexed_for
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
