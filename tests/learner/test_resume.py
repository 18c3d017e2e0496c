"""A run that stops after any block resumes to the same bits: optimizers, mixins, sources.

Models by themselves are in tests/models/test_contract.py.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

import blocklearn as bl
from blocklearn.datasources import (
    BlockShape,
    BlockSource,
    BlockWriter,
    DataSource,
    IterableSource,
    MatrixSource,
    ParquetSource,
)
from blocklearn.mixins import CosineSimilarity, GroupLasso, NonNegative
from blocklearn.models import GLM, LDA
from blocklearn.optimizers import (
    FTRL,
    LBFGS,
    SGD,
    SGLD,
    AdaGrad,
    Adam,
    ConjugateGradient,
    IncNorm,
    RMSProp,
    Telescoping,
)
from blocklearn.optimizers.schedules import Power as Falling
from tests.models.test_row_state import Power, ratings
from tests.support.corpora import planted
from tests.support.often import crossed, first_often, paired, rarely
from tests.support.stops import check_stops

ROWS, COLUMNS, PASSES = 250, 24, 3
PENALTIES: dict[str, Any] = {"l1": 2e-3, "l2": 1e-2}


def labelled(seed: int = 0) -> tuple[Any, Any]:
    """Sparse features, some of which are rare, and two targets."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((ROWS, COLUMNS)) * (rng.random((ROWS, COLUMNS)) < 0.25)
    X[:, -4:] *= rng.random((ROWS, 4)) < 0.05
    Y = (X @ rng.standard_normal((COLUMNS, 2)) > 0).astype(np.float32)
    return sp.csr_array(X.astype(np.float32)), Y


REPLICAS: list[dict[str, Any]] = [{}, {"replicas": 3, "sync_every": 1, "sync_weight": 0.7}]
MERGED = [pass_ * 8 + block for pass_ in range(PASSES) for block in (3, 6, 8)]  # of three


def check(folder: Path, model: Any, data: Any, replicas: dict[str, Any], **settings: Any) -> None:
    """Stop runs of three passes of eight blocks after some of them."""

    def make(hooks: list[bl.Hook]) -> bl.Learner:
        return bl.Learner(
            model,
            data,
            passes=PASSES,
            block_rows=32,
            threads=2,
            hooks=hooks,
            **replicas,
            **settings,
        )

    seed = zlib.crc32(folder.name.encode())  # other blocks for each test
    among = MERGED if replicas else range(1, 8 * PASSES + 1)
    blocks = np.random.default_rng(seed).choice(among, 3, replace=False)
    check_stops(make, folder, blocks.tolist())


MOMENTUM = SGD(rate=0.3, momentum=0.5, nesterov=True, schedule=Falling(), clip_row_norm=0.5)


@pytest.mark.parametrize(
    "optimizer, dense, replicas",
    [
        *((MOMENTUM, False, replicas) for replicas in REPLICAS),
        *rarely(
            *((MOMENTUM, True, replicas) for replicas in REPLICAS),
            *(
                (optimizer, dense, REPLICAS[not dense])
                for optimizer in (SGD(rate=0.3), AdaGrad(rate=0.5), RMSProp(rate=0.05))
                for dense in (False, True)
            ),
            *(
                (optimizer, dense, REPLICAS[dense])
                for optimizer in (Adam(rate=0.05), FTRL(rate=0.5))
                for dense in (False, True)
            ),
        ),
    ],
    ids=lambda value: getattr(value, "kind", str(value)),
)
def test_penalties_that_rows_have_missed(
    tmp_path: Path, optimizer: Any, dense: bool, replicas: Any
) -> None:
    X, Y = labelled()
    data = (X.toarray() if dense else X, Y)
    check(tmp_path, GLM(**PENALTIES), data, replicas, optimizer=optimizer)


@pytest.mark.parametrize("replicas", first_often(REPLICAS), ids=["one", "three"])
def test_noise(tmp_path: Path, replicas: Any) -> None:
    optimizer = SGLD(rate=0.1, rows=ROWS, average_from=10)
    check(tmp_path, GLM(l2=1e-2), labelled(), replicas, optimizer=optimizer)


@paired(
    2,
    dense=[False, True],
    replicas=REPLICAS,
    optimizer=[SGD(rate=0.3, average_from=0), Adam(rate=0.05, average_from=10)],
)
def test_averages(tmp_path: Path, optimizer: Any, dense: bool, replicas: Any) -> None:
    X, Y = labelled()
    model = GLM(**PENALTIES) if dense else GLM()
    check(tmp_path, model, (X.toarray() if dense else X, Y), replicas, optimizer=optimizer)


