"""Small data for tests of block datasets, and everything that a source says about them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from blocklearn.datasources import BlockWriter, DataSource, HostBlock


@dataclass
class Data:
    """Plain arrays; X is SciPy CSR or a table."""

    X: Any
    targets: Any = None
    weights: Any = None
    ids: Any = None

    def append(self, writer: BlockWriter, start: int, stop: int, position: Any = None) -> None:
        """Some of the rows to a writer."""
        rows: dict[str, Any] = {"dense": self.X[start:stop]}
        if sparse.issparse(self.X):
            part = self.X[start:stop]
            rows = {"indptr": part.indptr, "indices": part.indices, "values": part.data}
        for name in ("targets", "weights", "ids"):
            if getattr(self, name) is not None:
                rows[name] = getattr(self, name)[start:stop]
        writer.append(**rows, position=position)


def counts(rows: int = 23, columns: int = 11, seed: int = 0) -> Any:
    """A sparse matrix with empty rows, empty columns and a full row."""
    rng = np.random.default_rng(seed)
    X = rng.poisson(0.4, (rows, columns)).astype(np.float32)
    X[rows // 2] = 1 + np.arange(columns)
    X[:: max(2, rows // 3)] = 0
    X[:, columns // 2] = 0
    return sparse.csr_array(X)


def labelled(rows: int = 23, targets: int = 2, seed: int = 0, *, dense: bool = False) -> Data:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 3)).astype(np.float32) if dense else counts(rows, seed=seed)
    return Data(
        X,
        rng.normal(size=(rows, targets)).astype(np.float32),
        rng.random(rows).astype(np.float32),
        [f"row {i}" for i in range(rows)],
    )


def write(data: Data, folders: list[Path], *, steps: int = 5, **settings: Any) -> None:
    """`data` as a dataset, appended in pieces of `steps` rows."""
    names = settings.pop("names", None)
    with BlockWriter(folders, **{"block_rows": 4, **settings}) as writer:
        for start in range(0, data.X.shape[0], steps):
            data.append(writer, start, min(start + steps, data.X.shape[0]))
        writer.finish(names=names)


def collect(source: DataSource, pass_: int = 0) -> Data:
    """All rows of a pass, put in the order of their numbers."""
    shape = source.shape
    X = np.zeros((shape.total_rows, shape.columns), np.float32)
    targets = np.zeros((shape.total_rows, shape.targets), np.float32)
    weights = np.full(shape.total_rows, np.nan, np.float32)
    block = HostBlock(shape)
    for index in range(source.blocks):
        source.read(pass_, index, block)
        assert (block.pass_, block.index) == (pass_, index)
        assert (block.row_ids[block.rows :] == -1).all()
        ids = block.row_ids[: block.rows]
        X[ids] = table(block)
        targets[ids], weights[ids] = block.targets[: block.rows], block.weights[: block.rows]
    assert not np.isnan(weights).any()
    return Data(X, targets, weights)


def table(block: HostBlock) -> Any:
    """The features of a block, dense."""
    if block.shape.dense:
        return block.dense[: block.rows]
    size = (block.rows, block.shape.columns)
    parts = block.values[: block.nnz], block.indices[: block.nnz], block.indptr[: block.rows + 1]
    return sparse.csr_array(parts, shape=size).toarray()


def arrays(block: HostBlock) -> list[bytes]:
    """The numbers of a block, bit by bit."""
    parts = [
        block.row_ids, block.indptr, block.indices[: block.nnz], block.values[: block.nnz],
        block.dense, block.targets, block.weights,
    ]  # fmt: skip
    return [np.asarray(part).tobytes() for part in parts]


def folders(path: Path, stripes: int) -> list[Path]:
    return [path / f"disk{i}" / "data" for i in range(stripes)]
