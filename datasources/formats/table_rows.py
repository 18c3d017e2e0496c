"""Read rows of a table of numbers in text: features, targets, weights and ids."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from ..errors import DataError
from ..parsing.layout import (
    COUNTED,
    FIRST,
    Known,
    Layout,
    Place,
    Rows,
    Sparse,
    check_columns,
    refuse_hashed,
    require_targets,
)
from ..parsing.scratch import Scratch
from .delimited import Delimited, Nulls, brief


class TableRows:
    """Reads records of CSV or TSV files as dense rows.

    targets: columns to predict.
    weights, ids: columns with weights and names of rows.
    leave_out: columns that are not read. All other columns are features and must be numbers.
    nulls: policy for empty fields: an error, 0 (in features), or leave out the row.
    separator, header, columns: see `Delimited`.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        scratch: Scratch,
        known: Known | None = None,
        *,
        separator: str | None = None,
        header: bool | None = None,
        columns: Sequence[str] | None = None,
        targets: Sequence[str] = (),
        weights: str | None = None,
        ids: str | None = None,
        leave_out: Sequence[str] = (),
        nulls: Nulls = "error",
    ) -> None:
        """Read the first line of each file."""
        self._file = Delimited(
            paths,
            scratch,
            separator=separator,
            header=header,
            columns=columns,
            advice="; --leave-out COLUMN, or, where it has texts whose words count, --text COLUMN",
        )
        self._targets, self._weights, self._ids = list(targets), weights, ids
        self._nulls = nulls
        others = [*targets, *leave_out, *(name for name in (weights, ids) if name is not None)]
        purposes = set(others)
        self._features = [name for name in self._file.names if name not in purposes]
        if known is not None:
            require_targets(paths[0], self._targets, self._file.names)
        if known is not None and known.names is not None:
            refuse_hashed(paths[0], known.names)
            self._features = list(known.names)
        hint = "" if known is None else COUNTED
        for name in [*others, *self._features]:
            if name not in self._file.places:
                raise DataError(
                    f"{paths[0]}: no column {name!r}; there are {brief(self._file.names)}{hint}."
                )
        if len(purposes) < len(others):
            raise DataError(
                f"{paths[0]}: a column is named twice among {brief(others)}: must have one role, "
                "as target, weight, id or left out."
            )
        self.layout = Layout(
            check_columns(paths[0], len(self._features), known),
            dense=True,
            names=self._features,
            targets=len(self._targets),
            target_names=self._targets or None,
            weighted=weights is not None,
            named=ids is not None,
        )

    def chunks(self, start: Place = FIRST) -> Iterator[Rows]:
        """Yield all rows from `start` on."""
        types = {name: pa.float64() for name in [*self._features, *self._targets]}
        if self._weights is not None:
            types[self._weights] = pa.float64()
        if self._ids is not None:
            types[self._ids] = pa.string()
        columns = [name for name in types if name != self._ids]
        for chunk, table in self._file.tables(types, start):
            # With nulls=drop_row an empty label becomes 0 here, and its row is left out below.
            labels: Nulls = "zero" if self._nulls == "drop_row" else "error"
            features: Nulls = "error" if self._nulls == "error" else "zero"
            empty = sum(table[name].null_count for name in self._features)
            rows = Rows(
                self._file.numbers(chunk, table, self._features, features),
                chunk.next,
                self._file.numbers(chunk, table, self._targets, labels) if self._targets else None,
                None
                if self._weights is None
                else self._file.numbers(chunk, table, [self._weights], labels)[:, 0],
                None if self._ids is None else table[self._ids].to_pylist(),
                {"empty fields are read as 0": empty} if empty else {},
            )
            yield without_nulls(rows, table, columns) if self._nulls == "drop_row" else rows


def without_nulls(rows: Rows, table: pa.Table, columns: Sequence[str]) -> Rows:
    """Return the rows of a table without those that have a null in these columns."""
    keep = np.ones(table.num_rows, np.bool_)
    for name in columns:
        if table[name].null_count:
            keep &= table[name].is_valid().to_numpy()
    if keep.all():
        return rows
    assert not isinstance(rows.X, Sparse)
    return replace(
        rows,
        X=rows.X[keep],
        targets=None if rows.targets is None else rows.targets[keep],
        weights=None if rows.weights is None else rows.weights[keep],
        ids=None if rows.ids is None else [rows.ids[i] for i in np.flatnonzero(keep).tolist()],
        remarks={"rows with an empty field are left out": int((~keep).sum())},
    )
