"""What a configuration may say about data: one class per kind, with the names of the YAML file."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from .corpus import Corpus
from .errors import DataError
from .files import read_counts
from .python_docs import python_docs
from .split import split_rows


class PythonDocs(BaseModel, extra="forbid"):
    """The docstrings of Python's standard library: `{kind: python-docs}`."""

    kind: Literal["python-docs"] = "python-docs"
    min_df: int = Field(4, ge=1, description="least number of documents that have a word")
    max_df: float = Field(0.2, gt=0, le=1, description="largest share of documents that have it")

    def open(
        self, vocabulary: Sequence[str] | None = None, cache_dir: Path | None = None
    ) -> Corpus:
        """Counts of all docstrings, over the words of `vocabulary` if one is given."""
        if vocabulary is not None:
            return python_docs(cache_dir, min_df=1, max_df=1.0).over(vocabulary)
        return python_docs(cache_dir, min_df=self.min_df, max_df=self.max_df)


class FileData(BaseModel, extra="forbid"):
    """Texts or word counts from a file or folder: `{kind: file, path: docs.txt}`."""

    kind: Literal["file"] = "file"
    path: Path = Field(description=".txt, .jsonl, .npz or .mtx file, or a folder of .txt files")
    min_df: int = Field(1, ge=1, description="least number of documents that have a word")
    max_df: float = Field(1.0, gt=0, le=1, description="largest share of documents that have it")

    def open(self, vocabulary: Sequence[str] | None = None) -> Corpus:
        """Counts of all documents, over the words of `vocabulary` if one is given."""
        return read_counts(self.path, vocabulary, min_df=self.min_df, max_df=self.max_df)


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
