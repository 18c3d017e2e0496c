"""Configure data in HugeCTR's binary formats. Settings have HugeCTR's names."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal, Self

import numpy as np
import xxhash
from pydantic import Field, model_validator

from ..arrays.block_shape import MAX_COLUMNS
from ..arrays.hashed_names import MOST_BITS
from ..data_kind import DataKind
from ..errors import DataError
from ..holdout.samples import Reading
from ..source import DataSource
from .parts import norm_parts, raw_part
from .records import KeyColumns, Layout
from .source import HugeCTRSource

ONE_OF = ("slot_size_array", "vocabulary_size", "hash_bits")
Count = Annotated[int, Field(ge=0, lt=2**31)]
Size = Annotated[int, Field(ge=1, lt=2**31)]


class HugeCTRKeys(DataKind):
    """The columns of keys; they follow those of the dense features."""

    path: Path
    slot_size_array: list[Size] | None = Field(
        None, description="number of keys of each slot; keys start at 0 in each"
    )
    vocabulary_size: Size | None = Field(
        None, description="number of keys of all slots, if slots share no keys"
    )
    hash_bits: int | None = Field(
        None, ge=1, le=MOST_BITS, description="hash keys of any size to 2**hash_bits columns"
    )

    @model_validator(mode="after")
    def _one_of(self) -> Self:
        if sum(getattr(self, name) is not None for name in ONE_OF) != 1:
            raise ValueError(f"needs one of {', '.join(ONE_OF)}, to give keys their columns")
        return self

    def files(self) -> Iterator[Path]:
        """Yield the data file, or the list of data files."""
        yield self.path

    def elsewhere(self, path: str, *, labelled: bool) -> Self:
        """Return the settings for another file with the same layout, labels included."""
        return self.model_copy(update={"path": Path(path)})

    def key_columns(self, layout: Layout) -> tuple[KeyColumns, int]:
        """Return the columns of keys, and the total number of columns.

        Raises `DataError`.
        """
        slots, dense = layout.slots, layout.dense
        if self.slot_size_array is not None and len(self.slot_size_array) != slots:
            raise DataError(
                f"{self.path}: {slots} slots, but slot_size_array has {len(self.slot_size_array)} "
                "sizes."
            )
        sizes = np.zeros(slots, np.int64)
        first = np.full(slots, dense, np.int64)
        if self.slot_size_array is not None:
            sizes[:] = self.slot_size_array
            first[1:] += np.cumsum(sizes)[:-1]
            total = int(sizes.sum())
        elif self.vocabulary_size is not None:
            sizes[:] = total = self.vocabulary_size
        else:
            total = 1 << (self.hash_bits or 0)
        if not 1 <= dense + total <= MAX_COLUMNS:
            raise DataError(
                f"{self.path}: {dense + total:,} columns: must be 1 to {MAX_COLUMNS}; "
                "hash_bits hashes keys to fewer."
            )
        seeds = [xxhash.xxh3_64_intdigest(str(slot).encode()) for slot in range(slots)]
        columns = KeyColumns(first, sizes, np.array(seeds, np.uint64), self.hash_bits or 0)
        return columns, dense + total


class HugeCTRNorm(HugeCTRKeys):
    """Norm files: `{kind: hugectr-norm, path: file_list.txt, vocabulary_size: 1000000}`."""

    kind: Literal["hugectr-norm"] = "hugectr-norm"
    path: Path = Field(description="file list, or one data file")
    input_key_type: Literal["I32", "I64"] = Field("I32", description="keys of 4 or 8 bytes")

    def open_source(self, reading: Reading, like: DataSource | None = None) -> DataSource:
        """Open all files of the list, in its order."""
        layout, parts = norm_parts(self.path, 4 if self.input_key_type == "I32" else 8)
        return HugeCTRSource(parts, layout, *self.key_columns(layout), reading)


class HugeCTRRaw(HugeCTRKeys):
    """A Raw file: `{kind: hugectr-raw, path: train.bin, dense_dim: 13, slot_size_array: [...]}`."""

    kind: Literal["hugectr-raw"] = "hugectr-raw"
    path: Path = Field(description="the data file")
    label_dim: Count = 1
    dense_dim: Count = 0
    slot_num: Count | None = Field(None, description="null: as many as slot_size_array has sizes")
    float_label_dense: bool = Field(
        True, description="false: labels and dense features are int32; features become log(1 + x)"
    )

    @model_validator(mode="after")
    def _slots(self) -> Self:
        if self.slot_num is None and self.slot_size_array is None:
            raise ValueError("needs slot_num, the number of slots")
        return self

    def open_source(self, reading: Reading, like: DataSource | None = None) -> DataSource:
        """Open the records of the file."""
        sizes = self.slot_size_array or []
        layout = Layout(
            self.label_dim,
            self.dense_dim,
            len(sizes) if self.slot_num is None else self.slot_num,
            key_bytes=4,
            counted=False,
            integers=not self.float_label_dense,
        )
        if not layout.size:
            raise DataError(
                f"{self.path}: records without a number: must have labels, dense features or slots."
            )
        part = raw_part(self.path, layout)
        return HugeCTRSource([part], layout, *self.key_columns(layout), reading)
