"""Convert files of other systems into a block dataset: `learn convert`.

An unfinished dataset lies in its final folders, but has no manifest yet. The reader keeps its files
in `.reading` in the first folder, with a note of source and settings. If both are unchanged, an
interrupted conversion resumes where it stopped.
"""

import json
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import xxhash

from blocklearn.datasources import DataError
from blocklearn.datasources.blocks import BlockWriter
from blocklearn.datasources.formats import (
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
    Unlabelled,
    find_files,
    open_rows,
)
from blocklearn.datasources.parsing.scratch import MEMORY
from blocklearn.durable import make_folder

from .display import Watch
from .folder import READING, check_place, held, nbytes, prepare, states
from .settings import Settings


@dataclass(frozen=True)
class Conversion(Settings):
    """The sources of a conversion, its settings, and the folders to write to.

    Attributes:
        sources: files, folders, patterns or URLs; see `formats.find_files`.
        folders: the folders of the dataset, one per stripe.
        options: options of the format, fields of `FormatOptions`.
        known: the columns that the dataset must have; None: those of the sources.
        labelled: whether targets and weights are kept.
        memory: approximate bytes for reading; writing may take as many again.
    """

    sources: Sequence[str]
    folders: Sequence[Path]
    options: Mapping[str, Any] = field(default_factory=dict)
    known: Known | None = None
    labelled: bool = True
    memory: int = MEMORY

    def note(self) -> str:
        """Return a text that must be unchanged for an interrupted conversion to resume.

        It has the settings, and names, sizes and times of all files.
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
        """Open the rows in the form in which they are stored."""
        name = self.sources[0]
        rows = open_rows(
            self.sources, scratch, format=self.format, known=self.known, options=self.options
        )
        if self.target_files:
            folder = scratch.folder / "targets"
            folder.mkdir(exist_ok=True)
            targets = open_rows(self.target_files, Scratch(folder, self.memory), options={})
            rows = TargetJoin(rows, targets, self.target_files[0])
        if not self.labelled:
            rows = Unlabelled(rows)
        known = None if self.known is None else self.known.classes
        if self.classes or (known is not None and rows.layout.targets == 1):
            rows = OneHot(name, rows, scratch, known)
        return SparseRows(rows) if self.sparse else rows


@dataclass(frozen=True)
class Converted:
    """The result of a conversion.

    Attributes:
        rows: the number of rows.
        layout: the columns and targets.
        remarks: counts of remarks on all rows that this process has read; see `Rows`.
    """

    rows: int
    layout: Layout
    remarks: Mapping[str, int]

    @property
    def notes(self) -> list[str]:
        """Notes for the user, one line each."""
        return [*self.layout.notes, *(f"{count:,} {what}" for what, count in self.remarks.items())]


def convert(
    job: Conversion, watch: Watch, *, resume: bool = False, overwrite: bool = False
) -> Converted:
    """Make a block dataset.

    Args:
        job: the sources, the settings and the folders.
        watch: receives the progress.
        resume: whether to resume an unfinished conversion, if there is one.
        overwrite: whether to replace a finished dataset, once the new one is complete.

    Raises:
        RunFolderError: the folder has a dataset or other files, or another process converts there.
        FileNotFoundError: there is no source.
        DataError: the source cannot be read; the unfinished dataset is deleted.
    """
    folder, note = job.folders[0], job.note()
    kind, files = find_files(job.sources, job.format, job.options)
    overwrite = overwrite or (resume and (folder / READING).exists())  # as it has begun
    check_place(folder, files, overwrite)
    make_folder(folder)
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
                    if job.note() != note:
                        raise DataError(
                            f"{files[0]}: changed while it was read. Run the conversion again."
                        )
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
    """Write all rows that the writer does not have, and return counts of remarks.

    name: the name of the source in messages.
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
    """Return a writer for `rows` with the settings of `job`."""
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
