"""Killed at any moment, saves included, a run resumes and ends with the bits of an unharmed one.

The cases below have every kind of model, optimizer and data.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from ruamel.yaml import YAML
from scipy import sparse

from blocklearn.datasources import BlockWriter
from blocklearn.datasources.config import Kind
from blocklearn.learner.watch.events import scores_of
from blocklearn.models import MODELS
from blocklearn.optimizers import OPTIMIZERS
from tests.support.hugectr_files import write_norm, write_raw

LOOP = Path(__file__).parents[1] / "support" / "kill_loop.py"
KILLS = 3  # of each case

ROWS, COLUMNS = 240, 60
LEARNER: dict[str, Any] = {"passes": 8, "threads": 2, "log_every_seconds": 1e6}
CASES: dict[str, str] = {
    "glm, sgd, file": """\
model: {kind: glm, l1: 1.0e-3, l2: 1.0e-2}
optimizer: {kind: sgd, rate: 0.3, momentum: 0.5}
data: {train: {kind: file, path: x.npz, targets: y.npy}, eval: {kind: holdout}}
evaluation: {every_blocks: 7, metric: log_loss}
""",
    "glm, sgld, file": """\
model: {kind: glm, l2: 1.0e-2}
optimizer: {kind: sgld, rate: 0.1, rows: 240}
data: {train: {kind: file, path: x.npz, targets: y.npy}, eval: {kind: holdout}}
""",
    "glm, adagrad, blocks": """\
model: {kind: glm}
optimizer: {kind: adagrad, rate: 0.5, average_from: 9}
mixins: [{kind: top-weights}]
data: {train: {kind: blocks, paths: [blocks-0, blocks-1]}, eval: {kind: holdout}, shuffle: blocks}
""",
    "glm, rmsprop, table": """\
model: {kind: glm, l2: 1.0e-2}
optimizer: {kind: rmsprop, rate: 0.05}
data: {train: {kind: table, path: x.csv, targets: [y], numeric: [n], categorical: [c]}}
""",
    "glm, adam, libsvm": """\
model: {kind: glm, l1: 1.0e-3}
optimizer: {kind: adam, rate: 0.05}
data: {train: {kind: libsvm, path: x.svm}, eval: {kind: holdout}}
learner: {replicas: 2, sync_every: 1, sync_weight: 0.7}
evaluation: {metric: log_loss, patience: 100}
""",
    "glm, tables in files": """\
model: {kind: glm}
optimizer: {kind: adagrad}
data: {train: {kind: file, path: x.npz, targets: y.npy}, eval: {kind: holdout}}
learner: {table_folder: tables}
""",
    "glm, averages, tables in files": """\
model: {kind: glm}
optimizer: {kind: sgd, rate: 0.3, average_from: 9}
data: {train: {kind: file, path: x.npz, targets: y.npy}, eval: {kind: holdout}}
learner: {table_folder: [tables-0, tables-1]}
""",
    "fm, tables in files": """\
model: {kind: fm, factors: 3}
optimizer: {kind: adagrad}
data: {train: {kind: file, path: x.npz, targets: y.npy}, eval: {kind: holdout}}
learner: {table_folder: tables}
""",
    "glm, ftrl, parquet": """\
model: {kind: glm, l1: 1.0e-3}
optimizer: {kind: ftrl, rate: 0.5, step_per: row}
data:
  train: {kind: parquet, path: x.parquet, features: {indices: i, values: v, size: 60}, targets: [y]}
  eval: {kind: holdout}
  shuffle: blocks
""",
    "glm, conjugate-gradient, hugectr-norm": """\
model: {kind: glm, l2: 1.0e-2}
optimizer: {kind: conjugate-gradient}
data: {train: {kind: hugectr-norm, path: list.txt, vocabulary_size: 9}}
""",
    "glm, lbfgs, hugectr-raw": """\
model: {kind: glm, l2: 1.0e-2}
optimizer: {kind: lbfgs, memory: 3}
data: {train: {kind: hugectr-raw, path: x.bin, slot_num: 2, vocabulary_size: 9}}
learner: {replicas: 2, sync_every: 1}
""",
    "glm, dual-ascent": """\
model: {kind: glm, l2: 1.0e-2}
optimizer: {kind: dual-ascent, tolerance: 1.0e-9}
data: {train: {kind: file, path: x.npz, targets: y.npy}, eval: {kind: holdout}}
""",
    "lda, streaming-average, python-docs": """\
model: {kind: lda, topics: 4, sweeps: 2}
optimizer: {kind: streaming-average}
data: {train: {kind: python-docs, min_df: 40}, eval: {kind: holdout}, block_rows: 1024}
""",
    "lda, inc-norm, file": """\
model: {kind: lda, topics: 4, inference: cvb0}
optimizer: {kind: inc-norm}
data: {train: {kind: file, path: counts.npz}, eval: {kind: holdout}}
evaluation: {every_passes: 3}
""",
    "lda, telescoping, file": """\
