"""Predictions block by block, as JSON lines or as a file."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blocklearn.datasources import DataSource, row_names
from blocklearn.durable import new_file

from ..errors import ConfigError
from ..files.allocated import new_npy
from ..learner import Learner

ROW_GROUP = 1 << 16  # rows of a Parquet file that are collected before they are written


@dataclass(frozen=True)
class Predicted:
    """Results of r rows.

    Attributes:
        numbers: int64 [r], row numbers.
        names: r names of the rows.
        values: [r, k] or [r], the results.
    """

    numbers: NDArray[np.int64]
    names: Sequence[str]
    values: NDArray[Any]


def predict_blocks(learner: Learner, source: DataSource) -> Iterator[Predicted]:
    """Yield the predictions for each row, block by block in the order of the source."""
    names = row_names(source)
    for numbers, values in learner.predictions(source):
        called = [f"row {i}" for i in numbers] if names is None else [names[i] for i in numbers]
        yield Predicted(numbers, called, values)


def json_lines(blocks: Iterator[Predicted]) -> Iterator[str]:
    """Yield one JSON object per row."""
    for block in blocks:
        for row, name, values in zip(
            block.numbers.tolist(), block.names, block.values.tolist(), strict=True
        ):
            item = {"row": row, "document": name, "prediction": values}
            yield json.dumps(item, ensure_ascii=False)


def write_predictions(path: Path, blocks: Iterator[Predicted], rows: int) -> None:
    """Write predictions to a file: an array to .npy; rows with names to .parquet.

    Memory holds one block at a time, or a row group of Parquet. The file is complete or absent.

    Args:
        path: the file; other endings than .npy mean Parquet.
        blocks: the predictions.
        rows: the number of rows of all blocks.
    """
    with new_file(path) as temporary:
        if path.suffix == ".npy":
            _write_npy(temporary, blocks, rows)
        else:
            _write_parquet(temporary, blocks)


def _write_npy(path: Path, blocks: Iterator[Predicted], rows: int) -> None:
    first = next(blocks)
    shape = (rows, *first.values.shape[1:])
    array = new_npy(path, first.values.dtype, shape)
    array[first.numbers] = first.values
    for block in blocks:
        array[block.numbers] = block.values


def _write_parquet(path: Path, blocks: Iterator[Predicted]) -> None:
    import pyarrow as pa

    with _collecting(path) as write:
        for block in blocks:
            values: Any = pa.array(block.values.reshape(-1))
            if block.values.ndim == 2:
                values = pa.FixedSizeListArray.from_arrays(values, block.values.shape[1])
            write(
                pa.table(
                    {
                        "row": pa.array(block.numbers),
                        "document": pa.array(block.names, pa.string()),
                        "prediction": values,
                    }
                )
            )


@contextmanager
def _collecting(path: Path) -> Iterator[Any]:
    """Yield a function that writes tables to a Parquet file in groups."""
    import pyarrow as pa
    from pyarrow import parquet

    tables: list[Any] = []
    writer: Any = None

    def write(table: Any, least: int = ROW_GROUP) -> None:
        nonlocal writer
        tables.append(table)
        if sum(map(len, tables)) >= least:
            writer = writer or parquet.ParquetWriter(path, table.schema)
            writer.write_table(pa.concat_tables(tables))
            tables.clear()

    try:
        yield write
        if tables:
            write(tables.pop(), 0)
    finally:
        if writer is not None:
            writer.close()


STEP = 1 << 14  # rows of a block


def count(learner: Learner, name: str) -> int:
    """Return the number of rows of the state `name`.

    Raises:
        ConfigError: the model has no such state.
    """
    states = learner.model.row_states
    if name not in states:
        kind = type(learner.model).__name__
        known = f"it has {', '.join(states)}" if states else "it has none"
        raise ConfigError([f"a model of kind {kind} has no state of rows called {name!r}: {known}"])
    return len(learner.row_state(name))


def state_blocks(learner: Learner, name: str) -> Iterator[Predicted]:
    """Yield the state `name` of all rows in their order, with their names."""
    side = learner.model.row_states[name]
    names, table = (learner.row_names, learner.names)[side], learner.row_state(name)
    for start in range(0, len(table), STEP):
        numbers = np.arange(start, min(start + STEP, len(table)))
        called = [f"{'column' if side else 'row'} {i}" for i in numbers]
        if names is not None:
            called = list(names[start : start + STEP])
        yield Predicted(numbers, called, table[start : start + STEP])
