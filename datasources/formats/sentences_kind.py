"""Configure texts as data whose rows are words, in their order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import Field

from ..data_kind import MemoryKind, Separator, check_rows_held
from ..examples.docstrings import docstring_texts
from ..holdout.samples import Reading, Samples, check_parts
from ..holdout.split import HoldBy, split_rows
from ..source import DataSource
from ..text.sentences import Sentences, all_words, read_sentences
from .word_counts import matching, read_texts


class SentencesData(MemoryKind):
    """Texts whose rows are words in their order: `{kind: sentences, path: texts.txt}`.

    A row has one entry, in the column of its word; an empty row ends a text. Words are runs of
    letters, in lower case; no word is left out for its meaning.
    """

    kind: Literal["sentences"] = "sentences"
    path: Path | None = Field(
        None,
        description=".txt (a text per line), .jsonl, .csv, .tsv or .parquet file (all perhaps "
        ".gz), or a folder of .txt or .parquet files; or a pattern of such names, in quotes; null: "
        "the docstrings of Python's standard library",
    )
    min_count: int = Field(5, ge=1, description="leave out words that occur less often")
    text: str = Field("text", description="field (.jsonl) or column (tables) with the text")
    separator: Separator = None

    def files(self) -> Iterator[Path]:
        """Yield the files of texts."""
        if self.path is not None:
            yield from matching(self.path)

    def texts(self) -> Iterator[tuple[str, str]]:
        """Yield the name and the text of each document."""
        if self.path is None:
            return docstring_texts()
        files = matching(self.path)
        return chain.from_iterable(read_texts(file, self.text, self.separator) for file in files)

    def load(self, like: DataSource | None = None) -> Samples:
        """Load the words of all texts."""
        return samples_of(self._read(None if like is None else like.names))

    def _read(self, vocabulary: Sequence[str] | None) -> Sentences:
        words = (all_words(text) for _, text in self.texts())
        return read_sentences(words, vocabulary, min_count=self.min_count)

    def hold_out(
        self, share: float, reading: Reading, held: Reading, by: HoldBy | None = None
    ) -> tuple[DataSource, DataSource]:
        """Return both parts; whole texts are held out, by a hash of their number."""
        check_rows_held(by)
        found = self._read(None)
        kept, others = split_rows(found.texts, share, reading.seed)
        check_parts(share, kept.size, others.size, "texts")
        ends = np.diff(found.X.indptr) == 0
        text = np.cumsum(ends) - ends
        is_held = np.isin(text, others)
        samples = samples_of(found)
        train = samples.rows(np.flatnonzero(~is_held)).source(reading)
        return train, samples.rows(np.flatnonzero(is_held)).source(held.like(train))


def samples_of(found: Sentences) -> Samples:
    """Return the rows to train on."""
    return Samples(found.X, found.vocabulary)
