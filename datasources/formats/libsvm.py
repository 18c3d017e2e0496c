"""Read LIBSVM and SVMlight text: `label index:value ... # comment` per row.

The label is a number, several numbers with commas between them (multi-label), or missing. Indices
count from 1. `qid:7` after the label is ignored, and so are empty lines.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..errors import DataError
from ..parsing.layout import FIRST, Known, Layout, Place, Rows, check_columns
from ..parsing.lines import line_chunks
from ..parsing.scratch import Scratch
from .libsvm_lines import Parsed, parse
from .one_hot import MOST_CLASSES, check_classes, check_known, numbers_of, spell

SLOW = "lines are read slowly: unsorted indices, a comment, or nothing in them"


class LibsvmFile:
    """Reads the rows of LIBSVM files; targets are the labels.

    If no line has several labels, the target is the number. Otherwise each label that occurs has a
    target of 0 or 1, in ascending order of labels. The files are read twice, first to find columns
    and labels.

    zero_based: whether indices count from 0.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        scratch: Scratch,
        known: Known | None = None,
        *,
        zero_based: bool = False,
    ) -> None:
        """Find the columns and labels."""
        self._paths, self._scratch, self._base = paths, scratch, 0 if zero_based else 1
        census = Census(**scratch.remember("libsvm.json", lambda: self._count()._asdict()))
        self._classes = None if census.labels is None else np.array(census.labels, np.float32)
        if known is not None and known.classes is not None and census.labelled:
            self._classes = numbers_of(paths[0], known.classes)
        targets = 1 if census.labelled else 0
        if self._classes is not None:
            targets = len(self._classes)
        elif 0 < census.labelled < census.rows:
            raise DataError(
                f"{paths[0]}: {census.rows - census.labelled:,} of {census.rows:,} rows have no "
                "label; either all rows must have one or none."
            )
        columns = census.columns
        if known is not None and columns <= known.columns:
            columns = known.columns  # these files may lack the last ones
        self.layout = Layout(
            columns=check_columns(paths[0], columns, known),
            names=None if known is None else known.names,
            targets=targets,
            target_names=None if self._classes is None else [*map(spell, self._classes.tolist())],
            notes=["qid is left out: rows are not grouped"] if census.grouped else [],
        )

    def chunks(self, start: Place = FIRST) -> Iterator[Rows]:
        """Yield all rows from `start` on."""
        for chunk in line_chunks(self._paths, self._scratch, start):
            parsed = parse(chunk, self._base)
            remarks = {SLOW: parsed.slow} if parsed.slow else {}
            yield Rows(parsed.X, chunk.next, self._targets(parsed), remarks=remarks)

    def _targets(self, parsed: Parsed) -> npt.NDArray[np.float32] | None:
        if not self.layout.targets:
            return None
        if self._classes is None:
            return parsed.labels.reshape(-1, 1)
        table = np.zeros((len(parsed.counts), len(self._classes)), np.float32)
        rows = np.repeat(np.arange(len(parsed.counts)), parsed.counts)
        order = np.argsort(self._classes, kind="stable")
        places = np.searchsorted(self._classes, parsed.labels, sorter=order)
        columns = order[np.minimum(places, len(order) - 1)]
        check_known(self._paths[0], parsed.labels[self._classes[columns] != parsed.labels])
        table[rows, columns] = 1.0
        return table

    def _count(self) -> "Census":
        rows = labelled = columns = 0
        multiple = grouped = False
        labels = np.zeros(0, np.float32)
        for chunk in line_chunks(self._paths, self._scratch):
            parsed = parse(chunk, self._base)
            rows += len(parsed.counts)
            labelled += int(np.count_nonzero(parsed.counts))
            multiple |= bool((parsed.counts > 1).any())
            grouped |= parsed.grouped
            columns = max(columns, int(parsed.X.indices.max(initial=-1)) + 1)
            if labels.size <= MOST_CLASSES:
                labels = np.union1d(labels, parsed.labels)
        if not rows:
            raise DataError(f"{self._paths[0]}: has no rows.")
        if not columns:
            raise DataError(f"{self._paths[0]}: no features in its {rows:,} rows.")
        if multiple:
            check_classes(self._paths[0], labels.size, float(np.abs(labels).max()))
        return Census(rows, labelled, columns, grouped, labels.tolist() if multiple else None)


class Census(NamedTuple):
    """The results of the first reading.

    labelled: rows with a label.
    grouped: whether any row has a qid.
    labels: all labels, ascending, if some row has several; else None.
    """

    rows: int
    labelled: int
    columns: int
    grouped: bool
    labels: list[float] | None
