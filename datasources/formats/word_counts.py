"""Read word counts from a file or folder; the end of its name decides the format."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from glob import glob
from itertools import chain
from pathlib import Path
from typing import Any

from ..errors import DataError
from ..packed.streams import kind_of
from ..parsing.scratch import Scratch
from ..text.corpus import Corpus, check_limits, count_texts
from ..text.read_counts import read_matrix
from ..text.read_targets import read_targets
from .documents import Documents, JsonLines, TextFolder, TextLines
from .lda_c import read_lda_c

JSON_LINES = (".jsonl", ".ndjson")
TABLES = (".csv", ".tsv", ".parquet")
MEMORY = 1 << 23  # bytes for readers of texts: small buffers stay in the cache of the processor
TEXTS = (".txt", *JSON_LINES)
MATRICES = (".npz", ".mtx")
LDA_C = (".ldac", ".lda-c")


def is_text_or_counts(path: Path) -> bool:
    """Return whether `read_counts` knows the format of `path`."""
    if path.name.startswith("docword"):  # UCI's bags of words end in .txt too
        return False
    return is_counts(path) or path.suffix in TEXTS or (path.is_dir() and any(path.rglob("*.txt")))


def is_counts(path: Path) -> bool:
    """Return whether the file at `path` has counts of words, not texts."""
    return path.suffix in MATRICES or kind_of(path) in LDA_C


def matching(path: Path) -> list[Path]:
    """Return the files that a path refers to, sorted.

    This is the path itself if it exists, else the matches of a pattern, else the path.
    """
    return [path] if path.exists() else [Path(name) for name in sorted(glob(str(path)))] or [path]


def files_at(path: str) -> Iterator[Path]:
    """Yield the files that a path refers to, and those in folders at any depth."""
    for found in matching(Path(path)):
        yield from found.rglob("*") if found.is_dir() else [found]


def is_table(path: Path) -> bool:
    """Return whether the texts at `path` are in a column of a table.

    A table is a file, or a folder of Parquet files without .txt files.
    """
    if path.is_dir():
        return not any(path.rglob("*.txt")) and any(path.rglob("*.parquet"))
    return kind_of(path) in TABLES


def text_format(
    path: str, text: str, separator: str | None = None
) -> tuple[str, Mapping[str, Any]] | None:
    """Return format and options by which `learn convert` reads the texts at `path`.

    text: field of JSON lines or column of a table. Returns None for all other files.
    """
    kinds = {kind_of(file) for file in files_at(path)} & {*TEXTS, *TABLES}
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

    path: texts, or counts; a pattern (`part-*.jsonl`) of files of texts works too.
        `x.txt`: a document per line.
        `x.jsonl`: a document per line as `{"text": ...}`; `text` names the field.
        `x.csv`, `x.tsv`: a document per record, in the column `text`.
        `x.parquet`, or a folder of such files: a document per row, in the column `text`.
        A folder of .txt files: a document per file.
        `x.npz` (from `scipy.sparse.save_npz`), `x.mtx` (Matrix Market): counts, a row per document.
            `vocab.txt` beside the file has the word of each column, one per line.
        `x.ldac`, `x.lda-c`: counts in LDA-C text, with words as `LdaCFile` finds them.
    vocabulary: a trained model's words. They are the columns, whatever their frequency, and other
        words are counted in `dropped`. Counts without a `vocab.txt` must have its columns.
        `HashedWords` have a column for every word.
    min_df: leave out words in fewer documents.
    max_df: leave out words in more than this share of the documents.
    targets: a file with the targets of the documents, see `target_files.read_targets`.
    signed: whether numbers in .npz and .mtx files may be negative, as features that are not counts.
    separator: between fields of tables; None: a tab in .tsv files, else a comma.

    Texts are UTF-8 and may be packed (`.gz`, `.zst`, ...). `text.words` says which words count.
    Raises `DataError`, naming file and line (or row), for data that cannot be read.
    """
    path = Path(path)
    paths = matching(path)
    check_limits(min_df, max_df)
    if not paths[0].exists():
        raise DataError(f"{path}: file or folder does not exist.")
    if path.suffix in MATRICES:
        corpus = read_matrix(path, vocabulary, signed=signed)
    elif is_counts(path):
        corpus = read_lda_c(path, vocabulary)
    elif all(file.is_dir() or kind_of(file) in (*TEXTS, *TABLES) for file in paths):
        texts = chain.from_iterable(read_texts(file, text, separator) for file in paths)
        corpus = count_texts(texts, vocabulary)
        if not corpus.documents:
            what = "has no documents"
            if path.is_dir():
                what = "has no .txt or .parquet files, at any depth"
            raise DataError(f"{path}: {what}.")
        if not corpus.vocabulary:
            raise DataError(
                f"{path}: no words in its {len(corpus.documents)} documents; a word has three or "
                "more letters and is not a function word such as 'the'."
            )
    else:
        kinds = ", ".join([*TEXTS, *TABLES, *MATRICES, *LDA_C])
        raise DataError(
            f"{path}: unknown kind; name a folder of .txt files or one of {kinds}. "
            "`learn convert` makes blocks of others."
        )
    if targets is not None:
        table, names = read_targets(Path(targets), len(corpus.documents))
        corpus = replace(corpus, targets=table, target_names=names)
    if vocabulary is not None or (min_df, max_df) == (1, 1.0):
        return corpus  # keep all columns, also those that no document uses
    return corpus.limit(min_df=min_df, max_df=max_df, name=str(path))


def read_texts(path: Path, field: str, separator: str | None) -> Iterator[tuple[str, str]]:
    """Yield names and texts of the documents at `path`.

    field: of JSON lines, or column of a table, with the text.
    """
    from .text_rows import table_texts  # imported late: lines need no Parquet

    scratch, found = Scratch(path.parent, MEMORY), [path]
    documents: Documents
    if is_table(path):
        documents = table_texts(found, scratch, text=field, separator=separator)
    elif path.is_dir():
        documents = TextFolder(path, scratch)
    elif kind_of(path) == ".txt":
        documents = TextLines(found, scratch)
    else:
        documents = JsonLines(found, scratch, text=field)
    return (document[:2] for _, chunk in documents.chunks() for document in chunk)
