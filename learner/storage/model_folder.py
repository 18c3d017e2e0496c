"""A trained model on disk, for any language and every later blocklearn.

| file | contents |
|---|---|
| `model.json` | format version, kind, configuration, shapes, dtypes, digests, library versions |
| `weights.safetensors` | the parameters, C-contiguous |
| `vocab.arrow` | names of the columns, one string each, if they are known (Arrow IPC) |
| `hashed.arrow` | names of hashed columns, with the number of each, if they are known (Arrow IPC) |
| `rows.arrow` | names of the rows, for models that keep a state of each row (users' factors) |
| `metrics.json` | scores at the end of training |
| `README.md` | a description of the model and these files for people |

Nothing is pickled. Every file is compared with its digest when it is read.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from blocklearn.datasources import HashedWords, Ids
from blocklearn.durable import current, settle, write_folder
from blocklearn.models import MODELS

from ..errors import ModelFolderError, RunFolderError
from .manifest import Format, finite, read_manifest, read_verified, verified, write_manifest
from .name_files import read_hashed, read_names, write_hashed, write_names
from .schemas import REMEDY, ModelManifest, ModelMetrics, check_content, check_counts, parsed, shown
from .tensor_file import Mapped, check_finite, read_tensors, write_tensors

FORMAT = Format("blocklearn model", 1)
MANIFEST = "model.json"
WEIGHTS = "weights.safetensors"
VOCABULARY = "vocab.arrow"
HASHED = "hashed.arrow"
ROWS = "rows.arrow"
METRICS = "metrics.json"
README = "README.md"
RUN = "run.json"  # marks the folder of a run, whose model is its own
FILES = (MANIFEST, WEIGHTS, VOCABULARY, HASHED, ROWS, METRICS, README)
LOST = "lost"  # key in `metrics.json`: the score of a best model that was lost, and the reason
LIBRARIES = ("blocklearn", "numpy", "scipy", "numba", "pyarrow")


@dataclass(frozen=True)
class Saved:
    """The contents of a model folder.

    Attributes:
        kind: the name of the model class.
        config: the values of the model's fields.
        tensors: the parameters and row states by name: arrays, or `RowPieces` to be written.
        names: the names of the columns; None: unknown.
        fingerprint: the fingerprint of the training data.
        metrics: scores at the end of training, and its length.
        libraries: the versions of the libraries that wrote the folder; by default the present ones.
        targets: the number of targets.
        columns: the number of columns of the training data; None: not recorded.
        target_names: the names of the targets; None: unknown.
        row_names: the names of the rows that the model keeps a state of; None: unknown.
        outputs: name and properties of each column of predictions; None: the model has none.
    """

    kind: str
    config: dict[str, Any]
    tensors: Mapping[str, Any]
    names: Sequence[str] | None
    fingerprint: str
    metrics: dict[str, Any]
    libraries: dict[str, str] = field(
        default_factory=lambda: {library: version(library) for library in LIBRARIES}
    )
    targets: int = 0
    columns: int | None = None
    target_names: Sequence[str] | None = None
    row_names: Sequence[str] | None = None
    outputs: list[dict[str, str]] | None = None


def save(path: Path, saved: Saved) -> None:
    """Write a model to the folder `path`, completely or not at all.

    At every moment of a replacement, the old or the new model can be loaded. Other files in the
    folder stay.

    Raises:
        RunFolderError: `path` is no folder of a model or a run, but has files of these names.
        OSError: the folder cannot be written.
    """
    path, names = Path(path), saved.names
    words, seen, bits = names, None, None
    if isinstance(names, HashedWords):
        words, seen, bits = names.first or None, names.seen or None, names.bits
    known = {VOCABULARY: words, ROWS: saved.row_names}
    named = {file: listed for file, listed in known.items() if listed is not None}
    settle(path)
    foreign = [name for name in FILES if (path / name).exists()]
    if foreign and MANIFEST not in foreign and not (path / RUN).exists():
        raise RunFolderError(
            f"{path}: not a model folder (it has no {MANIFEST}), but has {', '.join(foreign)}, "
            "which a model would overwrite. Choose another folder."
        )

    def fill(folder: Path) -> None:
        entries = write_tensors(folder / WEIGHTS, saved.tensors)
        files = [WEIGHTS, METRICS]
        numbers = {name: finite(value) for name, value in saved.metrics.items()}
        (folder / METRICS).write_text(json.dumps(numbers, indent=2) + "\n", encoding="utf-8")
        for file, listed in named.items():
            write_names(folder / file, listed)
            files.append(file)
        if seen is not None:
            write_hashed(folder / HASHED, seen)
            files.append(HASHED)
        content = {
            "kind": saved.kind,
            "config": saved.config,
            "tensors": entries,
            "hash_bits": bits,
            "targets": saved.targets,
            "columns": saved.columns,
            "target_names": None if saved.target_names is None else list(saved.target_names),
            "outputs": saved.outputs,
            "fingerprint": saved.fingerprint,
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "libraries": saved.libraries,
        }
        write_manifest(folder, MANIFEST, format=FORMAT, content=content, files=files)
        (folder / README).write_text(_readme(content, numbers, named), encoding="utf-8")

    write_folder(path, fill)
    for file in {VOCABULARY, HASHED, ROWS} - named.keys() - ({HASHED} if seen else set()):
        (path / file).unlink(missing_ok=True)  # left from the replaced model


def load(path: Path, *, mapped: Mapped = False) -> Saved:
    """Read the model in the folder `path`.

    mapped: whether tensors are memory-mapped, not copied: see `read_tensors`.

    Raises:
        ModelMissingError: the folder has no model.
        ModelFolderError: a file is missing, damaged, or of a newer format; the message names it.
    """
    path = Path(path)
    before: object = None
    while True:
        folder = current(path)
        try:
            stat = (folder / MANIFEST).stat()
            now: object = (folder, stat.st_ino, stat.st_mtime_ns)
        except OSError:
            now = folder
        try:
            return _load(folder, mapped)
        except (ModelFolderError, FileNotFoundError):
            if now == before:
                raise
            before = now  # read again: it may have been replaced meanwhile


def _load(folder: Path, mapped: Mapped) -> Saved:
    missing = "" if (folder / MANIFEST).exists() else _why_none(folder)
    manifest, metrics = about(folder, missing)
    weights = verified(folder, WEIGHTS, manifest)
    tensors = read_tensors(weights, manifest["tensors"], mapped=mapped)
    check_finite(weights, tensors)
    names: Sequence[str] | None = None
    if VOCABULARY in manifest["files"]:
        names = list(read_names(read_verified(folder, VOCABULARY, manifest)))
    if manifest.get("hash_bits") is not None:
        seen: dict[int, str] = {}
        if HASHED in manifest["files"]:
            seen = read_hashed(folder / HASHED, read_verified(folder, HASHED, manifest))
        names = HashedWords(manifest["hash_bits"], names or (), seen)
    rows: Ids | None = None
    if ROWS in manifest["files"]:
        rows = read_names(read_verified(folder, ROWS, manifest))
    _check_names(folder, manifest, tensors, names, rows)
    return Saved(
        kind=manifest["kind"],
        config=manifest["config"],
        tensors=tensors,
        names=names,
        fingerprint=manifest["fingerprint"],
        metrics=metrics,
        libraries=manifest["libraries"],
        targets=manifest.get("targets", 0),
        columns=manifest.get("columns"),
        target_names=manifest.get("target_names"),
        row_names=rows,
        outputs=manifest.get("outputs"),
    )


def _why_none(folder: Path) -> str:
    """Return why there is no model in a folder without a manifest, and what to do."""
    if (folder / RUN).exists():
        if (folder / WEIGHTS).exists():
            return f"{MANIFEST} is missing; the same command with --resume auto writes it again"
        return "this run has no model yet; it is written at the end. Resume with --resume auto"
    why = f"no {MANIFEST}"
    if not folder.exists():
        why = "no such folder"
    elif not folder.is_dir():
        why = "a file, not a folder. Name the folder of a run or of a saved model"
    elif inside := sorted(path.parent for path in folder.glob(f"*/{MANIFEST}")):
        why += f"; {inside[0]} has one"
    return f"no model here ({why})"


def about(folder: Path, missing: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Read the contents of `model.json` and of `metrics.json`.

    missing: the message if there is no `model.json`.

    Raises:
        ModelMissingError: there is no `model.json`.
        ModelFolderError: a file is damaged, or its schema refuses a field.
    """
    manifest = read_manifest(folder, MANIFEST, format=FORMAT, schema=ModelManifest, missing=missing)
    check_counts(manifest, folder / MANIFEST)
    metrics = parsed(read_verified(folder, METRICS, manifest), folder / METRICS)
    check_content(ModelMetrics, metrics, folder / METRICS)
    return manifest, metrics