model: {kind: lda, topics: 4, inference: gibbs, sweeps: 2}
optimizer: {kind: telescoping}
data: {train: {kind: file, path: counts.npz}}
""",
    "lda, tables in files": """\
model: {kind: lda, topics: 4, inference: vb}
data: {train: {kind: file, path: wide.npz}, eval: {kind: holdout}}
evaluation: {every_blocks: 3}
learner: {table_folder: tables}
""",
    "als, ratings": """\
model: {kind: als, rank: 3}
data: {train: {kind: ratings, path: ratings.csv, rating: rating}, eval: {kind: holdout}}
learner: {row_folder: rows}
""",
    "ranking, ratings": """\
model: {kind: ranking, rank: 3}
data: {train: {kind: ratings, path: ratings.csv, rating: rating}, eval: {kind: holdout}}
""",
    "als, time-zones": """\
model: {kind: als, rank: 3}
data: {train: {kind: time-zones}, block_rows: 256}
learner: {replicas: 2, sync_every: 1}
""",
    "fm, libsvm": """\
model: {kind: fm, factors: 3, l2: 1.0e-2}
data: {train: {kind: libsvm, path: x.svm}, eval: {kind: holdout}}
""",
    "fm, libffm": """\
model: {kind: fm, factors: 3, l2: 1.0e-2, fields: names}
data: {train: {kind: libffm, path: x.ffm}, eval: {kind: holdout}}
""",
    "svd, file": """\
model: {kind: svd, components: 4, center: true}
data: {train: {kind: file, path: counts.npz}, eval: {kind: holdout}}
""",
    "mixture, file": """\
model: {kind: gaussian-mixture, components: 3, covariance: full, reg_covar: 0.1}
data: {train: {kind: file, path: counts.npz}, eval: {kind: holdout}}
""",
    "word-vectors, sentences": """\
model: {kind: word-vectors, dimensions: 4, sample: 0}
data: {train: {kind: sentences, path: texts.txt, min_count: 1}, eval: {kind: holdout, share: 0.2}}
""",
    "pagerank, python-imports": """\
model: {kind: pagerank}
data: {train: {kind: python-imports}, eval: {kind: python-imports}, block_rows: 200}
""",
    "components, links": """\
model: {kind: components}
data: {train: {kind: links, path: links.csv}, eval: {kind: links, path: links.csv}}
""",
    "triangles, python-imports": """\
model: {kind: triangles}
data: {train: {kind: python-imports}, eval: {kind: python-imports}, block_rows: 200}
""",
    "kmeans, file": """\
model: {kind: kmeans, clusters: 4, update_centres: batch}
data: {train: {kind: file, path: counts.npz}, eval: {kind: holdout}}
""",
    "nmf, python-calls": """\
model: {kind: nmf, components: 4, loss: kullback-leibler}
data: {train: {kind: python-calls}, eval: {kind: holdout, by: entries}, block_rows: 1024}
""",
    "nmf, file": """\
