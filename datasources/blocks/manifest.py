"""`manifest.json`: everything needed before a block of a dataset is read.

Each folder of a dataset has the same manifest. It is written last, so a folder without a manifest
is no dataset. It contains its own digest, which reveals any change.
"""

import json
import re
from pathlib import Path
from typing import Annotated, Literal

import xxhash
from pydantic import BaseModel, Field, FiniteFloat, ValidationError

from blocklearn.durable import write_file

from ..arrays.block_shape import MAX_COLUMNS
from ..arrays.hashed_names import MOST_BITS
from ..errors import DataError
from ..remote import Place
from .arrow_file import Codec
from .block_table import Blocks, Counts, NamesFile, first_fault
from .layout import Kind

FILE = "manifest.json"
FORMAT = "blocklearn blocks"
VERSION = 1
"""The version of the format. Raise it when an older blocklearn could not read new datasets."""
REMEDY = "copy the file from another folder of the dataset (all have the same), or convert again."
MOST_STRIPES = 1000  # each is an open file

Side = Literal["rows", "columns"]


class Sums(BaseModel, extra="forbid", strict=True):
    """Sums over rows, in float64.

    - values: of all stored values.
    - weights: of the weights of the rows.
    - targets: of weight times target, one per target.
    """

    values: FiniteFloat = 0.0
    weights: FiniteFloat = 0.0
    targets: list[FiniteFloat] = []

    def plus(self, other: "Sums") -> "Sums":
        """Return these sums plus those of other rows with as many targets."""
        targets = [a + b for a, b in zip(self.targets, other.targets, strict=True)]
        return Sums(
            values=self.values + other.values,
            weights=self.weights + other.weights,
            targets=targets,
        )


class Part(BaseModel, extra="forbid", strict=True):
    """One orientation of the data.

    - columns: number of features.
    - block_rows: most rows of a block.
    - files: bytes of the file of each stripe.
    """

    rows: Annotated[int, Field(ge=1, lt=2**62)]
    columns: Annotated[int, Field(ge=1, le=MAX_COLUMNS)]
    block_rows: Annotated[int, Field(ge=1, le=MAX_COLUMNS)]
    dense: bool
    targets: Annotated[int, Field(ge=0, le=MAX_COLUMNS)]
    weighted: bool
    fields: dict[str, str]
    sums: Sums
    files: Counts
    blocks: Blocks

    @property
    def kind(self) -> Kind:
        """The kind of its rows."""
        return Kind(self.columns if self.dense else 0, self.targets, self.weighted)

    def check(self, stripes: int, codec: Codec) -> None:
        """Raise `ValueError` if numbers contradict each other."""
        found, kind = self.blocks.rows, self.kind
        if len(self.files) != stripes:
            raise ValueError(
                f"it has {len(self.files)} files: must be {stripes}, one for each stripe"
            )
        self.blocks.check(kind, codec, self.files)
        if sum(found) != self.rows or not 1 <= min(found) <= max(found) <= self.block_rows:
            raise ValueError(
                f"its blocks have {min(found)} to {max(found)} rows, {sum(found)} in all: must "
                f"be 1 to {self.block_rows} each, and {self.rows} in all"
            )
        if self.fields != kind.fields():
            raise ValueError(f"its fields are {self.fields}: must be {kind.fields()}")
        if len(self.sums.targets) != self.targets:
            raise ValueError(
                f"it has sums of {len(self.sums.targets)} targets: must be {self.targets}"
            )


class HashedColumns(BaseModel, extra="forbid", strict=True):
    """2**hash_bits hashed columns, whose names are not kept."""

    hash_bits: Annotated[int, Field(ge=1, le=MOST_BITS)]


What = Literal["columns", "rows", "targets"]
Listed = dict[What, NamesFile | HashedColumns]


