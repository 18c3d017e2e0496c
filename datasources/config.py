"""What a configuration may say about data: one class per kind, with the names of the YAML file."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from .corpus import Corpus
from .errors import DataError
from .features import MOST_BITS, HashedWords
from .files import read_counts
from .python_docs import python_docs
from .split import split_rows

HashBits = Annotated[
    int | None,
    Field(ge=1, le=MOST_BITS, description="2**hash_bits hashed columns; null: one for each word"),
]


class PythonDocs(BaseModel, extra="forbid"):
    """The docstrings of Python's standard library: `{kind: python-docs}`."""

    kind: Literal["python-docs"] = "python-docs"
    min_df: int = Field(4, ge=1, description="least number of documents that have a word")
    max_df: float = Field(0.2, gt=0, le=1, description="largest share of documents that have it")
    targets: Literal["kind"] | None = Field(
        None, description="kind: does it describe a class, a function or a module?"
    )
    hash_bits: HashBits = None

    def open(
        self, vocabulary: Sequence[str] | None = None, cache_dir: Path | None = None
    ) -> Corpus:
        """Counts of all docstrings, over the words of `vocabulary` if one is given."""
        min_df, max_df = (self.min_df, self.max_df) if vocabulary is None else (1, 1.0)
        corpus = python_docs(cache_dir, min_df=min_df, max_df=max_df, targets=self.targets)
        if vocabulary is None and self.hash_bits is not None:
            vocabulary = HashedWords(self.hash_bits)
        return corpus if vocabulary is None else corpus.over(vocabulary)


class FileData(BaseModel, extra="forbid"):
    """Texts or word counts from a file or folder: `{kind: file, path: docs.txt}`."""

    kind: Literal["file"] = "file"
    path: Path = Field(description=".txt, .jsonl, .npz or .mtx file, or a folder of .txt files")
    min_df: int = Field(1, ge=1, description="least number of documents that have a word")
    max_df: float = Field(1.0, gt=0, le=1, description="largest share of documents that have it")
    targets: Path | None = Field(
        None, description=".npy, .npz or .mtx file with the targets of the documents"
    )
    hash_bits: HashBits = None

    def open(self, vocabulary: Sequence[str] | None = None) -> Corpus:
        """Counts of all documents, over the words of `vocabulary` if one is given.

        With targets they are features, which may be negative.
        """
        hashed = None if self.hash_bits is None else HashedWords(self.hash_bits)
        limited = self.min_df > 1 or self.max_df < 1.0
        if vocabulary is None and not limited:
            vocabulary = hashed  # no list of words is ever made
        corpus = read_counts(
            self.path,
            vocabulary,
            min_df=self.min_df,
            max_df=self.max_df,
            targets=self.targets,
            signed=self.targets is not None,
        )
        return corpus.over(hashed) if vocabulary is None and hashed is not None else corpus


class Holdout(BaseModel, extra="forbid"):
    """A part of the training data, set aside: `{kind: holdout, share: 0.05}`."""

    kind: Literal["holdout"] = "holdout"
    share: float = Field(0.05, gt=0, lt=1, description="share of the rows that are held out")

    def split(self, corpus: Corpus, seed: int = 0) -> tuple[Corpus, Corpus]:
        """The documents to train on and those held out. Raises `DataError` if a part is empty."""
        train, held = split_rows(len(corpus.documents), self.share, seed)
        if not train.size or not held.size:
            raise DataError(
                f"Holdout: share={self.share} of {len(corpus.documents)} documents leaves "
                f"{train.size} to train on and {held.size} to evaluate, but both need one; "
                "change the share."
            )
        return corpus.rows(train), corpus.rows(held)


TrainData = Annotated[PythonDocs | FileData, Field(discriminator="kind")]
EvalData = Annotated[PythonDocs | FileData | Holdout, Field(discriminator="kind")]
