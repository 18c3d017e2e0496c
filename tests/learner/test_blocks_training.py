"""Models trained from block datasets, by the library and by the command line."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import blocklearn as bl
from blocklearn.datasources import (
    BlockSource,
    MatrixSource,
    RowFilter,
    TwoSidedSource,
    split_rows,
    write_blocks,
)
from blocklearn.learner.exit_codes import ExitCode
from blocklearn.learner.training.inputs import counting
from blocklearn.learner.training.inputs.counting import count_labels, sum_values
from blocklearn.models import ALS, GLM, LDA
from tests.support.block_datasets import folders, labelled, write
from tests.support.learn_command import Learn


def documents(rows: int = 240, words: int = 30, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    topics = rng.dirichlet(np.full(words, 0.1), 4)
    mixed = rng.dirichlet(np.full(4, 0.3), rows) @ topics
    return sparse.csr_array(np.stack([rng.multinomial(20, p) for p in mixed]).astype(np.float32))


@pytest.mark.parametrize("codec", ["raw", "lz4"])
def test_the_same_bits_as_from_memory(tmp_path: Path, codec: Any) -> None:
    """Blocks with the same rows give the same model, with any reader and any threads."""
    X = documents()
    memory = MatrixSource(X, block_rows=32)
    paths = folders(tmp_path, 3)
    write_blocks(memory, paths, codec=codec)
    found = []
    for source in (memory, BlockSource(paths), BlockSource(paths, verify=False)):
        learner = bl.Learner(LDA(topics=4), train=source, passes=3, seed=5).fit()
        found.append({k: p.numpy().tobytes() for k, p in learner.model.parameters.items()})
    assert found[0] and found[0] == found[1] == found[2]


def test_both_orientations_of_ratings(tmp_path: Path) -> None:
    """A model that visits users and items in turn has the same bits from disk as from memory."""
    memory = MatrixSource(documents(90, 40), block_rows=16)
    paths = folders(tmp_path, 2)
    write_blocks(memory, paths, both_orientations=True)
    disk = BlockSource(paths)
    assert isinstance(disk, TwoSidedSource)
    found = []
    for source in (memory, disk):
        learner = bl.Learner(ALS(rank=3), train=source, passes=3, seed=5).fit()
        found.append([state.table.numpy().tobytes() for state in learner.model.states.values()])
    assert found[0] and found[0] == found[1]


def test_a_shuffled_dataset_learns_as_well(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 5)).astype(np.float32)
    y = (X @ np.array([2.0, -1.0, 0.5, 0.0, 0.0]) > 0).astype(np.float32)
    memory = MatrixSource(X, targets=y, block_rows=50)
    write_blocks(memory, [tmp_path])
    source = BlockSource([tmp_path], shuffle="blocks", seed=2)
    learner = bl.Learner(GLM(link="logistic"), train=source, eval=memory, passes=10).fit()
    assert learner.progress.scores["auc"] > 0.98


@pytest.fixture
def learn(command: Learn) -> Learn:
    """Runs `learn` in a folder with a dataset on two disks: exit code, stdout, stderr."""
    names = [f"word{i}" for i in range(30)]
    X = documents(300)
    for name, part in (("train", X[:240]), ("eval", X[240:])):
        source = MatrixSource(part, block_rows=32, names=names)
        write_blocks(source, [f"disk0/{name}", f"disk1/{name}"])
    Path("blocks.yaml").write_text(CONFIG)
    return command


CONFIG = """\
model: {kind: lda, topics: 4}
data:
  train: {kind: blocks, paths: [disk0/train, disk1/train]}
  eval: {kind: blocks, paths: [disk1/eval, disk0/eval], verify: always}
learner: {passes: 2, seed: 1}
"""


def test_by_the_command_line(learn: Learn) -> None:
    code, out, err = learn("--config", "blocks.yaml")
    assert code == ExitCode.DONE, err
    assert "word" in out and "perplexity" in err
    events = [json.loads(x) for x in Path("runs/blocks/metrics.jsonl").read_text().splitlines()]
    assert events[-1]["allocations_after_warmup"] == 0 and events[-1]["perplexity"] < 30


def test_rows_held_out_of_a_dataset(learn: Learn) -> None:
    Path("blocks.yaml").write_text(re.sub("eval: .*", "eval: {kind: holdout, share: 0.2}", CONFIG))
    code, _, err = learn("--config", "blocks.yaml")
    assert code == ExitCode.DONE, err
    assert "perplexity" in err


def test_data_that_are_damaged_or_missing(learn: Learn) -> None:
    path = Path("disk1/train/rows-1-of-2.arrow")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    code, _, err = learn("--config", "blocks.yaml")
    assert code == ExitCode.DATA
    assert re.search(r"block \d of pass 0 .*disk1/train/rows-1-of-2.arrow, block \d: damaged", err)
    path.unlink()
    code, _, err = learn("--config", "blocks.yaml", "--overwrite")
    assert code == ExitCode.DATA and "rows-1-of-2.arrow is in none of these folders" in err
    Path("blocks.yaml").write_text(CONFIG.replace("disk1/train", "disk2/train"))
    code, _, err = learn("--config", "blocks.yaml", "--overwrite")
    assert code == ExitCode.NO_INPUT and "disk2/train" in err


def test_words_of_another_vocabulary(learn: Learn) -> None:
    names = [f"word{i}" for i in range(29)] + ["another"]
    source = MatrixSource(documents(), block_rows=32, names=names)
    write_blocks(source, ["disk0/eval", "disk1/eval"], overwrite=True)
    code, _, err = learn("--config", "blocks.yaml")
    assert code == ExitCode.DATA and "column 29 is 'another'" in err and "same vocabulary" in err


@pytest.mark.parametrize("codec", ["raw", "lz4"])
def test_sums_of_labels_need_no_features(
    tmp_path: Path, codec: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = labelled(60)
    write(data, [tmp_path], codec=codec)
    kept = split_rows(60, 0.3, 1)[0]
    weights = data.weights[kept].astype(np.float64)
    part = RowFilter(BlockSource([tmp_path], shuffle="blocks"), 0.3, 1, held=False)
    with monkeypatch.context() as patched:
        patched.setattr(BlockSource, "read", None)
        found = count_labels(part)
    assert found.weight == pytest.approx(weights.sum(), rel=1e-12)
    assert found.sums == pytest.approx(weights @ data.targets[kept], rel=1e-12)
    with monkeypatch.context() as patched:
        patched.setattr(RowFilter, "read_labels", lambda self: None)  # as of any other source
        other = count_labels(part)
    assert found == other


def test_reading_all_data_before_training_is_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(counting, "TOLD_SECONDS", 0.0)
    X = sparse.csr_array(np.ones((30, 4)))
    found = sum_values(RowFilter(MatrixSource(X, block_rows=10), 0.3, 1, held=False))
    assert found.total == found.number > 0
    assert "sums over all data: 2 of 3 blocks are read" in caplog.text