model: {kind: nmf, components: 4, update_H: batch}
data: {train: {kind: file, path: counts.npz}}
""",
}


within_saves: dict[str, int] = {}
"""Kills of each case that left a checkpoint half written or removed."""


def settings(case: str) -> dict[str, Any]:
    """Its whole configuration. A checkpoint after every block: much of the time goes to saving."""
    found: Any = YAML(typ="safe").load(CASES[case])
    found["data"] = {"block_rows": 40} | found["data"]
    found["learner"] = LEARNER | found.get("learner", {})
    return found | {"checkpoint": {"every_blocks": 1}}


def test_every_kind_is_killed() -> None:
    cases = [settings(case) for case in CASES]
    assert {case["model"]["kind"] for case in cases} == set(MODELS)
    assert {case["optimizer"]["kind"] for case in cases if "optimizer" in case} == set(OPTIMIZERS)
    kinds = {kind.model_fields["kind"].default for kind in get_args(Kind)}
    assert {case["data"]["train"]["kind"] for case in cases} == kinds
    assert KILLS * len(cases) >= 50


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """See `make_data`."""
    folder = tmp_path_factory.mktemp("data")
    make_data(folder)
    return folder


def make_data(folder: Path) -> None:
    """The same kind of rows in all the formats of the cases."""
    rng = np.random.default_rng(0)
    X = sparse.csr_array(rng.poisson(0.1, (ROWS, COLUMNS)).astype(np.float32))
    y = (X @ rng.standard_normal(COLUMNS) > 0).astype(np.float32)
    sparse.save_npz(folder / "x.npz", X)
    np.save(folder / "y.npy", y)
    texts = [" ".join("abcdefg"[k] * 3 for k in rng.integers(0, 7, 9)) for _ in range(ROWS)]
    (folder / "texts.txt").write_text("\n".join(texts) + "\n")
    sparse.save_npz(folder / "counts.npz", sparse.csr_array(X + sparse.eye_array(ROWS, COLUMNS)))
    wide = sparse.csr_array((X.data, 20 * X.indices, X.indptr), shape=(ROWS, 20 * COLUMNS))
    sparse.save_npz(folder / "wide.npz", wide)
    with BlockWriter([folder / "blocks-0", folder / "blocks-1"], block_rows=40) as writer:
        writer.append(indptr=X.indptr, indices=X.indices, values=X.data, targets=y[:, None])
        writer.finish()
    n = rng.standard_normal(ROWS)
    lines = [f"{n[i]},{'abc'[i % 3]},{y[i]:.0f}" for i in range(ROWS)]
    (folder / "x.csv").write_text("\n".join(["n,c,y", *lines]) + "\n")
    parts = np.split(X.indices, X.indptr[1:-1]), np.split(X.data, X.indptr[1:-1])
    lists = {name: pa.array(map(list, part)) for name, part in zip("iv", parts, strict=True)}
    pq.write_table(pa.table(lists | {"y": y}), folder / "x.parquet", row_group_size=50)
    lines = [
        f"{y[i]:.0f} " + " ".join(f"{j + 1}:{X[i, j]:.0f}" for j in X[[i]].indices)
        for i in range(ROWS)
    ]
    (folder / "x.svm").write_text("\n".join(lines) + "\n")
    lines = [
        f"{y[i]:.0f} " + " ".join(f"{j % 2}:{j}:{X[i, j]:.0f}" for j in X[[i]].indices)
        for i in range(ROWS)
    ]
    (folder / "x.ffm").write_text("\n".join(lines) + "\n")
    keys = rng.integers(0, 9, (ROWS, 2))
    slots = [[keys[i, k : k + 1] for i in range(ROWS)] for k in range(2)]
    write_norm(folder / "list.txt", y[:, None], np.zeros((ROWS, 0)), slots, files=2)
    write_raw(folder / "x.bin", y[:, None], np.zeros((ROWS, 0)), keys)
    entries = [f"u{i},i{j},{X[i, j] + (i + j) % 3:.0f}" for i, j in zip(*X.nonzero(), strict=True)]
    (folder / "ratings.csv").write_text("\n".join(["user,item,rating", *entries]) + "\n")
    links = [f"{s},{t}" for s, t in rng.integers(0, 400, (600, 2))]
    (folder / "links.csv").write_text("\n".join(["source,target", *links]) + "\n")


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_killed_at_any_moment(data: Path, tmp_path: Path, case: str) -> None:
    killed, inside, names = killed_runs(data, tmp_path, case, KILLS)
    assert killed == KILLS
    within_saves[case] = inside
    for run in [tmp_path / name for name in names]:
        check_run(run, tmp_path / "whole")


def killed_runs(
    data: Path, folder: Path, case: str, kills: int, seed: str = ""
) -> tuple[int, int, list[str]]:
    """How often a run was killed in `folder`, how often within a save, and the complete runs."""
    for file in data.iterdir():
        (folder / file.name).symlink_to(file)
    with (folder / "run.yaml").open("w") as file:
        YAML().dump(settings(case), file)
    command = [sys.executable, str(LOOP), case + seed, str(kills), "--config", "run.yaml", "-q"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    killed, inside, *names = done.stdout.splitlines()[-1].split()
    return int(killed), int(inside), names


def check_run(run: Path, whole: Path) -> None:
    """All bits are those of the run that was left alone, and nothing happened twice."""
    assert weights(run) == weights(whole)
    assert scores(run) == scores(whole)
    assert checkpoints(run) == checkpoints(whole)
    happened = [(e["event"], e["rows"]) for e in events(run) if e["event"] != "start"]
    assert len(happened) == len(set(happened))
    starts = [e.get("checkpoint") for e in events(run) if e["event"] == "start"]
    assert len(starts) == len(set(starts))


@pytest.mark.slow
def test_some_were_killed_within_a_save() -> None:
    if within_saves.keys() != CASES.keys():
        pytest.skip("not all cases have run")
    assert sum(within_saves.values()) >= 5


def weights(run: Path) -> bytes:
    return (run / "weights.safetensors").read_bytes()


def checkpoints(run: Path) -> list[tuple[str, bytes]]:
    """Name and arrays of each; nothing that was half written is left."""
    found = sorted((run / "checkpoints").iterdir())
    return [(path.name, (path / "state.safetensors").read_bytes()) for path in found]


def events(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def scores(run: Path) -> list[tuple[Any, ...]]:
    """What happened where, and all held-out scores."""
    found: list[tuple[Any, ...]] = []
    for event in events(run):
        where = (event["event"], event["pass"], event["batch"], event["rows"])
        if event["event"] in ("eval", "end"):
            found.append((*where, *sorted(scores_of(event).items())))
        elif event["event"] == "train":  # its scores are of blocks that depend on time
            found.append(where)
    return found