@paired(
    1,
    replicas=REPLICAS[::-1],
    optimizer=[
        SGD(rate=0.1, momentum=0.5, step_per="row"),
        AdaGrad(rate=0.5, step_per="row"),
        Adam(rate=0.05, step_per="row"),
        FTRL(rate=0.5, step_per="row"),
    ],
)
def test_steps_of_rows(tmp_path: Path, optimizer: Any, replicas: Any) -> None:
    weighted = (*labelled(), np.random.default_rng(0).random(ROWS))
    check(tmp_path, GLM(**PENALTIES), weighted, replicas, optimizer=optimizer)


@pytest.mark.parametrize(
    "mixin, dense, replicas",
    [
        (GroupLasso(weight=0.01), False, REPLICAS[1]),
        *rarely((NonNegative(), False, {}), (CosineSimilarity(weight=0.1), True, REPLICAS[1])),
    ],
    ids=lambda value: getattr(value, "kind", ""),
)
def test_mixins(tmp_path: Path, mixin: Any, dense: bool, replicas: Any) -> None:
    X, Y = labelled()
    data = (X.toarray() if dense else X, Y)
    check(tmp_path, GLM(), data, replicas, optimizer=SGD(rate=0.3), mixins=[mixin])


@crossed(replicas=REPLICAS, optimizer=[LBFGS(memory=2), ConjugateGradient()])
def test_full_passes(tmp_path: Path, optimizer: Any, replicas: Any) -> None:
    check(tmp_path, GLM(l2=1e-2), labelled(), replicas, optimizer=optimizer)


@pytest.mark.parametrize("replicas", first_often(REPLICAS), ids=["one", "three"])
@pytest.mark.parametrize(
    "inference, optimizer",
    [("cvb0", IncNorm()), ("vb", Telescoping(growth=2))],
    ids=["inc-norm", "telescoping"],
)
def test_topics(tmp_path: Path, inference: Any, optimizer: Any, replicas: Any) -> None:
    X, _ = planted(ROWS)
    check(tmp_path, LDA(topics=4, inference=inference), X, replicas, optimizer=optimizer)


def test_state_of_rows_in_files(tmp_path: Path) -> None:
    X = ratings(ROWS, 90)
    check(tmp_path / "a", Power(), X, {}, row_folder=tmp_path / "rows")


# ---- sources -------------------------------------------------------------------------------------


def sources(folder: Path) -> Iterator[tuple[str, DataSource]]:
    """Every kind, with rows in another order in every pass where it can do that."""
    X, Y = labelled()
    for shuffle in (False, True, "blocks"):
        yield (
            f"matrix {shuffle}",
            MatrixSource(X, targets=Y, block_rows=32, shuffle=shuffle, seed=3),
        )
    with BlockWriter([folder / "blocks"], block_rows=32) as writer:
        writer.append(indptr=X.indptr, indices=X.indices, values=X.data, targets=Y)
        writer.finish()
    yield "blocks", BlockSource([folder / "blocks"], shuffle="blocks", seed=3)
    columns = {f"f{i}": X.toarray()[:, i] for i in range(COLUMNS)} | {"a": Y[:, 0], "b": Y[:, 1]}
    pq.write_table(pa.table(columns), folder / "x.parquet", row_group_size=60)
    yield "parquet", ParquetSource(
        [folder / "x.parquet"], features=[f"f{i}" for i in range(COLUMNS)], targets=["a", "b"],
        block_rows=32, shuffle="blocks", seed=3,
    )  # fmt: skip

    def batches(pass_: int) -> Iterator[Any]:
        order = np.random.default_rng(pass_).permutation(ROWS)
        for start in range(0, ROWS, 50):
            yield X[order[start : start + 50]], Y[order[start : start + 50]]

    yield (
        "iterable",
        IterableSource(batches, BlockShape(32, COLUMNS, 32 * COLUMNS, ROWS, targets=2)),
    )


@pytest.mark.slow
def test_sources(tmp_path: Path) -> None:
    for name, source in sources(tmp_path):
        check(tmp_path / f"stopped {name}", GLM(**PENALTIES), source, {}, optimizer=SGD(rate=0.3))
