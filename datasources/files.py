"""Word counts from a file or folder, by the end of its name."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from .corpus import Corpus, check_limits, count_words
from .count_files import read_matrix
from .errors import DataError
from .target_files import read_targets
from .text import words
from .text_files import read_folder, read_json_lines, read_lines

JSON_LINES = (".jsonl", ".ndjson")
TEXTS = (".txt", *JSON_LINES)
MATRICES = (".npz", ".mtx")
TABLES = (".csv", ".tsv", ".parquet")


def is_text_or_counts(path: Path) -> bool:
    """Whether `read_counts` can tell what is at `path`."""
    if path.name.startswith("docword"):  # UCI's bags of words end in .txt, too
        return False
    return path.suffix in (*MATRICES, *TEXTS) or (path.is_dir() and any(path.rglob("*.txt")))


def read_counts(
    path: str | Path,
    vocabulary: Sequence[str] | None = None,
    *,
    min_df: int = 1,
    max_df: float = 1.0,
    targets: str | Path | None = None,
    signed: bool = False,
    text: str = "text",
) -> Corpus:
    """Count the words of the documents at `path`.

    Text: `x.txt`, a document per line; `x.jsonl`, a document per line as `{"text": ...}` (`text`:
    the name of the field); both perhaps packed (`.gz`, `.zst`, ...); a folder, a document per .txt
    file. All UTF-8. Words as in `text.words`, without those in fewer than `min_df` documents or
    more than a share `max_df`.

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
    check_limits(min_df, max_df)
    if not path.exists():
        raise DataError(f"{path}: there is no such file or folder.")
    if path.suffix in MATRICES:
        corpus = read_matrix(path, vocabulary, signed=signed)
    elif path.is_dir() or text_kind(path) in TEXTS:
        texts = read_texts(path, text)
        corpus = count_words(((name, words(content)) for name, content in texts), vocabulary)
        if not corpus.documents:
            what = "no .txt files in it, at any depth" if path.is_dir() else "no documents in it"
            raise DataError(f"{path}: {what}.")
        if not corpus.vocabulary:
            raise DataError(
                f"{path}: no words in its {len(corpus.documents)} documents; a word has three or "
                "more letters and is no function word such as 'the'."
            )
    else:
        kinds = ", ".join([*TEXTS, *MATRICES])
        raise DataError(
            f"{path}: unknown kind; name a folder of .txt files or one of {kinds}. {hint(path)}"
        )
    if targets is not None:
        table, names = read_targets(Path(targets), len(corpus.documents))
        corpus = replace(corpus, targets=table, target_names=names)
    if vocabulary is not None or (min_df, max_df) == (1, 1.0):
        return corpus  # with all columns: counts have some that no document uses
    return corpus.limit(min_df=min_df, max_df=max_df)


def hint(path: Path) -> str:
    """What to do with a file that cannot be read here."""
    if path.suffix not in TABLES:
        return "`learn convert` makes blocks of others."
    read = "parquet" if path.suffix == ".parquet" else "csv"
    return (
        "Texts in a column of a table become JSON lines with pandas: "
        f'pandas.read_{read}({path.name!r})[["text"]].to_json("texts.jsonl", orient="records", '
        "lines=True); `learn convert` makes blocks of tables of counts."
    )


def read_texts(path: Path, field: str) -> Iterator[tuple[str, str]]:
    """Names and texts of the documents at `path`."""
    if path.is_dir():
        return read_folder(path)
    return read_lines(path) if text_kind(path) == ".txt" else read_json_lines(path, field)


def text_kind(path: Path) -> str:
    """The end of the name of a file, without that of a packer."""
    from .formats.streams import kind_of

    return kind_of(path)
