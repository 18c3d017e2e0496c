"""What tests of data sources share."""

import pytest


@pytest.fixture
def no_block_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads read all blocks of a matrix that are not kept."""
    monkeypatch.setattr("blocklearn.datasources.memory.matrix.FEW_NUMBERS", 0)
    monkeypatch.setattr("blocklearn.datasources.memory.matrix.FEW_ENTRIES", 0)
