"""Configure texts as data: words counted in documents."""

import datetime
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from ..arrays.hashed_names import MOST_BITS, HashedWords
from ..data_kind import MemoryKind, Separator
from ..errors import DataError
from ..examples.docstrings import python_docs
from ..holdout.samples import Reading, Samples
from ..source import DataSource
from ..text.corpus import Corpus
from ..text.read_targets import read_weights
from .dates import day_of, read_dates
from .word_counts import is_counts, matching, read_counts, read_texts, text_format

HashBits = Annotated[
    int | None,
    Field(ge=1, le=MOST_BITS, description="use 2**hash_bits hashed columns; null: one per word"),
]


class PythonDocs(MemoryKind):
    """The docstrings of Python's standard library: `{kind: python-docs}`."""

    kind: Literal["python-docs"] = "python-docs"
    min_df: int = Field(4, ge=1, description="leave out words in fewer documents")
    max_df: float = Field(
        0.2, gt=0, le=1, description="leave out words in more than this share of documents"
    )
    targets: Literal["kind"] | None = Field(
        None, description="kind: does it describe a class, a function or a module?"
    )
    hash_bits: HashBits = None

    def load(self, like: DataSource | None = None) -> Samples:
        """Load the counts of all docstrings."""
        return self.open(None if like is None else like.names).samples()

    def open(
        self, vocabulary: Sequence[str] | None = None, cache_dir: Path | None = None
    ) -> Corpus:
        """Count the words of all docstrings; `vocabulary`: count only these words."""
        min_df, max_df = (self.min_df, self.max_df) if vocabulary is None else (1, 1.0)
        corpus = python_docs(cache_dir, min_df=min_df, max_df=max_df, targets=self.targets)
        if vocabulary is None and self.hash_bits is not None:
            vocabulary = HashedWords(self.hash_bits)
        return corpus if vocabulary is None else corpus.over(vocabulary)


class FileData(MemoryKind):
    """Texts or word counts from a file or folder: `{kind: file, path: docs.txt}`."""

    kind: Literal["file"] = "file"
    path: Path = Field(
        description=".txt, .jsonl, .csv, .tsv, .ldac (all perhaps .gz), .parquet, .npz or .mtx "
        "file, or a folder of .txt or .parquet files; or a pattern of such names, in quotes"
    )
    min_df: int = Field(1, ge=1, description="leave out words in fewer documents")
    max_df: float = Field(
        1.0, gt=0, le=1, description="leave out words in more than this share of documents"
    )
    targets: Path | None = Field(
        None, description=".npy, .npz or .mtx file with the targets of the documents"
    )
    weights: Path | None = Field(None, description=".npy file with the weights of the documents")
    text: str = Field("text", description="field (.jsonl) or column (tables) with the text")
    date: str | None = Field(
        None,
        description="field (.jsonl) or column (tables) with the date of a document, such as 2024, "
        "2024-05 or 2024-05-17T10:00; reports then show topics over time",
    )
    separator: Separator = None
    hash_bits: HashBits = None

    @field_validator("path", mode="before")
    @classmethod
    def _local(cls, path: Any) -> Any:
        """Refuse URLs, because `Path` would drop one of their slashes."""
        if "://" in str(path):
            raise ValueError(
                f"texts are read from local files, not from {path}; `learn convert {path} DIR "
                "--text COLUMN` makes blocks of remote Parquet files"
            )
        return path

    def files(self) -> Iterator[Path]:
        """Yield the files of documents, targets and weights."""
        yield from matching(self.path)
        yield from (path for path in (self.targets, self.weights) if path is not None)

    def conversion(self, path: str) -> tuple[str, Mapping[str, Any]] | None:
        """Return format and options for `learn convert`; None: chosen by file name.

        JSON lines and tables have the texts in the same field. Tables are not texts if these data
        are counts.
        """
        found = text_format(path, self.text, self.separator)
        if found == ("json-lines", {"text": "text"}) or is_counts(self.path):
            return None
        return found

    def load(self, like: DataSource | None = None) -> Samples:
        """Load the counts of all documents, and check that there are dates if they are wanted."""
        return self._load(like, signed=False)

    def rows_for(self, reading: Reading, like: DataSource | None = None) -> Samples:
        """Load all rows; negative numbers are refused for models that take counts only."""
        return self._load(like, signed=not reading.counts)

    def _load(self, like: DataSource | None, *, signed: bool) -> Samples:
        next(self.dates(), None)
        samples = self.open(None if like is None else like.names, signed=signed).samples()
        if self.weights is None:
            return samples
        return replace(samples, weights=read_weights(self.weights, samples.X.shape[0]))

    def texts(self) -> Iterator[tuple[str, str]]:
        """Yield the name and the text of each document; nothing for word counts."""
        if not is_counts(self.path):
            for path in matching(self.path):
                yield from read_texts(path, self.text, self.separator)

    def dates(self) -> Iterator[tuple[str, datetime.date]]:
        """Yield the name and the date of each document that has a date.

        Raises:
            DataError: the documents have no column of this name, or none of its dates is readable.
        """
        if self.date is None:
            return
        found = 0
        for path in matching(self.path):
            for name, text in read_dates(path, self.date, self.separator):
                day = day_of(text)
                if day is not None:
                    found += 1
                    yield name, day
        if not found:
            raise DataError(
                f"{self.path}: date={self.date!r}: no document has such a date. Write dates as "
                "2024, 2024-05 or 2024-05-17."
            )

    def open(self, vocabulary: Sequence[str] | None = None, *, signed: bool = False) -> Corpus:
        """Count the words of all documents; `vocabulary`: count only these words.

        signed: whether numbers of .npz and .mtx files may be negative. With targets they always
        may: they are features.
        """
        hashed = None if self.hash_bits is None else HashedWords(self.hash_bits)
        limited = self.min_df > 1 or self.max_df < 1.0
        if vocabulary is None and not limited:
            vocabulary = hashed  # hashed columns need no list of words
        corpus = read_counts(
            self.path,
            vocabulary,
            min_df=self.min_df,
            max_df=self.max_df,
            targets=self.targets,
            signed=signed or self.targets is not None,
            text=self.text,
            separator=self.separator,
        )
        return corpus.over(hashed) if vocabulary is None and hashed is not None else corpus
