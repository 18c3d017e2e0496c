"""Files of other systems made into a block dataset: `learn convert` without the command line.

What is on the way to be a dataset lies in its folders already, but without a manifest, and what the
reader has set down lies in `.reading` in the first of them, with a note of source and settings. So
an interrupted conversion goes on where it was, if both are the same.
"""

import fcntl
import json
import os
import shutil
import signal
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Literal

import xxhash

from ..datasources import DataError
from ..datasources.blocks import BlockWriter
from ..datasources.blocks.manifest import FILE as MANIFEST
from ..datasources.formats import (
    FIRST,
    FORMATS,
    Known,
    Layout,
    OneHot,
    Place,
    RowFile,
    Scratch,
    Sparse,
    SparseRows,
    TargetJoin,
    find_files,
    open_rows,
)
from ..datasources.formats.scratch import MEMORY
from .conversion_display import Watch
from .durable import write_file
from .errors import RunFolderError, RunInterrupted

READING = ".reading"
NOTE = "source.json"


@dataclass(frozen=True)
class Conversion:
    """What is to be converted, and how.

    sources: see `formats.find_files`. folders: of the dataset, one per stripe. block_rows, codec,
    both_orientations: see `BlockWriter`. format: None: the names tell it. options: of the format.
    sparse: zeros of dense rows are not stored. classes: the numbers of the one target become
    targets of their own. target_files: their rows are the targets. known: the columns to have.
    memory: bytes that reading may take, about, and as many again for writing.
    """

    sources: Sequence[str]
    folders: Sequence[Path]
    block_rows: int = 1024
    codec: Literal["raw", "lz4"] = "lz4"
    both_orientations: bool = False
    format: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    sparse: bool = False
    classes: bool = False
    target_files: Sequence[str] = ()
    known: Known | None = None
    memory: int = MEMORY

    def note(self) -> str:
        """What must be the same for an interrupted conversion to go on: settings, and names, sizes
        and times of all files.
        """
        _, files = find_files(self.sources, self.format, self.options)
        _, others = find_files(self.target_files) if self.target_files else ("", [])
        settings = {
            "block_rows": self.block_rows,
            "codec": self.codec,
            "stripes": len(self.folders),
            "format": self.format,
            "options": dict(self.options),
            "sparse": self.sparse,
            "classes": self.classes,
            "files": [state for name in [*files, *others] for state in states(name)],
        }
        return json.dumps(settings, default=str)

    def open(self, scratch: Scratch) -> RowFile:
        """The rows, as they are to be stored."""
        name = self.sources[0]
        rows = open_rows(
            self.sources, scratch, format=self.format, known=self.known, options=self.options
        )
        if self.target_files:
            folder = scratch.folder / "targets"
            folder.mkdir(exist_ok=True)
            targets = open_rows(self.target_files, Scratch(folder, self.memory), options={})
            rows = TargetJoin(rows, targets, self.target_files[0])
        known = None if self.known is None else self.known.classes
        if self.classes or (known is not None and rows.layout.targets == 1):
            rows = OneHot(name, rows, scratch, known)
        return SparseRows(rows) if self.sparse else rows


@dataclass(frozen=True)
class Converted:
    """What a conversion made. remarks: see `Rows`, of all rows that this process has read."""

    rows: int
    layout: Layout
    remarks: Mapping[str, int]

    @property
    def notes(self) -> list[str]:
        """What a user should know."""
        return [*self.layout.notes, *(f"{count:,} {what}" for what, count in self.remarks.items())]


def convert(
    job: Conversion, watch: Watch, *, resume: bool = False, overwrite: bool = False
) -> Converted:
    """Make a block dataset.

    resume: go on with an unfinished one, if there is one. overwrite: replace a finished one, once
    the source has been found good as far as opening it tells.

    Raises:
        RunFolderError: there is a dataset, another conversion at work, or something else.
        FileNotFoundError: there is no source.
        DataError: the source cannot be read; what was made of it is deleted.
    """
    folder, note = job.folders[0], job.note()
    kind, files = find_files(job.sources, job.format, job.options)
    check_place(folder, overwrite)
    folder.mkdir(parents=True, exist_ok=True)
    with held(folder):
        reading = prepare(folder / READING, note, resume)
        origin = (
            f"{kind} {', '.join(map(str, files[:3]))} {xxhash.xxh3_64_hexdigest(note.encode())}"
        )
        try:
            watch.begin(sum(map(nbytes, files)) * (FORMATS[kind].passes + job.classes))
            rows = job.open(Scratch(reading, job.memory, watch.read))
            if not resume:
                writer_of(job, origin, rows, resume=False, overwrite=overwrite).close()
            with writer_of(job, origin, rows, resume=True, overwrite=overwrite) as writer:
                try:
                    remarks = store(rows, writer, watch, str(files[0]))
                    watch.finishing()
                    layout = rows.layout
                    writer.finish(names=layout.names, target_names=layout.target_names)
                except DataError:
                    writer.discard()
                    raise
                count = writer.rows
        except DataError:
            shutil.rmtree(reading)
            raise
        shutil.rmtree(reading)
    return Converted(count, layout, remarks)


