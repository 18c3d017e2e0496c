"""`block_rows: auto`: a number that data and model decide, kept by the run."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import blocklearn as bl
from blocklearn.models import BlockSize, Needs
from tests.support.learn_command import Learn

X = sp.csr_array(np.random.default_rng(0).poisson(0.3, (400, 30)).astype(np.float32))


@pytest.mark.parametrize("rows", [0, 1, 31, 32, 33, 1_000, 1_600, 51_200, 10**7])
@pytest.mark.parametrize("steps", [1, 8, 50])
def test_blocks_are_equal_and_within_the_bounds(steps: int, rows: int) -> None:
    size = BlockSize(steps).of(rows)
    assert 1 <= size <= 1024
    blocks = -(-rows // size)
    assert blocks * size - rows < max(blocks, 32)  # no block is much smaller than the others
    if 32 * steps <= rows <= 1024 * steps:
        assert steps <= blocks <= 1.1 * steps + 1


@pytest.mark.parametrize("threads", [1, 2])
def test_a_learner_has_the_number(threads: int) -> None:
    learner = bl.Learner("lda", X, eval=0.1, threads=threads)
    assert learner.train is not None and learner.eval is not None
    rows = learner.train.shape.total_rows
    assert learner.data.block_rows == learner.train.shape.rows == BlockSize(least=16).of(rows)
    assert learner.eval.shape.rows == learner.data.block_rows
    learner.close()
    assert bl.Learner(bl.models.LDA(topics=2)).data.block_rows == 1024  # no data yet


def test_the_number_is_as_if_it_were_given() -> None:
    chosen = bl.Learner("nmf", X, passes=2).fit()
    given = bl.Learner("nmf", X, passes=2, block_rows=chosen.data.block_rows).fit()
    assert np.array_equal(chosen.parameter("H"), given.parameter("H"))


def test_another_word_is_refused() -> None:
    with pytest.raises(ValueError, match="block_rows='large': must be a number, or 'auto'"):
        bl.Learner("nmf", X, block_rows="large")  # type: ignore[arg-type]


def test_a_run_keeps_the_number(command: Learn, tmp_path: Path) -> None:
    rng, words = np.random.default_rng(0), [2 * (a + b) for a in "abcdef" for b in "aeiou"]
    lines = "\n".join(" ".join(rng.choice(words, 12)) for _ in range(400))
    (tmp_path / "texts.txt").write_text(lines)
    data = "data: {train: {kind: file, path: texts.txt}}"
    (tmp_path / "run.yaml").write_text(
        f"model: {{kind: lda, inference: cvb0, topics: 3}}\n{data}\nout: run\n"
    )

    def train(*more: str) -> str:
        code, out, err = command("train", "--config", "run.yaml", *more)
        assert code == 0, err
        return out + err

    plan = train("--dry-run")
    size = int(re.findall(r"blocks of (\d+) rows \(data.block_rows: auto\)", plan)[0])
    train()
    assert f"block_rows: {size}\n" in (tmp_path / "run" / "config.yaml").read_text()
    train("--set", "learner.passes=2", "--resume", "auto")
    train("--set", "learner.passes=2", "--set", f"data.block_rows={size}", "--out", "whole")
    resumed, new = (tmp_path / name / "weights.safetensors" for name in ("run", "whole"))
    assert resumed.read_bytes() == new.read_bytes()


def test_models_of_earlier_versions_keep_their_sizes_and_needs() -> None:
    with pytest.warns(DeprecationWarning) as told:

        class Early(bl.models.NMF):
            steps_of_pass = 4
            largest_block = 64

            @property
            def sample_rows(self) -> int:
                return self.components

        class Later(bl.models.SVD):
            @property
            def needs_counts(self) -> bool:
                return True

    texts = [str(each.message) for each in told]
    assert "Early.steps_of_pass is now block_size = BlockSize(steps=...)" in "\n".join(texts)
    assert Early.block_size == BlockSize(4, 32, 64)
    assert Later().needs == Needs(counts=True)
    assert {each.filename for each in told} == {__file__}
