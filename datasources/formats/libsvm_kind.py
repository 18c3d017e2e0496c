"""Configure LIBSVM and LIBFFM text as data."""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import Field
from scipy import sparse

from ..data_kind import MemoryKind
from ..holdout.samples import Samples
from ..packed.streams import kind_of
from ..parsing.layout import Known, RowFile
from ..parsing.scratch import Scratch
from ..source import DataSource, target_names
from .adapters import as_csr
from .detect import FORMATS, open_rows
from .one_hot import OneHot

LIBSVM = ("libsvm", "text")  # formats whose ends of names LIBSVM files have


class LibsvmData(MemoryKind):
    """LIBSVM and SVMlight text, in memory: `{kind: libsvm, path: train.svm, classes: true}`.

    The target is the label. `LibsvmFile` describes the lines. For files that are larger than memory
    use `learn convert`, which makes blocks.
    """

    kind: Literal["libsvm"] = "libsvm"
    path: Path = Field(description="file, perhaps packed (.gz), or folder of such files")
    zero_based: bool = Field(False, description="indices count from 0, not from 1")
    classes: bool = Field(
        False,
        description="labels are classes: each gets a target of 0 and 1, named after its label",
    )

    def files(self) -> Iterator[Path]:
        """Yield the file or folder."""
        yield self.path

    def conversion(self, path: str) -> tuple[str, dict[str, Any]] | None:
        """Convert as LIBSVM, unless the end of the name is that of another format.

        Ends of plain text, and that of the training data, tell none.
        """
        end = kind_of(Path(path))
        others = (known.suffixes for name, known in FORMATS.items() if name not in LIBSVM)
        if end != kind_of(self.path) and any(end in suffixes for suffixes in others):
            return None
        return "libsvm", {"zero_based": self.zero_based}

    def load(self, like: DataSource | None = None) -> Samples:
        """Load all rows, with the columns and classes of `like` if it is given."""
        known = None
        if like is not None:
            several = like.shape.targets > 1
            known = Known(like.shape.columns, like.names, target_names(like) if several else None)
        return all_rows(lambda scratch: self._rows(scratch, known))

    def _rows(self, scratch: Scratch, known: Known | None) -> RowFile:
        options = {"zero_based": self.zero_based}
        rows = open_rows([str(self.path)], scratch, format="libsvm", known=known, options=options)
        if not self.classes or rows.layout.targets > 1:
            return rows
        return OneHot(self.path, rows, scratch, None if known is None else known.classes)


class LibffmData(MemoryKind):
    """LIBFFM text, in memory: `{kind: libffm, path: train.ffm}`.

    The target is the label. A column is called `field=index`, so `fields: names` of a factorization
    machine finds the fields. For files that are larger than memory use `learn convert`.
    """

    kind: Literal["libffm"] = "libffm"
    path: Path = Field(description="file, perhaps packed (.gz), or folder of such files")

    def files(self) -> Iterator[Path]:
        """Yield the file or folder."""
        yield self.path

    def conversion(self, path: str) -> tuple[str, dict[str, Any]]:
        """Convert as LIBFFM, whatever the end of the name."""
        return "libffm", {}

    def load(self, like: DataSource | None = None) -> Samples:
        """Load all rows, with the columns of `like` if it is given."""
        known = None if like is None else Known(like.shape.columns, like.names)
        paths = [str(self.path)]
        return all_rows(lambda s: open_rows(paths, s, format="libffm", known=known, options={}))


def all_rows(opened: Callable[[Scratch], RowFile]) -> Samples:
    """Return all rows of the file that `opened` opens."""
    with tempfile.TemporaryDirectory(prefix="blocklearn-") as folder:
        rows = opened(Scratch(Path(folder)))
        layout, chunks = rows.layout, list(rows.chunks())
    targets = [chunk.targets for chunk in chunks if chunk.targets is not None]
    return Samples(
        sparse.vstack([as_csr(chunk, layout.columns) for chunk in chunks], "csr"),
        layout.names,
        np.concatenate(targets) if layout.targets else None,
        layout.target_names,
    )
