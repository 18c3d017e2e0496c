"""Read documents as counts of their words."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from ..packed.streams import kind_of
from ..parsing.layout import FIRST, UNKNOWN, Known, Layout, Place, Rows, Sparse
from ..parsing.scratch import Scratch
from ..text.word_columns import REMEMBERED, WordColumns
from ..text.word_table import WordTable
from .csv_texts import CsvTexts
from .documents import Documents, JsonLines, TextFolder, TextLines
from .parquet_texts import ParquetTexts
from .vocabulary import Limits, Vocabulary, choose_words


class TextRows:
    """Documents as sparse rows that count each word (see `text.words`).

    The files are read twice if columns are not hashed and no model gives the words.
    """

    def __init__(
        self,
        documents: Documents,
        scratch: Scratch,
        known: Known | None,
        limits: Limits,
    ) -> None:
        """Find the vocabulary."""
        self._documents = documents
        found = choose_words(documents.name, words_of(documents), scratch, known, limits)
        self._vocabulary = Vocabulary(found)
        self.layout = Layout(
            len(found),
            names=found,
            targets=len(documents.targets),
            target_names=list(documents.targets) or None,
            named=True,
        )

    def chunks(self, start: Place = FIRST) -> Iterator[Rows]:
        """Yield all rows from `start` on."""
        columns = WordColumns(self._vocabulary.__getitem__)
        for after, documents in self._documents.chunks(start):
            names, texts, targets = list[str](), list[str](), list[Sequence[float]]()
            for document in documents:
                names.append(document.name)
                texts.append(document.text)
                targets.append(document.targets)
            indptr, indices, values, unknown = columns.rows(texts)
            remarks = {UNKNOWN: unknown} if unknown else {}
            shape = len(targets), self.layout.targets  # also if there are no documents
            table = np.array(targets, np.float32).reshape(shape) if self.layout.targets else None
            X = Sparse(indptr, indices, values.astype(np.float32))
            yield Rows(X, after, table, ids=names, remarks=remarks)


def words_of(documents: Documents) -> Iterator[tuple[int, Mapping[str, int]]]:
    """Yield numbers of documents, and in how many of them each of their words is."""
    table = WordTable()
    for _, chunk in documents.chunks():
        if len(table.words) > REMEMBERED:
            table = WordTable()
        texts = [document.text for document in chunk]
        numbers, found = np.unique(table.count(texts).numbers, return_counts=True)
        words = map(table.words.__getitem__, numbers.tolist())
        yield len(texts), dict(zip(words, found.tolist(), strict=True))


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
    return TextRows(documents, scratch, known, Limits(min_df, max_df, hash_bits))


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
    return TextRows(documents, scratch, known, Limits(min_df, max_df, hash_bits))


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
    return TextRows(documents, scratch, known, Limits(min_df, max_df, hash_bits))


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
