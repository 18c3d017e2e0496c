"""The bytes that are read ahead are bounded."""

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blocklearn.datasources import BlockShape, HostBlock, Reader
from blocklearn.datasources import read_ahead as read_aheads
from blocklearn.datasources.read_ahead import ring_size


@given(
    st.integers(1, 2**40),
    st.integers(0, 99),
    st.integers(1, 64),
    st.integers(1, 8),
    st.integers(1, 2**34),
)
def test_size(block: int, blocks: int, readers: int, lend: int, budget: int) -> None:
    ring = ring_size(block, blocks, readers, lend, budget=budget)
    assert min(lend + 1, max(blocks, 1)) <= ring <= lend + readers + 1
    assert ring <= max(blocks, 1)
    assert ring * block <= budget or ring <= lend + 1


class Slow:
    """Blocks that several threads read; how many were begun."""

    shape = BlockShape(rows=4, columns=2, nnz=4, total_rows=80)
    blocks, names, fingerprint, readers = 20, None, "", 4

    def __init__(self) -> None:
        self.begun = 0
        self.lock = threading.Lock()

    def read(self, pass_: int, index: int, into: HostBlock) -> None:
        with self.lock:
            self.begun += 1
        into.row_ids[:] = range(4 * index, 4 * index + 4)
        into.indptr[:] = 0
        into.finish(pass_=pass_, index=index, rows=4)


@pytest.mark.parametrize("fits", [0, 2, 3, 100])
def test_readers_stop_where_the_budget_is_used_up(
    monkeypatch: pytest.MonkeyPatch, fits: int
) -> None:
    """However slow the consumer is, no more blocks are read than there is room for."""
    source = Slow()
    size = HostBlock(source.shape).nbytes
    monkeypatch.setattr(
        read_aheads, "ring_size", lambda *given: ring_size(*given, budget=fits * size)
    )
    ring = max(2, min(6, fits))
    with Reader(source) as reader:
        assert reader.nbytes == ring * size
        for block in reader.blocks(0):
            threading.Event().wait(0.005)
            assert source.begun <= block.index + ring
