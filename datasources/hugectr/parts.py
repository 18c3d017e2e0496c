"""Read the files of a data set, and verify that they are unchanged."""

import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..errors import DataError
from ..listing import identity_of
from .records import Layout

HEADER = struct.Struct(
    "<8q"
)  # error_check, number_of_records, label_dim, dense_dim, slot_num, 3 x 0


@dataclass(frozen=True)
class Part:
    """A file with `records` records, from byte `start` to its end at byte `size`.

    stamp: identifies the file's version; see `identity_of`.
    """

    path: Path
    start: int
    size: int
    records: int
    stamp: tuple[int, ...]

    def read(self, offset: int, into: npt.NDArray[np.uint8]) -> None:
        """Fill `into` with the bytes from `offset` on.

        Raises `DataError` if the file changed.
        """
        with self.path.open("rb", buffering=0) as file:
            if identity_of(file.fileno()) == self.stamp:
                file.seek(offset)
                filled, count = 0, 1
                while filled < into.size and count:
                    count = file.readinto(into[filled:].data) or 0
                    filled += count
                if filled == into.size:
                    return
        raise DataError(
            f"{self.path}: the file has changed since it was opened. Leave files alone while they "
            "are in use, and start again."
        )


def norm_parts(path: Path, key_bytes: int) -> tuple[Layout, list[Part]]:
    """Find the files of a Norm data set, from a file list or one data file.

    A file list has the number of files, then one path per line. A path is relative to the working
    directory, as in HugeCTR, or else to the folder of the list. Raises `DataError` for headers that
    are invalid or disagree.
    """
    layout, parts = None, list[Part]()
    for file in listed_files(path):
        here, part = read_header(file, key_bytes)
        parts.append(part)
        if layout is not None and here != layout:
            raise DataError(
                f"{file}: {describe(here)}, but {parts[0].path} has {describe(layout)}; all files "
                "of a data set must have the same layout."
            )
        layout = here
    assert layout is not None
    if not any(part.records for part in parts):
        raise DataError(f"{path}: the data set has no records.")
    return layout, parts


def describe(layout: Layout) -> str:
    """Describe a header in words."""
    check = "check sums" if layout.checked else "no check sums"
    return f"{layout.labels} labels, {layout.dense} dense features, {layout.slots} slots, {check}"


def listed_files(path: Path) -> list[Path]:
    """Return the files of a file list, or the data file at `path` itself."""
    with path.open("rb") as file:
        if not file.readline(32).strip().isdigit():
            return [path]
    try:
        head, *lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: neither a file list nor a data file.") from error
    names = [line.strip() for line in lines if line.strip()]
    digits = head.strip()
    if not names or not (digits.isdecimal() and len(digits) < 19) or int(digits) != len(names):
        raise DataError(
            f"{path}:1: {head.strip()[:40]!r}, and {len(names)} lines follow; a file list must "
            "start with the number of its files, 1 or more, followed by one path per line."
        )
    files = []
    for number, name in enumerate(names, 2):
        found = [place for place in (Path(name), path.parent / name) if exists(place)]
        if not found:
            raise DataError(
                f"{path}:{number}: file {name[:200]} does not exist, neither from the working "
                f"directory nor from {path.parent}."
            )
        files.append(found[0])
    return files


def read_header(path: Path, key_bytes: int) -> tuple[Layout, Part]:
    """Read the header of a Norm file; one with check sums is a checked record itself."""
    with path.open("rb") as file:
        data, stamp = file.read(4 + HEADER.size + 1), identity_of(file.fileno())
    checked = data[:4] == HEADER.size.to_bytes(4, "little")
    start = 4 if checked else 0
    end = start + HEADER.size
    if len(data) < end + checked:
        raise DataError(f"{path}: {len(data)} bytes are too few for the header of a Norm file.")
    if checked and sum(data[start:end]) % 256 != data[end]:
        raise DataError(f"{path}: the header does not match its check sum; the file is damaged.")
    check, records, labels, dense, slots, *_ = HEADER.unpack(data[start:end])
    sizes = (labels, dense, slots)
    least = 4 * sum(sizes) + 5 * checked  # bytes of a record with no keys: each slot has a count
    if check != checked or records < 0 or min(sizes) < 0 or not sum(sizes):
        raise DataError(
            f"{path}: not a Norm file's header: error_check {check}, number_of_records {records}, "
            f"label_dim {labels}, dense_dim {dense}, slot_num {slots}."
        )
    part = Part(path, end + checked, stamp[2], records, stamp)
    if records * least > part.size - part.start:
        raise DataError(
            f"{path}: {part.size:,} bytes are too few for {records:,} records of {least} bytes or "
            "more; the file is cut off."
        )
    return Layout(labels, dense, slots, key_bytes, counted=True, checked=checked), part


def raw_part(path: Path, layout: Layout) -> Part:
    """Return the file of a Raw data set.

    Raises `DataError` unless it has only whole records.
    """
    with path.open("rb") as file:
        stamp = identity_of(file.fileno())
    records, rest = divmod(stamp[2], layout.size)
    if rest:
        raise DataError(
            f"{path}: {stamp[2]:,} bytes are not a whole number of records of {layout.size} bytes "
            f"({layout.labels} labels, {layout.dense} dense features and {layout.slots} keys of 4 "
            "bytes each). It is cut off, or label_dim, dense_dim or the number of slots is wrong."
        )
    return Part(path, 0, stamp[2], records, stamp)


def exists(path: Path) -> bool:
    """Return whether a file exists; a name that is too long for the system names none."""
    try:
        return path.exists()
    except OSError:
        return False
