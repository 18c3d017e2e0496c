"""The product's readers, each as a function from a folder to `Facts`."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import TypeAdapter
from scipy import sparse

import blocklearn as bl
from blocklearn.datasources import BlockSource, DataSource, HostBlock, row_names, target_names
from blocklearn.datasources.config import TrainData
from blocklearn.datasources.holdout.samples import Reading
from blocklearn.learner.checkpoints import checkpoint
from blocklearn.learner.command_line.cli import main
from blocklearn.learner.engines.row_pieces import RowPieces
from tests.mutations.facts import Facts, table_facts, word_facts
from tests.support.formats import read

Read = Callable[[Path], Facts]
MANY = 10_000
DATA: TypeAdapter[Any] = TypeAdapter(TrainData)


class Refused(Exception):
    """A command ended with an exit code that is documented for bad input."""


class Converted:
    """As `learn convert` reads a file. words: columns are words, in any order."""

    def __init__(self, file: str, *, words: bool = False, **options: Any) -> None:
        self.file, self.words, self.options = file, words, options

    def __call__(self, folder: Path) -> Facts:
        found = read(folder / self.file, **self.options)
        about = table_facts(found.X)
        if self.words:
            about["words"] = word_facts(found.X, found.layout.names)
            del about["entries"], about["columns"]
        if found.targets is not None:
            about["targets"] = found.targets.tolist()
        if found.weights is not None:
            about["weights"] = found.weights.tolist()
        if found.ids is not None:
            about["ids"] = list(found.ids)
        return about


def trained(*, words: bool = False, **config: Any) -> Read:
    """As a model is trained on it: in blocks of 16 rows; in one block where a file has `MANY`."""

    def facts(folder: Path) -> Facts:
        kind = DATA.validate_python(
            config | {key: str(folder / config[key]) for key in ("path", "targets", "weights")
                      if isinstance(config.get(key), str) and "." in config[key]}
        )  # fmt: skip
        source = kind.open_source(Reading(16))
        if source.shape.total_rows > MANY:
            source = kind.open_source(Reading(source.shape.total_rows))
        about = source_facts(source)
        if words and source.names is not None:
            about["words"] = word_facts(about.pop("X"), source.names)
            del about["entries"], about["columns"]
        about.pop("X", None)
        names = row_names(source)
        if names is not None:
            about["ids"] = list(names)
        return about

    return facts


def source_facts(source: DataSource) -> Facts:
    """All rows of a pass."""
    shape = source.shape
    block, parts = HostBlock(shape), []
    ids: list[Any] = []
    targets, weights = [], []
    for index in range(source.blocks):
        source.read(0, index, block)
        block.transpose()
        n = block.rows
        if shape.dense:
            parts.append(sparse.csr_array(block.dense[:n]))
        else:
            indptr = block.indptr[: n + 1].copy()
            arrays = (block.values[: block.nnz].copy(), block.indices[: block.nnz].copy(), indptr)
            parts.append(sparse.csr_array(arrays, shape=(n, shape.columns)))
        ids.append(block.row_ids[:n].copy())
        targets.append(block.targets[:n].copy())
        weights.append(block.weights[:n].copy())
    order = np.argsort(np.concatenate(ids))
    if (np.concatenate(ids)[order] != np.arange(shape.total_rows)).any():
        raise AssertionError("row numbers are not 0 to n - 1")
    X = sparse.vstack(parts, "csr")[order]
    about = {"X": X, **table_facts(X)}
    if shape.total_rows <= MANY:
        about["weights"] = np.concatenate(weights)[order].tolist()
        if shape.targets:
            about["targets"] = np.concatenate(targets)[order].tolist()
    return about


def dataset(folders: list[str], verify: Any) -> Read:
    """A block dataset, in both orientations if it has them."""

    def facts(folder: Path) -> Facts:
        source = BlockSource([folder / name for name in folders], verify=verify)
        with source:
            about = source_facts(source)
            del about["X"]
            about["names"] = [
                None if names is None else list(names)
                for names in (source.names, row_names(source), target_names(source))
            ]
            about["sums"] = [source.value_sums()]
        if hasattr(source, "transposed"):
            with source.transposed() as side:
                across = source_facts(side)
                about["across"] = across["entries"]
        return about

    return facts


def model(new: Any) -> Read:
    """A model folder: what it predicts for `new`, and its names."""

    def facts(folder: Path) -> Facts:
        learner = bl.load(folder)
        predicted = learner.predict(new)
        return {
            "predictions": np.asarray(predicted, np.float64).ravel().tolist(),
            "names": None if learner.names is None else list(learner.names),
            "row names": None if learner.row_names is None else list(learner.row_names),
        }

    return facts


def checkpoints(folder: Path) -> Facts:
    """The newest checkpoint that is intact."""
    found = checkpoint.newest(folder / "checkpoints")
    if found is None:
        return {"position": None}
    assert (found.rows >= 0 and found.best is None) or found.best
    return {
        "position": found.position,
        "tensors": sorted(
            (name, (value.whole() if isinstance(value, RowPieces) else value).tobytes())
            for name, value in found.state.tensors.items()
        ),
    }


def learn(*arguments: str) -> Read:
    """The command `learn` in the folder; its standard error is read by `case.py`."""

    def facts(folder: Path) -> Facts:
        before = os.getcwd()
        os.chdir(folder)
        try:
            main(arguments)
        except SystemExit as stop:
            if stop.code in (2, 65, 66, 71, 76, 78):
                raise Refused(f"exit code {stop.code}") from None
            if stop.code:
                raise AssertionError(f"exit code {stop.code}") from None
        finally:
            os.chdir(before)
        return {}

    return facts
