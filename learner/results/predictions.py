"""Predictions block by block, as JSON lines or as a file."""

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blocklearn.datasources import DataSource, row_names
from blocklearn.datasources.arrays.arrow import number_array, text_array
from blocklearn.datasources.remote import Place
from blocklearn.durable import new_file
from blocklearn.models import LDA

from ..errors import ConfigError
from ..figures import counted
from ..files.allocated import new_npy
from ..learner import Learner
from ..storage.table_file import TABLES, columns_of, table_writer
from .outputs import outputs_of

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


def predict_blocks(
    learner: Learner, source: DataSource, part: tuple[int, int] = (0, 1)
) -> Iterator[Predicted]:
    """Yield the predictions for each row, block by block in the order of the source.

    part: see `Learner.predictions`. Raises `ConfigError` if there are fewer blocks than parts.
    """
    if part[1] > source.blocks:
        raise ConfigError(
            [
                f"{part[1]} parts of {counted(source.blocks, 'block')}: each must have one at "
                "least. Ask for fewer parts, or start fewer workers."
            ]
        )
    names = row_names(source)
    for numbers, values in learner.predictions(source, part=part):
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


def prediction_names(learner: Learner) -> list[str] | None:
    """Return the names of the numbers of a prediction: targets, classes, topics; or None."""
    outputs = outputs_of(learner)
    if outputs is None:
        model = learner.model
        if isinstance(model, LDA) and model.given_names:
            return model.topic_names
        names = model.prediction_columns
        return None if names is None else list(names)
    short = [output["name"].removeprefix(f"{output['fit']}.") for output in outputs]
    same = len(set(short)) < len(short)
    return [output["name"] for output in outputs] if same else short


def write_predictions(
    path: Path, blocks: Iterator[Predicted], rows: int | None, names: Sequence[str] | None = None
) -> int:
    """Write predictions to a file: an array to .npy; a table with a row each to others.

    The table has the columns `row` and `document`, and one for each of `names`. Without names,
    .parquet has a list `prediction`; .csv and .tsv have columns `prediction 0` and so on.

    Memory holds one block at a time, or a row group of Parquet. The file is complete or absent.

    Args:
        path: the file; other endings than .npy, .csv and .tsv mean Parquet.
        blocks: the predictions.
        rows: the number of rows of all blocks; None: unknown, and .npy is collected in memory.
        names: of the numbers of a prediction; None: they have none.

    Returns the number of rows.
    """
    written = 0

    def counted() -> Iterator[Predicted]:
        nonlocal written
        for block in blocks:
            written += len(block.numbers)
            yield block

    with new_file(path) as temporary:
        if path.suffix != ".npy":
            ending = path.suffix if path.suffix in TABLES else ".parquet"
            _write_table(temporary, ending, counted(), names)
        elif rows is None:
            with temporary.open("wb") as file:  # np.save would add an ending to the name
                np.save(file, np.concatenate([block.values for block in counted()]))
        else:
            _write_npy(temporary, counted(), rows)
    return written


def part_of(path: Place, part: tuple[int, int]) -> Place:
    """Return the file of a part: `path` itself if it is the only one.

    >>> str(part_of(Path("out/shares.parquet"), (2, 8)))
    'out/shares-2-of-8.parquet'
    """
    number, parts = part
    return path if parts == 1 else path.with_stem(f"{path.stem}-{number}-of-{parts}")


def _write_npy(path: Path, blocks: Iterator[Predicted], rows: int) -> None:
    first = next(blocks)
    shape = (rows, *first.values.shape[1:])
    array = new_npy(path, first.values.dtype, shape)
    array[first.numbers] = first.values
    for block in blocks:
        array[block.numbers] = block.values


def _write_table(
    path: Path, ending: str, blocks: Iterator[Predicted], names: Sequence[str] | None
) -> None:
    import pyarrow as pa

    with collecting(path, ending) as write:
        for block in blocks:
            columns = {
                "row": number_array(block.numbers),
                "document": text_array(block.names).cast(pa.string()),
            }
            write(pa.table(columns | _values(block.values, ending, names)))


def _values(values: NDArray[Any], ending: str, names: Sequence[str] | None) -> dict[str, Any]:
    """Return the columns of predictions [r x k] or [r]."""
    import pyarrow as pa

    if values.ndim == 1:
        return {"prediction": number_array(values)}
    if names is not None and len(names) == values.shape[1]:
        own = {"row", "document"}
        return columns_of(values, [f"prediction {n}" if n in own else n for n in names])
    if ending != ".parquet":
        return columns_of(values, [f"prediction {i}" for i in range(values.shape[1])])
    flat = number_array(values.reshape(-1))
    return {"prediction": pa.FixedSizeListArray.from_arrays(flat, values.shape[1])}


@contextmanager
def collecting(path: Path, ending: str) -> Iterator[Any]:
    """Yield a function that writes Arrow tables to a file in groups.

    ending: one of `TABLES`.
    """
    import pyarrow as pa

    tables: list[Any] = []
    with ExitStack() as stack:
        into: Any = None

        def write(table: Any, least: int = ROW_GROUP) -> None:
            nonlocal into
            tables.append(table)
            if sum(map(len, tables)) >= least:
                into = into or stack.enter_context(table_writer(path, ending, table.schema))
                into(pa.concat_tables(tables))
                tables.clear()

        yield write
        if tables:
            write(tables.pop(), 0)


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
