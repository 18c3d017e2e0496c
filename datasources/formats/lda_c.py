"""Read LDA-C text: `terms word:count word:count ...` per document.

`terms` is how many pairs follow; words count from 0. D. Blei, *lda-c*, 2003-2006, which the package
of the paper reads: Blei, Ng, Jordan, JMLR 3 (2003). gensim calls it BleiCorpus.
"""

import tempfile
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy import sparse

from ..arrays.hashed_names import HashedWords
from ..errors import DataError
from ..parsing.layout import FIRST, Known, Layout, Place, Rows, check_columns
from ..parsing.lines import Lines, line_chunks, split_lines
from ..parsing.scratch import Scratch
from ..text.corpus import Corpus
from ..text.read_counts import numbers_only
from .adapters import as_csr
from .libsvm import SLOW
from .libsvm_lines import Parsed, parse
from .names import listed_names

BESIDE = ("{stem}.vocab", "{stem}.tokens", "vocab.txt")
"""Names of files of words that are looked for beside `stem.ldac`, in this order."""


class LdaCFile:
    """Reads the documents of LDA-C files.

    Without names of words, the files are read twice, first to find the largest number of a word.

    vocabulary: a file with the word of each column; default: the first of `BESIDE` that exists.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        scratch: Scratch,
        known: Known | None = None,
        *,
        vocabulary: Path | None = None,
    ) -> None:
        """Find the columns."""
        self._paths, self._scratch = paths, scratch
        listed = vocabulary or beside(paths[0])
        names: Sequence[str] | None = None
        if known is not None:
            columns, names = known.columns, known.names
        elif listed is not None:
            names = listed_names(listed)
            columns = len(names)
        else:
            columns = scratch.remember("lda-c.json", self._count)
        self.layout = Layout(check_columns(paths[0], columns), names=names)

    def chunks(self, start: Place = FIRST) -> Iterator[Rows]:
        """Yield all rows from `start` on."""
        for chunk in line_chunks(self._paths, self._scratch, start):
            parsed = parsed_counts(chunk)
            entry = first(parsed.X.indices >= self.layout.columns)
            if entry >= 0:
                row = int(np.searchsorted(parsed.X.indptr, entry, side="right")) - 1
                raise DataError(
                    f"{place_of(chunk, row)}: word {parsed.X.indices[entry]}: must be below "
                    f"{self.layout.columns:,}, the number of words. Give the list of all words."
                )
            yield Rows(parsed.X, chunk.next, remarks={SLOW: parsed.slow} if parsed.slow else {})

    def _count(self) -> int:
        """Return the largest number of a word, plus 1."""
        columns = 0
        for chunk in line_chunks(self._paths, self._scratch):
            columns = max(columns, int(parsed_counts(chunk).X.indices.max(initial=-1)) + 1)
        return columns


def read_lda_c(path: Path, vocabulary: Sequence[str] | None) -> Corpus:
    """Read the counts in an LDA-C file.

    vocabulary: the words of a trained model, matched by word; a file without words has its columns.
    """
    with tempfile.TemporaryDirectory(prefix="blocklearn-") as folder:
        file = LdaCFile([path], Scratch(Path(folder)))
        names = file.layout.names
        if names is None and vocabulary is not None and not numbered(vocabulary):
            file = LdaCFile([path], Scratch(Path(folder)), Known(len(vocabulary), vocabulary))
            names = vocabulary
        columns = file.layout.columns
        counts = sparse.vstack([as_csr(rows, columns) for rows in file.chunks()], "csr")
    named = [str(i) for i in range(columns)] if names is None else list(names)
    corpus = Corpus(counts, named, [f"row {i}" for i in range(counts.shape[0])])
    return corpus if vocabulary is None else corpus.over(vocabulary)


def numbered(words: Sequence[str]) -> bool:
    """Return whether columns are found by number: hashed ones, and those without words."""
    return isinstance(words, HashedWords) or numbers_only(words)


def beside(path: Path) -> Path | None:
    """Return the file of words beside `path`; None: there is none."""
    stem = path.name.partition(".")[0]
    found = (path.with_name(name.format(stem=stem)) for name in BESIDE)
    return next((file for file in found if file.exists()), None)


def parsed_counts(chunk: Lines) -> Parsed:
    """Parse the documents of a chunk.

    Raises:
        DataError: a line does not begin with the number of its pairs, or a count is negative.
    """
    parsed = parse(chunk, 0)
    if parsed.grouped:
        line = next(number for number, line in split_lines(chunk) if b"qid:" in line)
        raise DataError(f"{chunk.path}:{line}: qid: must not be in LDA-C. Is it LIBSVM?")
    row = first(parsed.counts != 1)
    if row >= 0:
        raise DataError(f"{place_of(chunk, row)}: must begin with the number of pairs that follow.")
    pairs = np.diff(parsed.X.indptr)
    row = first(parsed.labels != pairs)
    if row >= 0:
        raise DataError(
            f"{place_of(chunk, row)}: {pairs[row]} pairs word:count, but the line begins with "
            f"{parsed.labels[row]:g}: must be their number. Is it LDA-C? LIBSVM has a label there."
        )
    entry = first(parsed.X.values < 0)
    if entry >= 0:
        row = int(np.searchsorted(parsed.X.indptr, entry, side="right")) - 1
        raise DataError(
            f"{place_of(chunk, row)}: count {parsed.X.values[entry]:g}: must not be negative."
        )
    return parsed


def first(found: npt.NDArray[np.bool_]) -> int:
    """Return the first place that is true, or -1."""
    return int(found.argmax()) if found.any() else -1


def place_of(chunk: Lines, row: int) -> str:
    """Return file and line of a row: lines without words have no row."""
    lines = (number for number, line in split_lines(chunk) if line.partition(b"#")[0].split())
    return f"{chunk.path}:{next(islice(lines, row, None))}"