def store(file: RowFile, writer: BlockWriter, watch: Watch, name: str) -> Mapping[str, int]:
    """Write all rows that the writer does not have yet; what there is to remark. name: of the
    source in messages.
    """
    position, before = writer.position
    start = FIRST if position is None else Place(*position)
    there = writer.rows - before
    remarks: Counter[str] = Counter()
    for chunk in file.chunks(start):
        rows, there = chunk.tail(there), max(0, there - len(chunk))
        remarks.update(rows.remarks)
        watch.rows(len(rows))
        if not len(rows):
            continue
        X: dict[str, Any] = {"dense": rows.X}
        if isinstance(rows.X, Sparse):
            X = rows.X._asdict()
        try:
            writer.append(
                **X, targets=rows.targets, weights=rows.weights, ids=rows.ids, position=rows.next
            )
        except DataError as error:
            raise DataError(f"{name}: {str(error).removeprefix('BlockWriter: ')}") from error
    return remarks


def writer_of(
    job: Conversion, origin: str, rows: RowFile, *, resume: bool, overwrite: bool
) -> BlockWriter:
    """A writer for the rows."""
    return BlockWriter(
        job.folders,
        block_rows=job.block_rows,
        codec=job.codec,
        columns=rows.layout.columns,
        both_orientations=job.both_orientations,
        budget_bytes=job.memory,
        origin=origin,
        resume=resume,
        overwrite=overwrite,
    )


def check_place(folder: Path, overwrite: bool) -> None:
    """Raises `RunFolderError` if a dataset may not be made in `folder`."""
    if folder.exists() and not folder.is_dir():
        raise RunFolderError(f"{folder}: a file, but a dataset is a folder.")
    if (folder / MANIFEST).exists():
        if not overwrite:
            raise RunFolderError(f"{folder}: a dataset is there already. --overwrite replaces it.")
    elif folder.exists() and any(folder.iterdir()) and not (folder / READING).exists():
        raise RunFolderError(
            f"{folder}: not empty and no dataset, so nothing in it is touched. Choose another one."
        )


def prepare(reading: Path, note: str, resume: bool) -> Path:
    """The folder of the reader: as an earlier conversion left it, or empty."""
    there = reading / NOTE
    if resume and there.exists():
        if there.read_text(encoding="utf-8") != note:
            raise RunFolderError(
                f"{reading.parent}: begun with other settings, or the source has changed since. "
                "Without --resume the conversion begins again."
            )
        return reading
    shutil.rmtree(reading, ignore_errors=True)
    reading.mkdir()
    write_file(there, note.encode())
    return reading


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """A lock that the operating system drops when the process ends; an empty folder is removed."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise RunFolderError(f"{folder}: another process is writing there.") from None
    finally:
        os.close(descriptor)
        with suppress(OSError):  # there is something in it
            folder.rmdir()


@contextmanager
def interruptible(folder: Path) -> Iterator[None]:
    """Ctrl-C, and the TERM of batch systems, become a `RunInterrupted` that says how to go on."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    except KeyboardInterrupt:
        raise RunInterrupted(f"{folder}: stopped; --resume goes on with it") from None
    finally:
        signal.signal(signal.SIGTERM, before)


def states(name: str | Path) -> list[tuple[str, int, int]]:
    """Name, size and time of a file, or of all files in a folder; of a URL its name."""
    path = Path(name)
    if "://" in str(name):
        return [(str(name), 0, 0)]
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    found = [(file, file.stat()) for file in files]
    return [(str(file.absolute()), stat.st_size, stat.st_mtime_ns) for file, stat in found]


def nbytes(name: str | Path) -> int:
    """Bytes of a file, or of all files in a folder."""
    return sum(size for _, size, _ in states(name))
