"""Data with other columns or rows than a model: told in words, or matched by number."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import blocklearn as bl
from blocklearn.datasources import MatrixSource, read_counts
from blocklearn.datasources.blocks import write_blocks
from blocklearn.learner.exit_codes import ExitCode
from tests.learner.test_new_data import learn
from tests.support.formats import example

X = abs(example(60, 12)).tocsr()


def dataset(folder: Path, rows: Any, **options: Any) -> Path:
    write_blocks(MatrixSource(rows, block_rows=20), [folder], **options)
    return folder


def test_a_dataset_with_other_columns_than_a_model_without_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = MatrixSource(X, targets=np.arange(60) % 2)
    bl.save(bl.Learner(bl.models.GLM(), train=source, threads=1).fit(), tmp_path / "model")
    data = dataset(tmp_path / "narrow", X[:, :7])
    out = tmp_path / "out.npy"
    assert learn("predict", tmp_path / "model", "--data", data, "--out", out) == ExitCode.DATA
    assert f"{data}: 7 columns, but the model has 12" in capsys.readouterr().err


def test_rows_of_an_als_model_cannot_be_held_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = dataset(tmp_path / "data", X, both_orientations=True)
    (tmp_path / "als.yaml").write_text(
        f"model: {{kind: als, rank: 2}}\ndata: {{train: {{kind: blocks, paths: [{data}]}}, "
        "eval: {kind: holdout, share: 0.2}}\n"
    )
    code = learn("--config", tmp_path / "als.yaml", "--out", tmp_path / "run", "--threads", 1)
    assert code == ExitCode.DATA
    assert "hold out entries of one (by: entries)" in capsys.readouterr().err


@pytest.mark.parametrize("min_df", [1, 3])
def test_a_model_of_counts_without_words_knows_their_file(tmp_path: Path, min_df: int) -> None:
    """Columns that are empty, or rare, have no other place in the model than in the data."""
    counts = sparse.csr_array(np.eye(5, 8)[[0, 0, 0, 2, 2, 4, 4, 4]])
    sparse.save_npz(tmp_path / "x.npz", counts)
    (tmp_path / "lda.yaml").write_text(
        "model: {kind: lda, topics: 2}\nlearner: {threads: 1}\n"
        f"data: {{train: {{kind: file, path: {tmp_path / 'x.npz'}, min_df: {min_df}}}}}\n"
    )
    run = tmp_path / "run"
    assert learn("--config", tmp_path / "lda.yaml", "--out", run, "-q") == 0
    assert learn("predict", run, "--data", tmp_path / "x.npz", "--out", tmp_path / "p.npy") == 0
    trained = read_counts(tmp_path / "x.npz", min_df=min_df)
    assert trained.counts.shape[1] == (8 if min_df == 1 else 2)
    again = read_counts(tmp_path / "x.npz", trained.vocabulary)
    assert (again.counts != trained.counts).nnz == 0


def test_an_unfinished_dataset_is_told_from_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("unfinished.jsonl", "rows-0-of-1.arrow"):
        (tmp_path / name).touch()
    assert learn("inspect", tmp_path, "-q") == ExitCode.DATA
    assert "unfinished dataset: its conversion was interrupted" in capsys.readouterr().err


@pytest.mark.parametrize(
    "model", [bl.models.GLM(), bl.models.LDA(topics=2), bl.models.NMF(components=2)]
)
def test_a_loaded_model_refuses_data_with_other_columns(
    tmp_path: Path, model: bl.models.Model
) -> None:
    """Each time, not only once: no model without what was loaded is left behind."""
    data = (X, np.arange(60) % 2) if model.needs_targets else X
    trained = bl.Learner(model, train=data, threads=1).fit()
    bl.save(trained, tmp_path / "model")
    loaded = bl.load(tmp_path / "model")
    for _ in range(2):
        with pytest.raises(bl.matcache.ShapeError, match=r"7 columns, but .* shape \(12, "):
            loaded.predict(X[:, :7])
    np.testing.assert_array_equal(loaded.predict(X), trained.predict(X))
