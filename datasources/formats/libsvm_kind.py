"""Configured data that are rows of LIBSVM text."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import Field
from scipy import sparse

from ..data_kind import MemoryKind
from ..holdout.samples import Samples
from ..parsing.layout import Known, RowFile, Rows, Sparse
from ..parsing.scratch import Scratch
from ..source import DataSource, target_names
from .detect import open_rows
from .one_hot import OneHot


class LibsvmData(MemoryKind):
    """LIBSVM and SVMlight text, in memory: `{kind: libsvm, path: train.svm, classes: true}`.

    The target is the label. See `LibsvmFile` for what lines may be; `learn convert` makes blocks of
    files that are larger than memory.
    """

    kind: Literal["libsvm"] = "libsvm"
    path: Path = Field(description="file, perhaps packed (.gz), or folder of such files")
    zero_based: bool = Field(False, description="indices count from 0, not from 1")
    classes: bool = Field(
        False, description="labels are classes: a target of 0 and 1 for each, called as its label"
    )

    def files(self) -> Iterator[Path]:
        """The file, or the folder."""
        yield self.path

    def conversion(self, path: str) -> tuple[str, dict[str, Any]]:
        """LIBSVM again, whatever the name says."""
        return "libsvm", {"zero_based": self.zero_based}

    def load(self, like: DataSource | None = None) -> Samples:
        """All rows; with the columns, and the classes, of `like`, if that is given."""
        known = None
        if like is not None:
            several = like.shape.targets > 1
            known = Known(like.shape.columns, like.names, target_names(like) if several else None)
        with tempfile.TemporaryDirectory(prefix="blocklearn-") as folder:
            rows = self._rows(Scratch(Path(folder)), known)
            layout, chunks = rows.layout, list(rows.chunks())
        targets = [chunk.targets for chunk in chunks if chunk.targets is not None]
        return Samples(
            sparse.vstack([as_csr(chunk, layout.columns) for chunk in chunks], "csr"),
            layout.names,
            np.concatenate(targets) if layout.targets else None,
            layout.target_names,
        )

    def _rows(self, scratch: Scratch, known: Known | None) -> RowFile:
        format, options = self.conversion(str(self.path))
        rows = open_rows([str(self.path)], scratch, format=format, known=known, options=options)
        if not self.classes or rows.layout.targets > 1:
            return rows
        return OneHot(self.path, rows, scratch, None if known is None else known.classes)


def as_csr(rows: Rows, columns: int) -> Any:
    """Sparse rows as a SciPy matrix."""
    assert isinstance(rows.X, Sparse)
    indptr, indices, values = rows.X
    return sparse.csr_array((values, indices, indptr), shape=(len(rows), columns))
