"""The layout of a batch: its Arrow schema, and the order of its numbers on disk.

A sparse block has the columns `indices` and `values`: two lists per row with the same offsets, so
an Arrow list array is CSR. No column has missing values.
"""

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from ..arrays.arrow import number_array

Arrays = dict[str, npt.NDArray[Any]]
MOST_NNZ = 2**31 - 1  # offsets of Arrow's lists are int32


@dataclass(frozen=True)
class Kind:
    """The kind of all rows of a dataset.

    - dense: features of a dense row; 0 for sparse rows.
    - targets: targets of each row.
    - weighted: whether rows have weights.
    """

    dense: int = 0
    targets: int = 0
    weighted: bool = False

    def schema(self) -> Any:
        """Return the `pyarrow.Schema` of every batch."""
        import pyarrow as pa

        fields = {"row": pa.int64()}
        if self.dense:
            fields["features"] = _list(pa.float32(), self.dense)
        else:
            fields["indices"], fields["values"] = _list(pa.int32()), _list(pa.float32())
        if self.targets:
            name, length = ("target", 0) if self.targets == 1 else ("targets", self.targets)
            fields[name] = _list(pa.float32(), length) if length else pa.float32()
        if self.weighted:
            fields["weight"] = pa.float32()
        return pa.schema([pa.field(name, kind, nullable=False) for name, kind in fields.items()])

    def fields(self) -> dict[str, str]:
        """Return the names of the columns with their types as text."""
        return {field.name: str(field.type) for field in self.schema()}

    def parts(self, rows: int, nnz: int) -> dict[str, tuple[tuple[int, ...], type[np.generic]]]:
        """Return shape and dtype of each part of a batch, in the order of the file.

        `starts` are the offsets of the indices, `value_starts` the equal offsets of the values.

        >>> list(Kind(weighted=True).parts(2, 5))
        ['row', 'starts', 'indices', 'value_starts', 'values', 'weights']
        """
        found: dict[str, tuple[tuple[int, ...], type[np.generic]]] = {"row": ((rows,), np.int64)}
        if self.dense:
            found["dense"] = ((rows, self.dense), np.float32)
        else:
            found["starts"], found["indices"] = ((rows + 1,), np.int32), ((nnz,), np.int32)
            found["value_starts"], found["values"] = ((rows + 1,), np.int32), ((nnz,), np.float32)
        if self.targets:
            found["targets"] = ((rows, self.targets), np.float32)
        if self.weighted:
            found["weights"] = ((rows,), np.float32)
        return found

    def lengths(self, rows: Any, nnz: Any) -> list[Any]:
        """Return the bytes of each of `parts`; given arrays [blocks], of many blocks."""
        return [
            prod(size) * np.dtype(dtype).itemsize for size, dtype in self.parts(rows, nnz).values()
        ]

    def batch(self, arrays: Arrays) -> Any:
        """Return `arrays`, named as in `parts`, as a `pyarrow.RecordBatch`; no copy."""
        import pyarrow as pa

        schema = self.schema()
        columns = [number_array(arrays["row"])]
        if self.dense:
            columns.append(_table(arrays["dense"], schema.field("features").type))
        else:
            for starts, name in [("starts", "indices"), ("value_starts", "values")]:
                offsets = number_array(arrays[starts])
                columns.append(
                    pa.ListArray.from_arrays(
                        offsets, number_array(arrays[name]), type=schema.field(name).type
                    )
                )
        if self.targets == 1:
            columns.append(number_array(arrays["targets"].reshape(-1)))
        elif self.targets:
            columns.append(_table(arrays["targets"], schema.field("targets").type))
        if self.weighted:
            columns.append(number_array(arrays["weights"]))
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    def places(self) -> list[int]:
        """Return the numbers of the buffers that hold `parts`."""
        import pyarrow as pa

        found, first = [], 0
        for field in self.schema():
            if pa.types.is_fixed_size_list(field.type):  # missing lists; missing numbers, numbers
                inside, count = [2], 3
            elif pa.types.is_list(field.type):  # missing lists, offsets; missing numbers, numbers
                inside, count = [1, 3], 4
            else:  # missing numbers, numbers
                inside, count = [1], 2
            found += [first + i for i in inside]
            first += count
        return found


def _list(item: Any, length: int = -1) -> Any:
    """Return the type of lists without missing items; length: of each, -1: any."""
    import pyarrow as pa

    return pa.list_(pa.field("item", item, nullable=False), length)


def _table(table: npt.NDArray[np.float32], kind: Any) -> Any:
    import pyarrow as pa

    return pa.FixedSizeListArray.from_arrays(number_array(table.reshape(-1)), type=kind)
