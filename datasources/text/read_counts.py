"""Reads existing word counts: a sparse matrix and a file of its words."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from ..arrays.accept import CSR, accept
from ..arrays.hashed_names import HashedWords
from ..errors import DataError
from ..parsing.announced import check_announced
from ..parsing.array_files import load_file
from ..parsing.lines import read_lines
from .corpus import Corpus, columns_of


def read_matrix(path: Path, vocabulary: Sequence[str] | None, *, signed: bool = False) -> Corpus:
    """Read a matrix [documents, words] from a .npz or .mtx file.

    - vocabulary: the words of a trained model, or None. Columns are matched by word.
    - signed: allow negative values, for features that are no counts.

    The words come from `vocab.txt` in the same folder, if it exists. Otherwise they are the column
    numbers if `vocabulary` is None, `HashedWords` or only numbers, else `vocabulary` itself. Raises
    `DataError` with file and row.
    """
    counts = read_sparse(path, signed)
    rows, columns = counts.shape
    documents = [f"row {i}" for i in range(rows)]
    listed = path.with_name("vocab.txt")
    if listed.exists():
        found = [word.strip() for _, word in read_lines(listed)]
        check_words(path, counts, found, str(listed))
        corpus = Corpus(counts, found, documents)
        return corpus if vocabulary is None else corpus.over(vocabulary)
    if vocabulary is None or isinstance(vocabulary, HashedWords) or numbers_only(vocabulary):
        check_announced(path, "columns", columns, counts.nnz)
        corpus = Corpus(counts, [str(i) for i in range(columns)], documents)
        return corpus if vocabulary is None else corpus.over(vocabulary)
    check_words(path, counts, vocabulary, "the vocabulary")
    return Corpus(counts, list(vocabulary), documents)


def numbers_only(words: Sequence[str]) -> bool:
    """Whether all words are column numbers, as of counts without words."""
    return all(word.isascii() and word.isdigit() for word in words)


def read_sparse(path: Path, signed: bool) -> Any:
    """Read the matrix as a verified float32 `csr_array`, >= 0 unless `signed`."""
    matrix = load_file(path, "a sparse matrix")
    if isinstance(matrix, np.ndarray):  # a Matrix Market file may be dense
        matrix = sparse.csr_array(matrix)
    csr = accept(matrix, f"{path}: the matrix")
    assert isinstance(csr, CSR)
    negative = np.flatnonzero(csr.values < 0)
    if negative.size and not signed:
        row = int(np.searchsorted(csr.indptr, negative[0], side="right")) - 1
        raise DataError(
            f"{path}: row {row}, column {csr.indices[negative[0]]} is {csr.values[negative[0]]}, "
            "but a count must not be negative. Give features that are no counts to a model that "
            "takes them, such as svd or kmeans."
        )
    return sparse.csr_array(
        (csr.values.astype(np.float32, copy=False), csr.indices, csr.indptr), shape=matrix.shape
    )


def check_words(path: Path, counts: Any, words: Sequence[str], name: str) -> None:
    """Raise `DataError` unless there is one word for each column, and none twice."""
    rows, columns = counts.shape
    if len(words) != columns:
        hint = "; documents must be rows: transpose the matrix" if len(words) == rows else ""
        raise DataError(
            f"{path}: the matrix has {columns} columns, but {name} has {len(words)} words{hint}."
        )
    try:
        columns_of(words)
    except DataError as error:
        raise DataError(f"{name}: {error}") from error