def _check_names(
    folder: Path,
    manifest: Mapping[str, Any],
    tensors: Mapping[str, NDArray[Any]],
    names: Sequence[str] | None,
    rows: Ids | None,
) -> None:
    """Raise `ModelFolderError` if names, columns or outputs do not fit each other or the arrays."""
    outputs, widths = manifest.get("outputs"), {a.shape[-1] for a in tensors.values() if a.ndim}
    if outputs is not None and len(outputs) not in widths:
        raise ModelFolderError(
            f"{folder / MANIFEST}: outputs={shown(outputs)}: must be as many as an array of the "
            f"model has columns, {sorted(widths)}. {REMEDY}"
        )
    columns = manifest.get("columns")
    if None not in (columns, names) and columns != len(names or ()):
        raise ModelFolderError(
            f"{folder / MANIFEST}: columns={columns}: must be as many as have names, "
            f"{len(names or ())}. {REMEDY}"
        )
    lengths = {length for array in tensors.values() for length in array.shape}
    for file, found in ((VOCABULARY, names), (ROWS, rows)):
        if found is not None and lengths and len(found) not in lengths:
            raise ModelFolderError(
                f"{folder / file}: names={len(found)}: must be as many as an array of the model "
                f"has rows, {sorted(lengths)}. Take the file from a copy of the folder."
            )


