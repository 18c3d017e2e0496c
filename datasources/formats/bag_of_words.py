"""Read the UCI bag of words: `docword.NAME.txt`, with words in `vocab.NAME.txt`.

Three lines with the numbers of documents, words and entries, then `document word count` per line,
counted from 1. D. Newman, UCI Machine Learning Repository, data set Bag of Words (2008).
"""

from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from ..errors import DataError
from ..parsing.entries import Size, read_entries
from ..parsing.layout import Known, Layout, Place, check_columns
from ..parsing.lines import placed_lines
from ..parsing.numbers import INTEGER, show
from ..parsing.scratch import Scratch
from .grouping import Grouped, group
from .names import names_beside, read_names

HEAD = ("documents", "words", "entries")


def bag_of_words(
    paths: Sequence[Path],
    scratch: Scratch,
    known: Known | None = None,
    *,
    vocabulary: Path | None = None,
) -> Grouped:
    """Read the documents of a file.

    Repeated counts of a word in a document are added.

    vocabulary: a file with the word of each column; default: `vocab.NAME.txt`, then `vocab.txt`,
        in the same folder.

    Raises `DataError`.
    """
    if len(paths) > 1:
        raise DataError(f"{paths[1]}: a bag of words is one file; convert each by itself.")
    path = paths[0]
    size, body = read_head(path, scratch)
    columns = check_columns(path, size.columns, known)
    if known is not None:
        names = known.names
    else:
        listed = vocabulary or path.with_name(vocabulary_of(path.name))
        if listed.exists() or vocabulary is not None:
            names = read_names(listed, columns)
        else:
            names = names_beside(path, columns)
    parts = group(str(path), read_entries(path, size, body, scratch), size.rows, scratch)
    return Grouped(str(path), Layout(columns, names=names), parts, scratch)


def vocabulary_of(name: str) -> str:
    """Return the name of the file of words for a file of counts.

    >>> vocabulary_of("docword.nips.txt.gz")
    'vocab.nips.txt'
    """
    stem, _, _ = name.rpartition(".txt")
    return "vocab" + stem.removeprefix("docword") + ".txt"


def read_head(path: Path, scratch: Scratch) -> tuple[Size, Place]:
    """Read the sizes, and return the place of the first entry. Raises `DataError`."""
    found: list[int] = []
    place = Place()
    for what, (number, line, after) in zip(
        HEAD, islice(placed_lines(path, scratch), len(HEAD)), strict=False
    ):
        text = line.strip()
        if not INTEGER.fullmatch(text) or not int(text):
            raise DataError(f"{path}:{number}: {show(line)}: must be the number of {what}.")
        found.append(int(text))
        place = after
    if len(found) < len(HEAD):
        raise DataError(f"{path}: cut off; it must begin with the numbers of {', '.join(HEAD)}.")
    documents, words, entries = found
    return Size(documents, words, entries), place