class Manifest(BaseModel, extra="forbid", strict=True):
    """The contents of a dataset.

    - id: digest of the contents, see `identify`.
    - stripes: number of folders.
    - origin: the data that it was made from, in words or as a digest.
    - columns: the data with rows and columns exchanged, or None.
    - names: names of `columns`, `rows` and `targets`, where they are known.
    """

    digest: Annotated[str, Field(exclude=True)] = ""  # of the file after its first line
    format: Literal["blocklearn blocks"] = "blocklearn blocks"
    version: Literal[1] = 1
    id: str
    codec: Codec
    stripes: Annotated[int, Field(ge=1, le=MOST_STRIPES)]
    origin: str
    rows: Part
    columns: Part | None = None
    names: Listed = {}

    def part(self, side: Side) -> Part | None:
        """Return the orientation `side`, or None if it is not stored."""
        return self.rows if side == "rows" else self.columns

    def check(self) -> None:
        """Raise `ValueError` if numbers contradict each other."""
        for part in (self.rows, self.columns):
            if part is not None:
                part.check(self.stripes, self.codec)
        sizes = {
            "rows": self.rows.rows, "columns": self.rows.columns, "targets": self.rows.targets
        }  # fmt: skip
        for what, names in self.names.items():
            count = names.count if isinstance(names, NamesFile) else 2**names.hash_bits
            if count != sizes[what]:
                raise ValueError(f"it has {count} names for {sizes[what]} {what}")
        if self.columns and (self.columns.rows, self.columns.columns) != (
            self.rows.columns, self.rows.rows
        ):  # fmt: skip
            raise ValueError("its two orientations do not have the same sizes")


def identify(rows: Part, columns: Part | None, names: Listed) -> str:
    """Return the XXH3 of all contents: equal for all folders of a dataset."""
    digest = xxhash.xxh3_64()
    for part in (rows, columns):
        if part is not None:
            digest.update("".join(part.blocks.xxh3).encode())
    for what in sorted(names):
        digest.update(f"{what} {names[what].model_dump_json()}".encode())
    return digest.hexdigest()


def stripe_file(side: Side, stripe: int, stripes: int) -> str:
    """Return the file name of every `stripes`-th block, from block `stripe` on.

    >>> stripe_file("rows", 0, 2)
    'rows-0-of-2.arrow'
    """
    return f"{side}-{stripe}-of-{stripes}.arrow"


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write the manifest to `folder` in one step and wait until it is on disk."""
    content = manifest.model_dump(mode="json")
    lines = [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in content.items()]
    body = (",\n".join(lines) + "\n}\n").encode()
    digest = xxhash.xxh3_128_hexdigest(body)
    write_file(folder / FILE, f'{{"digest": "{digest}",\n'.encode() + body)


def read_manifest(folder: Place) -> Manifest:
    """Read the manifest in `folder`.

    Raises `FileNotFoundError` if it does not exist, and `DataError` if it is damaged or of another
    version.
    """
    path = folder / FILE
    text = path.read_bytes()
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        raise DataError(f"{path}: damaged, it is not JSON; {REMEDY}") from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise DataError(f"{path}: not the manifest of a block dataset, or damaged; {REMEDY}")
    version = content.get("version")
    if version != VERSION:
        raise DataError(
            f"{path}: format {version!r}, but this blocklearn reads format {VERSION}; convert the "
            "data again, or use the blocklearn that wrote it."
        )
    found = re.match(rb'\{"digest": "([0-9a-f]{32})",\n', text)
    if found is None or xxhash.xxh3_128_hexdigest(text[found.end() :]) != found[1].decode():
        raise DataError(f"{path}: damaged or edited, its digest does not match; {REMEDY}")
    try:
        manifest = Manifest.model_validate_json(text)
        manifest.check()
    except ValidationError as error:
        raise DataError(f"{path}: {first_fault(error)}; {REMEDY}") from error
    except ValueError as error:
        raise DataError(f"{path}: {error}; {REMEDY}") from error
    return manifest
