"""Word counts from a file or folder, by the end of its name."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from glob import glob
from itertools import chain
from pathlib import Path
from typing import Any

from ..errors import DataError
from ..text.corpus import Corpus, check_limits, count_words
from ..text.read_counts import read_matrix
from ..text.read_targets import read_targets
from ..text.read_texts import read_folder, read_json_lines, read_lines
from ..text.words import words

JSON_LINES = (".jsonl", ".ndjson")
TABLES = (".csv", ".tsv", ".parquet")
TEXTS = (".txt", *JSON_LINES)
MATRICES = (".npz", ".mtx")


def is_text_or_counts(path: Path) -> bool:
    """Whether `read_counts` can tell what is at `path`."""
    if path.name.startswith("docword"):  # UCI's bags of words end in .txt, too
        return False
    return path.suffix in (*MATRICES, *TEXTS) or (path.is_dir() and any(path.rglob("*.txt")))


def matching(path: Path) -> list[Path]:
    """What is meant by a path: what has that name, else what matches it as a pattern, sorted; the
    path itself where nothing does.
    """
    return [path] if path.exists() else [Path(name) for name in sorted(glob(str(path)))] or [path]


def files_at(path: str) -> Iterator[Path]:
    """What is meant by a path, with what is in folders, at any depth, in place of these."""
    for found in matching(Path(path)):
        yield from found.rglob("*") if found.is_dir() else [found]


def is_table(path: Path) -> bool:
    """Whether the texts at `path` are in a column of a table: a file, or a folder of Parquet files
    without .txt files.
    """
    if path.is_dir():
        return not any(path.rglob("*.txt")) and any(path.rglob("*.parquet"))
    return text_kind(path) in TABLES


def text_format(
    path: str, text: str, separator: str | None = None
) -> tuple[str, Mapping[str, Any]] | None:
    """Format and options by which `learn convert` reads the texts in a field of JSON lines, or in a
    column of a table; None where `path`, or what is in this folder, is neither.
    """
    kinds = {text_kind(file) for file in files_at(path)} & {*TEXTS, *TABLES}
    if kinds and kinds <= {*JSON_LINES}:
        return "json-lines", {"text": text}
    if not kinds or not kinds <= {*TABLES}:
        return None
    return "table-text", {"text": text} | ({} if separator is None else {"separator": separator})


def read_counts(
    path: str | Path,
    vocabulary: Sequence[str] | None = None,
    *,
    min_df: int = 1,
    max_df: float = 1.0,
    targets: str | Path | None = None,
    signed: bool = False,
    text: str = "text",
    separator: str | None = None,
) -> Corpus:
    """Count the words of the documents at `path`.

    Text: `x.txt`, a document per line; `x.jsonl`, a document per line as `{"text": ...}` (`text`:
    the name of the field); `x.csv`, `x.tsv`, a document per record, in the column `text`
    (separator: between fields; None: a tab in .tsv files, else a comma); all perhaps packed (`.gz`,
    `.zst`, ...); `x.parquet`, or a folder of such files, likewise; a folder, a document per .txt
    file; a pattern (`part-*.jsonl`) of these. All UTF-8. Words as in `text.words`, without
    those in fewer than `min_df` documents or more than a share `max_df`.

    Counts: `x.npz`, written by `scipy.sparse.save_npz`; `x.mtx`, Matrix Market. Rows are
    documents. A file `vocab.txt` beside it holds the word of each column, one per line.

    With a `vocabulary` (a trained model's) its words are the columns, whatever their frequency,
    and others are counted in `dropped`; counts without a `vocab.txt` must have its columns.
    `HashedWords` have a column for every word.

    targets: a file with the targets of the documents, see `target_files.read_targets`. signed:
    numbers in .npz and .mtx files may be negative, features that are no counts.

    Raises `DataError` naming file and line (or row) for whatever cannot be read.
    """
    path = Path(path)
    paths = matching(path)
    check_limits(min_df, max_df)
    if not paths[0].exists():
        raise DataError(f"{path}: there is no such file or folder.")
    if path.suffix in MATRICES:
        corpus = read_matrix(path, vocabulary, signed=signed)
    elif all(file.is_dir() or text_kind(file) in (*TEXTS, *TABLES) for file in paths):
        texts = chain.from_iterable(read_texts(file, text, separator) for file in paths)
        corpus = count_words(((name, words(content)) for name, content in texts), vocabulary)
        if not corpus.documents:
            what = "no documents in it"
            if path.is_dir():
                what = "no .txt or .parquet files in it, at any depth"
            raise DataError(f"{path}: {what}.")
        if not corpus.vocabulary:
            raise DataError(
                f"{path}: no words in its {len(corpus.documents)} documents; a word has three or "
                "more letters and is no function word such as 'the'."
            )
    else:
        kinds = ", ".join([*TEXTS, *TABLES, *MATRICES])
        raise DataError(
            f"{path}: unknown kind; name a folder of .txt files or one of {kinds}. "
            "`learn convert` makes blocks of others."
        )
    if targets is not None:
        table, names = read_targets(Path(targets), len(corpus.documents))
        corpus = replace(corpus, targets=table, target_names=names)
    if vocabulary is not None or (min_df, max_df) == (1, 1.0):
        return corpus  # with all columns: counts have some that no document uses
    return corpus.limit(min_df=min_df, max_df=max_df)


def read_texts(path: Path, field: str, separator: str | None) -> Iterator[tuple[str, str]]:
    """Names and texts of the documents at `path`."""
    if is_table(path):
        return read_table(path, field, separator)
    if path.is_dir():
        return read_folder(path)
    return read_lines(path) if text_kind(path) == ".txt" else read_json_lines(path, field)


def read_table(path: Path, column: str, separator: str | None) -> Iterator[tuple[str, str]]:
    """Names and texts of the documents in a column of a table."""
    from ..parsing.scratch import Scratch
    from .text_rows import table_texts

    texts = table_texts([path], Scratch(path.parent), text=column, separator=separator)
    return (document[:2] for _, chunk in texts.chunks() for document in chunk)


def text_kind(path: Path) -> str:
    """The end of the name of a file, without that of a packer."""
    from ..packed.streams import kind_of

    return kind_of(path)
