"""Read documents as counts of their words."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from ..packed.streams import kind_of
from ..parsing.layout import FIRST, UNKNOWN, Known, Layout, Place, Rows
from ..parsing.scratch import Scratch
from ..text.words import words
from .bags import Bags
from .csv_texts import CsvTexts
from .documents import Documents, JsonLines, TextFolder, TextLines
from .parquet_texts import ParquetTexts
from .vocabulary import Vocabulary, choose_words


class TextRows:
    """Documents as sparse rows that count each word (see `text.words`).

    min_df: leave out words in fewer documents.
    max_df: leave out words in more than this share of the documents.
    hash_bits: use 2**hash_bits hashed columns for all words; None: one column per word.

    The files are read twice if columns are not hashed and no model gives the words.
    """

    def __init__(
        self,
        documents: Documents,
        scratch: Scratch,
        known: Known | None = None,
        *,
        min_df: int = 1,
        max_df: float = 1.0,
        hash_bits: int | None = None,
    ) -> None:
        """Find the vocabulary."""
        self._documents = documents
        found = choose_words(
            documents.name,
            (set(words(d.text)) for _, chunk in documents.chunks() for d in chunk),
            scratch,
            known,
            min_df=min_df,
            max_df=max_df,
            hash_bits=hash_bits,
        )
        self._vocabulary = Vocabulary(found)
        self._layout = Layout(
            len(found),
            names=found,
            targets=len(documents.targets),
            target_names=list(documents.targets) or None,
            named=True,
        )

    @property
    def layout(self) -> Layout:
        """The layout, from vocabulary and targets."""
        return self._layout

    def chunks(self, start: Place = FIRST) -> Iterator[Rows]:
        """Yield all rows from `start` on."""
        bags = Bags(self._vocabulary)
        for after, documents in self._documents.chunks(start):
            names, targets = [], []
            for document in documents:
                counts = Counter(words(document.text))
                bags.add(counts.keys(), counts.values())
                names.append(document.name)
                targets.append(document.targets)
            X, unknown = bags.take()
            remarks = {UNKNOWN: int(unknown.sum())} if unknown.size else {}
            shape = len(targets), self._layout.targets  # also if there are no documents
            table = np.array(targets, np.float32).reshape(shape) if self._layout.targets else None
            yield Rows(X, after, table, ids=names, remarks=remarks)


def text_rows(
    paths: Sequence[Path],
    scratch: Scratch,
    known: Known | None = None,
    *,
    min_df: int = 1,
    max_df: float = 1.0,
    hash_bits: int | None = None,
) -> TextRows:
    """Read a document per line of the files, or per .txt file in a folder."""
    documents: Documents = TextLines(paths, scratch)
    if paths[0].is_dir():
        documents = TextFolder(paths[0], scratch)
    return TextRows(documents, scratch, known, min_df=min_df, max_df=max_df, hash_bits=hash_bits)


def json_rows(
    paths: Sequence[Path],
    scratch: Scratch,
    known: Known | None = None,
    *,
    text: str = "text",
    targets: Sequence[str] = (),
    ids: str | None = None,
    min_df: int = 1,
    max_df: float = 1.0,
    hash_bits: int | None = None,
) -> TextRows:
    """Read a document per line of JSON; see `JsonLines`."""
    documents = JsonLines(paths, scratch, text=text, targets=targets, ids=ids)
    return TextRows(documents, scratch, known, min_df=min_df, max_df=max_df, hash_bits=hash_bits)


def table_text_rows(
    paths: Sequence[str | Path],
    scratch: Scratch,
    known: Known | None = None,
    *,
    text: str = "text",
    targets: Sequence[str] = (),
    ids: str | None = None,
    separator: str | None = None,
    min_df: int = 1,
    max_df: float = 1.0,
    hash_bits: int | None = None,
) -> TextRows:
    """Read a document per row of a table; see `table_texts`."""
    documents = table_texts(
        paths, scratch, text=text, targets=targets, ids=ids, separator=separator
    )
    return TextRows(documents, scratch, known, min_df=min_df, max_df=max_df, hash_bits=hash_bits)


def table_texts(
    paths: Sequence[str | Path],
    scratch: Scratch,
    *,
    text: str = "text",
    targets: Sequence[str] = (),
    ids: str | None = None,
    separator: str | None = None,
) -> Documents:
    """Read texts in a column: `CsvTexts` for CSV and TSV, else `ParquetTexts`."""
    if kind_of(Path(paths[0])) not in (".csv", ".tsv"):
        return ParquetTexts(paths, scratch, text=text, targets=targets, ids=ids)
    files = [Path(path) for path in paths]
    return CsvTexts(files, scratch, text=text, targets=targets, ids=ids, separator=separator)
