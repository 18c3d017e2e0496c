"""Describe data of any format, a model or a run: `learn inspect` without the command line.

A report is a mapping of JSON values; `inspection_lines` turns it into text.
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blocklearn.datasources.blocks import BlockSource
from blocklearn.datasources.blocks.folders import open_dataset
from blocklearn.datasources.blocks.manifest import Part
from blocklearn.datasources.formats import FORMATS, Scratch, find_files, open_rows
from blocklearn.datasources.formats.profile import Profile, Range
from blocklearn.datasources.formats.source_rows import SourceRows
from blocklearn.datasources.parquet import ParquetSource
from blocklearn.datasources.secrets import hidden
from blocklearn.durable import current

from ..conversion.display import Watch
from ..conversion.folder import nbytes
from ..runs.run_folder import RunFolder
from ..storage import model_folder
from ..storage.tensor_file import read_tensors
from ..watch.events import evaluations
from .advice import advise
from .table_report import has_texts, spread, table_report

Report = dict[str, Any]


def inspect(
    names: Sequence[str], watch: Watch, *, format: str | None = None, options: Report | None = None
) -> Report:
    """Return a report on `names`: one path, or several of one data set. All rows are read.

    format, options: as for `learn convert`.

    Raises:
        DataError: the data are damaged or of an unknown format.
        FileNotFoundError: a path does not exist.
    """
    folder = Path(names[0])
    if len(names) == 1 and format is None:
        if RunFolder(folder).exists:
            return run_report(RunFolder(folder))
        if (folder / model_folder.MANIFEST).is_file():
            return {"kind": "model", **model_report(folder)}
        if not options and has_texts(names):
            return table_report(folder)
    return data_report(names, watch, format, options or {})


def data_report(names: Sequence[str], watch: Watch, format: str | None, options: Report) -> Report:
    """Return statistics of all rows, and advice."""
    kind, files = find_files(names, format, options)
    stored = sum(map(nbytes, files))
    with tempfile.TemporaryDirectory() as folder:
        watch.begin(stored * FORMATS[kind].passes)
        scratch = Scratch(Path(folder), tell=watch.read)
        rows = open_rows(names, scratch, format=format, options=options)
        profile = Profile(rows.layout)
        for chunk in rows.chunks():
            profile.add(chunk)
            watch.rows(len(chunk))
    report: Report = {
        "kind": kind,
        "what": FORMATS[kind].words,
        "files": len(files),
        "bytes": stored,
        **profile_report(profile),
    }
    source = rows.source if isinstance(rows, SourceRows) else None
    if isinstance(source, BlockSource):
        report |= blocks_report(files)
    if isinstance(source, ParquetSource):
        report |= {"files": len(source.files), "bytes": source.nbytes}  # the source knows URLs, too
        report["row_groups"] = spread(np.array([rows for rows, _ in source.row_groups]))
        report["row_group_bytes"] = spread(np.array([size for _, size in source.row_groups]))
    report["slow"] = advise(report)
    return report


def profile_report(profile: Profile) -> Report:
    """Return a profile as JSON values."""
    layout = profile.layout
    targets: Sequence[str | None] = layout.target_names or [None] * layout.targets
    return {
        "rows": profile.rows,
        "columns": layout.columns,
        "named_columns": layout.names is not None,
        "dense": layout.dense,
        "nnz": profile.nnz,
        "empty_rows": profile.empty_rows,
        "empty_columns": profile.empty_columns,
        "longest_rows": [row._asdict() for row in profile.longest],
        "share_of_longest_rows": profile.share_of_longest_rows,
        "fullest_columns": [column._asdict() for column in profile.fullest],
        "share_of_fullest_columns": profile.share_of_fullest_columns,
        "values": range_report(profile.values),
        "targets": [
            {"name": name, **range_report(found)}
            for name, found in zip(targets, profile.targets, strict=True)
        ],
        "weights": range_report(profile.weights) if layout.weighted else None,
        "notes": [*layout.notes, *(f"{n:,} {what}" for what, n in profile.remarks.items())],
    }


def range_report(found: Range) -> Report:
    """Return the count, bounds and kind of numbers."""
    known = found.count > 0
    return {
        "count": found.count,
        "zeros": found.zeros,
        "negatives": found.negatives,
        "least": found.least if known else None,
        "largest": found.largest if known else None,
        "whole": found.whole,
    }


def blocks_report(folders: Sequence[Path]) -> Report:
    """Return what the manifest of a dataset says of its blocks."""
    manifest = open_dataset(folders).manifest
    return {
        "codec": manifest.codec,
        "stripes": manifest.stripes,
        "origin": hidden(manifest.origin),
        "orientations": 1 if manifest.columns is None else 2,
        "block_rows": manifest.rows.block_rows,
        "blocks": len(manifest.rows.blocks),
        "block_nnz": spread(np.array(manifest.rows.blocks.nnz)),
        "block_bytes": spread(np.array(manifest.rows.blocks.bytes)),
        "block_decoded_bytes": spread(decoded_bytes(manifest.rows)),
    }


def decoded_bytes(part: Part) -> NDArray[np.int64]:
    """Return the bytes of each block in memory, without its transposed index."""
    rows, nnz = np.array(part.blocks.rows, np.int64), np.array(part.blocks.nnz, np.int64)
    features = 4 * rows * part.columns if part.dense else 8 * (rows + 1) + 8 * nnz
    return np.asarray(features + 4 * rows * (part.targets + part.weighted), np.int64)


def model_report(folder: Path) -> Report:
    """Return a report on the model in a folder.

    Raises:
        ModelFolderError: the folder is damaged.
    """
    folder = current(folder)
    manifest, metrics = model_folder.about(folder, "no model here")
    return {
        "model": manifest["kind"],
        "config": manifest["config"],
        "created": manifest["created"],
        "arrays": {name: entry["shape"] for name, entry in manifest["tensors"].items()},
        "ranges": ranges_of_rows(folder, manifest),
        "bytes": sum(entry["bytes"] for entry in manifest["files"].values()),
        "targets": manifest.get("targets", 0),
        "metrics": metrics,
    }


def ranges_of_rows(folder: Path, manifest: Report) -> Report:
    """Return the bounds and the sum of each array of one row, such as intercepts and priors.

    Raises:
        ModelFolderError: the arrays are damaged.
    """
    tensors = manifest["tensors"]
    rows = {name: e for name, e in tensors.items() if len(e["shape"]) == 2 and e["shape"][0] == 1}
    if not rows:
        return {}
    found = read_tensors(folder / model_folder.WEIGHTS, rows, mapped=True)
    return {
        name: {"least": float(a.min()), "largest": float(a.max()), "sum": float(a.sum(dtype=float))}
        for name, a in found.items()
        if a.size
    }


def run_report(run: RunFolder) -> Report:
    """Return a report on the run in a folder."""
    mark = run.mark()
    found = sorted(run.checkpoints.glob("pass-*")) if run.checkpoints.is_dir() else []
    scores = evaluations(run.metrics) if run.metrics.exists() else []
    there = (current(run.path) / model_folder.MANIFEST).is_file()
    return {
        "kind": "run",
        "started": mark["started"],
        "host": mark["host"],
        "command": [hidden(str(argument)) for argument in mark["command"]],
        "config_file": str(run.config),
        "checkpoints": [path.name for path in found],
        "evaluations": len(scores),
        "last_evaluation": scores[-1] if scores else None,
        **(model_report(run.path) if there else {"model": None}),
    }
