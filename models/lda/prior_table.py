"""Hold a prior of each word in each topic, from an array or a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
from annotated_types import Gt, Lt
from numpy.typing import ArrayLike, NDArray
from pydantic import Field, PrivateAttr

from blocklearn.datasources.parsing.array_files import load_npy
from blocklearn.fields import Fields

from ..errors import ModelConfigError

WORD = "word"  # the column of a table that has the words
MOST = 1e30
RULE = "must be numbers above 0 and below 1e30"

Floats = NDArray[np.float32]


class PriorTable(Fields):
    """Names the numbers [words x topics] of a prior: `{path: prior.npy}`.

    A trained model keeps them in its own files, and does not need the file of this name again.
    """

    path: str | None = Field(
        None,
        description=".npy file of numbers [words x topics], in the order of the columns; or a "
        ".csv, .tsv or .parquet table with a column `word` and a column of numbers for each topic; "
        "null: an array was given in Python",
    )
    other: Annotated[float, Gt(0), Lt(MOST)] = Field(
        0.05, description="prior of words that a table does not have"
    )
    topics: list[str] | None = Field(
        None, description="names of the topics; null: those of a table's columns, else none"
    )
    _array: Floats | None = PrivateAttr(None)

    def __eq__(self, other: object) -> bool:
        """Compare the settings; arrays are not compared, and models that were saved have none."""
        return isinstance(other, PriorTable) and self.model_dump() == other.model_dump()

    @classmethod
    def of(cls, array: ArrayLike) -> PriorTable:
        """Return the prior of an array [words x topics]."""
        found = cls()
        found._array = np.asarray(array, np.float32)
        return found

    def named(self, begun: object = None) -> PriorTable:
        """Return the prior with the names that the columns of its table have, if it has no names.

        A file that is not there gives none: the model may be a saved one.

        begun: the prior that a run which resumes began with: its names stay. None: none resumes.
        """
        if self.topics is not None or self.path is None or self.path.endswith(".npy"):
            return self
        if isinstance(begun, Mapping):
            return self.model_copy(update={"topics": begun.get("topics")})
        path = Path(self.path)
        return self.model_copy(update={"topics": columns_of(path)}) if path.is_file() else self

    def numbers(self, names: Sequence[str] | None, words: int, topics: int) -> Floats:
        """Return the prior of the words of the data, float32 [words x topics].

        names: of the words; None: a word is the number of its column, as text.

        Raises:
            ModelConfigError: there is no array, or it has another shape or numbers that are no
                prior; or a table has a word twice, or none of the data.
            DataError, OSError: the file cannot be read.
        """
        if self._array is not None:
            return checked(self._array, words, topics, "eta")
        if self.path is None:
            raise ModelConfigError(
                "LDA: eta.path=null: must be a file. Only arrays given in Python have none."
            )
        path = Path(self.path)
        if path.suffix == ".npy":
            return checked(load_npy(path), words, topics, f"eta: {path}")
        every = map(str, range(words)) if names is None else names
        columns = {name: column for column, name in enumerate(every)}
        return checked(self._read(path, columns, topics), words, topics, f"eta: {path}")

    def _read(self, path: Path, columns: Mapping[str, int], topics: int) -> Floats:
        """Return the numbers of a table."""
        # imported late: it loads all of Arrow
        from blocklearn.datasources.tables.read_table import read_table

        numbers = columns_of(path)
        if len(numbers) != topics:
            raise ModelConfigError(
                f"LDA: eta: {path}: {len(numbers)} columns beside {WORD!r}: must be {topics}, one "
                "for each topic."
            )
        table = np.full((len(columns), topics), self.other, np.float32)
        seen: set[str] = set()
        for batch in read_table(path, numbers=numbers, text=[WORD]):
            listed = batch[WORD].to_pylist()
            values = np.stack([np.asarray(batch[name], np.float32) for name in numbers], axis=1)
            for word, row in zip(listed, values, strict=True):
                if word in seen:
                    raise ModelConfigError(
                        f"LDA: eta: {path}: the word {word!r} has two rows: must have one."
                    )
                seen.add(word)
                if word in columns:
                    table[columns[word]] = row
        if not seen & columns.keys():
            raise ModelConfigError(
                f"LDA: eta: {path}: none of its {len(seen)} words is in the data. Write them as "
                "`learn topics` lists them."
            )
        return table


def columns_of(path: Path) -> list[str]:
    """Return the names of the columns of numbers of a table."""
    # imported late: it loads all of Arrow
    from blocklearn.datasources.tables.read_table import column_names

    return [name for name in column_names(path) if name != WORD]


def checked(found: NDArray[np.generic], words: int, topics: int, what: str) -> Floats:
    """Return an array as float32 [words x topics].

    Raises:
        ModelConfigError: it has another shape, or numbers that are no prior.
    """
    if found.ndim != 2 or found.dtype.kind not in "fiu" or found.shape != (words, topics):
        turned = " Transpose it." if found.shape == (topics, words) else ""
        raise ModelConfigError(
            f"LDA: {what}: {found.dtype.name} {list(found.shape)}: must be numbers "
            f"[words x topics], here [{words}, {topics}].{turned}"
        )
    with np.errstate(over="ignore"):
        table: Floats = np.ascontiguousarray(found, np.float32)
    bad = np.argwhere(~((table > 0) & (table < MOST)))
    if len(bad):
        word, topic = bad[0].tolist()
        raise ModelConfigError(
            f"LDA: {what}: word {word}, topic {topic} has {found[word, topic]}: {RULE}."
        )
    return table
