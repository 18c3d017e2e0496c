"""Files that are wrong though their digests are right: refused, with the file and the field."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xxhash
from scipy import sparse

import blocklearn as bl
from blocklearn.datasources import DataError, MatrixSource
from blocklearn.datasources.blocks import BlockSource, BlockWriter
from blocklearn.datasources.errors import ReadError
from blocklearn.learner.checkpoints import checkpoint
from blocklearn.learner.checkpoints.checkpoint import Checkpoint
from blocklearn.learner.errors import ModelFolderError
from blocklearn.learner.runs.run_folder import RunFolder
from blocklearn.learner.storage import model_folder
from blocklearn.learner.storage.manifest import _digest as digest_of
from blocklearn.learner.storage.model_folder import Saved
from blocklearn.matcache import ShapeError
from blocklearn.models import ALS, GLM, LDA, MODELS, NMF, Ranking
from tests.support.edits import edits, text_of
from tests.support.often import rarely

COUNTS = sparse.csr_array(np.random.default_rng(0).poisson(0.7, (60, 12)).astype(np.float32))
TARGETS = (np.random.default_rng(1).random((60, 2)) < 0.5).astype(np.float32)


def source(targets: Any = None) -> MatrixSource:
    names, row_names = [f"w{i}" for i in range(12)], [f"row {i}" for i in range(60)]
    return MatrixSource(COUNTS, targets=targets, names=names, row_names=row_names, block_rows=16)


def learned(model: bl.Model) -> bl.Learner:
    data = source(TARGETS if isinstance(model, GLM) else None)
    return bl.Learner(model, data, passes=1, threads=1).fit()


def signed(tree: dict[str, Any]) -> str:
    """With a digest that is right."""
    content = {name: value for name, value in tree.items() if name != "digest"}
    return text_of({**content, "digest": digest_of(content)})


def writing_signed(file: Path) -> Callable[[dict[str, Any]], None]:
    """Writes content to `file`, with a digest."""

    def write(tree: dict[str, Any]) -> None:
        file.write_text(signed(tree))

    return write


def accepted(
    file: Path,
    write: Callable[[dict[str, Any]], None],
    use: Callable[[], None],
    error: type[Exception] | tuple[type[Exception], ...],
) -> set[tuple[str, str]]:
    """Edits of `file` after which it is taken. All others are refused with `error`, which names the
    file, or another of its folder, and the field, or the array or file that the field is about.
    """
    original = file.read_bytes()
    found, unnamed = set(), []
    content = json.loads(original)
    content.pop("digest", None)
    for field, edit, tree in edits(content):
        write(tree)
        try:
            use()
        except error as refused:
            text = str(refused)
            assert str(file.parent) in text or isinstance(refused, ShapeError), (field, edit, text)
            named = [*field.split("."), *CONTRADICTIONS]
            if not any(part in text for part in named) and "block" not in text:
                unnamed.append((field, edit, text))
        else:
            found.add((field, edit))
    file.write_bytes(original)
    use()
    assert not unnamed
    return found


CONTRADICTIONS = (
    "not a blocklearn", "newer blocklearn", "not the manifest", "must be as many as",
    "were written", "its fields", "its blocks have", " files: must", "it has",
    "two orientations", "as config, targets and names say", "reads format",
    "optimizer's number of steps", "no parameter",
)  # fmt: skip
"""What messages say where a field does not fit others."""


def fields(found: Iterable[tuple[str, str]]) -> dict[str, set[str]]:
    """The edits by field."""
    sorted_: dict[str, set[str]] = {}
    for field, edit in found:
        sorted_.setdefault(field, set()).add(edit)
    return sorted_


# ---- models --------------------------------------------------------------------------------------

OPTIONAL = {"columns", "hash_bits", "targets", "target_names", "outputs"}  # came after version 1
WORDS = {"fingerprint", "created", "libraries"}  # for people
NAMES = {"files.vocab.arrow", "files.rows.arrow"}  # a model need not have them

FREE = {
    "columns": {"null"},  # as of an earlier version
    "targets": {"number"},  # of a model without targets, which takes data with some
    "target_names": {"list"},
    "config.alpha": {"number", "real"},
    "config.eta": {"number", "real"},
    "config.seed_weight": {"number", "real"},
    "config.l1": {"number", "real"},
    "config.l2": {"number", "real"},
    "config.reg": {"number", "real"},
    "config.row_reg": {"number", "real"},
    "config.bias_reg": {"number", "real"},
    "config.init_scale": {"number", "real"},
    "config.forget": {"real"},
    "config.l1_W": {"number", "real"},
    "config.l2_W": {"number", "real"},
    "config.l1_H": {"number", "real"},
    "config.l2_H": {"number", "real"},
    "config.burn_in": {"number"},
    "config.sweeps": {"number"},
    "config.heat": {"number", "real"},
    "config.kept_sweeps": {"number"},
    "config.same": {"number"},
    "config.warm_up": {"number", "huge"},
    "config.fresh_passes": {"number", "huge"},
    "config.inner_iterations": {"number", "huge", "null"},
    "config.more_scores": {"true"},
    "config.top": {"number"},
    "config.negatives": {"number"},
    "config.popularity": {"number", "real"},
    "config.rate": {"number", "real"},
    "config.steps": {"number"},
    "config.cg_steps": {"number", "huge"},
    "config.item_equations_mib": {"number", "huge"},
    "config.biases": {"true"},
    "config.intercept": {"true"},
    "config.weighted": {"true"},
    "config.class_weight": {"mapping"},
    "config.tables": {"null"},
}
"""Edits that make another model which is a good one."""


@pytest.mark.parametrize(
    "model",
    [LDA(topics=3), GLM(), *rarely(ALS(rank=2), NMF(components=2), Ranking(rank=2))],
    ids=lambda model: type(model).__name__,
)
def test_edits_of_a_model(model: bl.Model, tmp_path: Path) -> None:
    path = tmp_path / "m"
    learner = learned(model)
    bl.save(learner, path)
    learner.close()
    file = path / "model.json"

    def use() -> None:
        loaded = bl.load(path, threads=1)
        loaded.predict(COUNTS[:3])
        loaded.close()

    found = accepted(file, writing_signed(file), use, ModelFolderError)
    for field, made in fields(found).items():
        if field in OPTIONAL | NAMES or field == "config" or field.startswith("config."):
            made -= {"missing"}  # an earlier version did not write it: its default
        if field == "config":
            made -= {"mapping"}
        if field.split(".")[0] in WORDS:
            made -= {"text", "mapping", "missing"}
        if field.startswith("outputs."):
            made -= {"text"}
        if field == "outputs":
            made -= {"null"}
        assert made <= FREE.get(field, set()), field


def test_edits_of_the_metrics_of_a_model(tmp_path: Path) -> None:
    path = tmp_path / "m"
    bl.save(learned(LDA(topics=3)), path)
    file, manifest = path / "metrics.json", path / "model.json"
    about = json.loads(manifest.read_text())

    def write(tree: dict[str, Any]) -> None:
        data = text_of(tree).encode()
        file.write_bytes(data)
        about["files"]["metrics.json"] = {
            "bytes": len(data),
            "xxh3_128": xxhash.xxh3_128_hexdigest(data),
        }
        manifest.write_text(signed(about))

    before = json.loads(file.read_text())
    for field, edit, tree in edits(before):
        if field == "model" and edit in ("text", "null", "missing"):
            continue  # which one it is, for people
        write(tree)
        try:
            bl.load(path, threads=1)
        except ModelFolderError as refused:
            assert f"metrics.json: {field}=" in str(refused), (edit, str(refused))
        else:
            good = {"missing", "number"} | ({"real"} if field == "seconds" else set())
            good |= {"null"} if field in ("steps", "phase") else set()  # without an optimizer
            assert edit in good, (field, edit)
    write(before)
    bl.load(path, threads=1)


@pytest.mark.parametrize("name", ["lda", "als", *rarely(*sorted(MODELS.keys() - {"lda", "als"}))])
def test_a_config_that_says_other_sizes(name: str, tmp_path: Path) -> None:
    sizes = {
        "lda": "topics",
        "als": "rank",
        "nmf": "components",
        "ranking": "rank",
        "kmeans": "clusters",
        "svd": "components",
        "gaussian-mixture": "components",
        "fm": "factors",
    }
    size = sizes.get(name)
    if size is None:
        pytest.skip("has no size of its own")
    path = tmp_path / "m"
    bl.save(learned(MODELS[name](**{size: 3})), path)
    tree = json.loads((path / "model.json").read_text())
    tree["config"][size] = 4
    (path / "model.json").write_text(signed(tree))
    with pytest.raises(ModelFolderError, match=r"model.json: tensors.\w+.shape=\[.*must be \["):
        bl.load(path)


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_a_model_with_numbers_that_are_none(number: float, tmp_path: Path) -> None:
    learner = learned(GLM())
    bl.save(learner, tmp_path / "m")
    saved = model_folder.load(tmp_path / "m")
    saved.tensors["W"][3, 1] = number
    bad = Saved("glm", saved.config, saved.tensors, None, "", saved.metrics, targets=2)
    model_folder.save(tmp_path / "bad", bad)
    with pytest.raises(ModelFolderError, match=r"weights.safetensors: W\[3, 1\]=(nan|inf): must"):
        bl.load(tmp_path / "bad")


# ---- checkpoints and runs ------------------------------------------------------------------------


def test_edits_of_a_checkpoint(tmp_path: Path) -> None:
    learner = learned(GLM())
    state = learner.state()
    state.position["best"] = {
        "metric": "auc", "score": 0.5, "pass_": 1, "block": 0, "waited": 0
    }  # fmt: skip
    found = Checkpoint(state, {"auc": 0.5}, {"model": {"kind": "glm"}}, "abc")
    path = checkpoint.write(tmp_path, found)
    file = path / "checkpoint.json"

    def use() -> None:
        learner.restore(checkpoint.read(path).state)  # into a team that is there

    taken = accepted(file, writing_signed(file), use, (ModelFolderError, ShapeError))
    learner.close()
    for field, made in fields(taken).items():
        top, _, name = field.partition(".")
        free = {
            "position.rows": {"number"},
            "position.seconds": {"missing", "number", "real"},
            "position.optimizers": {"missing"},  # of version 1
            "position.block": {"missing"},  # of version 1
            "position.best": {"missing", "null"},
            "position.best.metric": {"text"},
            "position.best.score": {"number", "negative", "real", "huge"},
            "position.best.pass_": {"number"},
            "position.best.block": {"number"},
            "position.best.waited": {"missing", "number"},
            "scores": {"mapping"},
            "scores.auc": {"missing", "null", "number", "negative", "real", "huge"},
            "fingerprint": {"text"},  # compared with that of the data
            "eval_fingerprint": {"missing", "text"},  # the same; earlier versions had none
            "config": {"mapping"},  # compared with that of the run
        }.get(field, set())
        if top == "config" and name:
            free = made
        if field.startswith("position.optimizers."):
            free = {
                "steps": {"number"},
                "phase": {"number"},
                "time": {"missing", "number", "negative", "real", "huge"},
                "reading": {"missing", "true"},
                "sparse": {"missing", "list", "shorter"},
            }.get(field.split(".")[-1], set())
        if field.startswith("tensors.optimizer."):
            free = {"missing"}  # another optimizer may continue, and begins with a state of its own
        if ".sparse." in field:
            free = made  # names of what was stepped sparsely: they only choose the way
        assert made <= free, field


def test_a_checkpoint_with_numbers_that_are_none(tmp_path: Path) -> None:
    learner = learned(GLM())
    state = learner.state()
    learner.close()
    state.tensors["W"][0, 1] = np.nan
    path = checkpoint.write(tmp_path, Checkpoint(state, {}, {}, ""))
    with pytest.raises(ModelFolderError, match=r"state.safetensors: W\[0, 1\]=nan: must be finite"):
        checkpoint.read(path)


def test_edits_of_the_mark_of_a_run(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "run")
    with run.opened(overwrite=False, resume=False):
        pass
    file = run.path / "run.json"
    taken = accepted(
        file, lambda tree: file.write_text(text_of(tree)) and None, lambda: run.mark() and None,
        ModelFolderError,
    )  # fmt: skip
    for field, made in fields(taken).items():
        free = {"text"} | ({"list", "shorter", "missing"} if "command" in field else set())
        assert made <= free | ({"true"} if field == "version" else set()), field
    file.write_text("{")
    with pytest.raises(ModelFolderError, match=r"run.json: damaged: not JSON"):
        run.mark()


# ---- block datasets ------------------------------------------------------------------------------


def test_edits_of_the_manifest_of_a_dataset(tmp_path: Path) -> None:
    path = tmp_path / "blocks"
    with BlockWriter([path], block_rows=16, columns=12) as writer:
        ids = [f"r{i}" for i in range(60)]
        writer.append(COUNTS.indptr, COUNTS.indices, COUNTS.data, targets=TARGETS, ids=ids)
        writer.finish(names=[f"w{i}" for i in range(12)])
    file = path / "manifest.json"

    def write(tree: dict[str, Any]) -> None:
        lines = [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in tree.items()]
        body = (",\n".join(lines) + "\n}\n").encode()
        head = f'{{"digest": "{xxhash.xxh3_128_hexdigest(body)}",\n'
        file.write_bytes(head.encode() + body)

    def use() -> None:
        data = BlockSource([path])
        learner = bl.Learner(GLM(), data, passes=1, threads=1)
        learner.fit()  # blocks are compared with their digests when they are read
        learner.close()

    taken = fields(accepted(file, write, use, (DataError, ReadError)))
    free = {
        "version": {"true"},  # is 1 in Python
        "id": {"text"},
        "origin": {"text"},
        "columns": {"missing"},
        "names": {"missing", "mapping"},
        "names.columns": {"missing"},
        "names.columns.integers": {"missing", "true"},
        "names.rows": {"missing"},
        "names.rows.integers": {"missing", "true"},
    }
    for field, made in taken.items():
        if field.startswith(("names.columns.batches", "names.rows.batches")):
            continue  # names are read when they are asked for
        if not field.startswith("rows.sums"):
            assert made <= free.get(field, set()), field
        assert not {"nan", "infinite", "null", "text"} & made or field in free, field