def _readme(
    content: Mapping[str, Any], metrics: Mapping[str, Any], named: Mapping[str, Sequence[str]]
) -> str:
    """Return the text of `README.md`, for readers without blocklearn."""
    arrays = "\n".join(
        f"- `{name}`: {entry['dtype']} {' x '.join(map(str, entry['shape'])) or 'one number'}"
        for name, entry in content["tensors"].items()
    )
    numbers = "\n".join(f"- {name}: {value}" for name, value in metrics.items())
    what = {VOCABULARY: "columns", ROWS: "rows"}
    vocabulary = "".join(
        f"`{file}` (Arrow IPC) holds the names of the {len(names)} {what[file]}.\n"
        for file, names in named.items()
    )
    if content["hash_bits"] is not None:
        vocabulary += (
            f"Columns are 2^{content['hash_bits']} hashes, behind those with a name. "
            f"`{HASHED}`, if it exists, has the names that are known, by the number of the hash.\n"
        )
    if content["target_names"]:
        vocabulary += f"Targets: {', '.join(content['target_names'])}.\n"
    own = "" if content["kind"] in MODELS else f", model={content['kind']}"  # a class of the user's
    return f"""# {content["kind"]} model

Written by blocklearn {content["libraries"]["blocklearn"]} on {content["created"]}.

    import blocklearn as bl
    learner = bl.load("this folder"{own})

Without blocklearn: `safetensors.numpy.load_file("{WEIGHTS}")` gives the arrays
{arrays}

{vocabulary}`{MANIFEST}` holds the configuration and the digest of every file.

At the end of training:
{numbers}
"""
