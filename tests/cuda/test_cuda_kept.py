"""Blocks that stay in device memory: the same bits, without copies from the host."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import blocklearn as bl
from blocklearn.datasources import MatrixSource
from blocklearn.learner.training.replicas.all_rows import bytes_of
from blocklearn.learner.training.settings.devices import Kept
from tests.cuda.test_cuda_learner import ROWS, counts, drivers, labels  # noqa: F401
from tests.support.backends import needs_compiler
from tests.support.cuda_device import HostDriver
from tests.support.often import paired, rarely

pytestmark = needs_compiler


def learner(model: str, shuffle: Any, passes: int, **options: Any) -> Any:
    data = MatrixSource(counts(), targets=labels(), block_rows=30, shuffle=shuffle, seed=3)
    own: Any = {"optimizer": bl.optimizers.AdaGrad(rate=0.5)} if model == "glm" else {}
    made = bl.models.GLM() if model == "glm" else bl.models.NMF(components=3)
    return bl.Learner(made, data, passes=passes, seed=3, device="cuda", **own, **options)


def tensors(found: Any) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in found.state().tensors.items()}


@paired(
    2,
    index=["host", "device"],
    shuffle=["blocks", False],
    room=["auto", 3000],
    model=["nmf", "glm"],
)
def test_bits_are_the_same(
    model: str,
    room: Any,
    shuffle: Any,
    index: Any,
    drivers: list[HostDriver],  # noqa: F811
) -> None:
    """With room for all blocks, and for some. The last block is not full."""
    found = []
    for given in (0, room):
        trained = learner(model, shuffle, 4, index=index, device_blocks=given).fit()
        found.append(tensors(trained))
        trained.close()
    assert found[0] == found[1]
    copied = [driver.sent for driver in drivers[-2:]]
    assert copied[1] < copied[0]


def test_later_passes_copy_no_features(drivers: list[HostDriver]) -> None:  # noqa: F811
    sent = []
    for passes in (1, 2):
        trained = learner("nmf", False, passes).fit()
        sent.append(drivers[-1].sent)
        held = trained.team.first.cache.stats()
        assert (held.allocations, held.allocations_after_warmup) == (1, 0)
        trained.close()
    targets = 4 * 3 * -(-ROWS // 30) * 30
    small = 1000  # keys, counts and step sizes
    assert sent[1] - sent[0] < targets + small < counts().nnz * 8
    shuffled = []
    for passes in (2, 3):
        trained = learner("nmf", True, passes).fit()
        shuffled.append(drivers[-1].sent)
        assert "blocks kept on the device" not in {row.name for row in trained.plan().rows}
        trained.close()
    assert shuffled[1] - shuffled[0] > counts().nnz * 8


def test_replicas_and_evaluations(drivers: list[HostDriver]) -> None:  # noqa: F811
    found = []
    for room in (0, "auto"):
        trained = learner(
            "nmf", "blocks", 3, replicas=2, sync_every=1, device_blocks=room, eval=0.3,
            evaluation=bl.Evaluation(every_blocks=1),
        ).fit()  # fmt: skip
        found.append(tensors(trained))
        trained.close()
    assert found[0] == found[1]


def test_room_is_what_is_free() -> None:
    assert Kept().limit(300) == 150
    assert Kept(sharing=3).limit(300) == 50
    assert Kept().limit(-5) == 0
    assert Kept(most=400, sharing=2).limit(0) == 200


def test_room_is_planned(drivers: list[HostDriver]) -> None:  # noqa: F811
    def row(**options: Any) -> Any:
        rows = learner("nmf", False, 2, **options).plan().rows
        return next((row for row in rows if row.name == "blocks kept on the device"), None)

    whole = row()
    assert whole.of == "kept" and whole.device == "cuda:0" and whole.held == 0
    assert whole.nbytes >= 16 * counts().nnz
    assert row(index="device").nbytes < whole.nbytes
    rows_of_w = 4 * 3 * ROWS
    targets = bytes_of(learner("nmf", False, 2).train, features=False)
    assert row(device_blocks=2048 + rows_of_w + targets).nbytes == 2048
    assert row(device_blocks=0) is None
    with pytest.raises(
        ValueError, match="device_blocks=-1: must be a whole number, and at least 0"
    ):
        learner("nmf", False, 1, device_blocks=-1)


def uneven() -> Any:
    """Some blocks with many entries, which set how far arrays lie apart in a place."""
    rng = np.random.default_rng(0)
    rows = 40 * 12
    share = np.where(np.arange(rows) // 40 % 6 == 0, 0.9, 0.05)
    X = (rng.random((rows, 60)) < share[:, None]) * rng.integers(1, 6, (rows, 60))
    return sp.csr_array(X.astype(np.float32))


@pytest.mark.parametrize(
    ("model", "shuffle", "scored"),
    [
        (bl.models.NMF(components=3), "blocks", 0.9),
        (bl.models.ALS(rank=3), False, None),
        *rarely((bl.models.NMF(components=3), "blocks", None)),
    ],
    ids=["indexed", "not indexed", "not scored"],
)
def test_a_kept_block_is_one_copy_within_the_device(
    drivers: list[HostDriver],  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    model: bl.Model,
    shuffle: Any,
    scored: float | None,
) -> None:
    """The arrays of a block lie on the shelf as far apart as in their place; all blocks fit.

    scored: density of the data that are scored. Their blocks decide how much room a place has.
    """
    source, held = MatrixSource(uneven(), block_rows=40, shuffle=shuffle), None
    if scored is not None:
        entries = np.random.default_rng(1).random(uneven().shape) < scored
        held = MatrixSource(bl.sparse(entries.astype(np.float32)), block_rows=40)
    trained = bl.Learner(model, source, held, passes=2, device="cuda", verbose=False).fit()
    driver, brought = drivers[-1], []
    copy, shelf = driver.copy, trained.team.first.cache.backend.shelf
    start = shelf._slot.array.address

    def noted(copies: Any, stream: Any) -> None:
        brought.append([start <= source < start + shelf._slot.nbytes for _, source, _ in copies])
        copy(copies, stream)

    monkeypatch.setattr(driver, "copy", noted)
    trained.passes += 1
    trained.fit()
    trained.close()
    assert set(map(tuple, brought)) == {(True,)}
    assert len(brought) >= 12


def test_kept_blocks_of_the_host_are_pinned(drivers: list[HostDriver]) -> None:  # noqa: F811
    """Those that the device has no room for are copied from where they are."""
    trained = learner("nmf", "blocks", 3, device_blocks=0).fit()
    kept = trained.train._shelf._kept
    assert len(kept) == trained.train.blocks
    driver = drivers[-1]
    for block in kept.values():
        assert all(driver.is_pinned(array) for array in (*block.csr, *block.turned, block.weights))
    trained.close()
    assert np.isfinite(trained.parameter("H")).all()
