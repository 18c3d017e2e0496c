"""Files of every release so far: this version reads them, and finds the same numbers in them.

`scripts/make_format_samples.py` makes those of a release. They never change afterwards.
"""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import blocklearn as bl
from blocklearn.datasources import BlockSource, blocks_of_entries, row_names
from tests.learner.test_model_format import page as page
from tests.support.page_blocks import ROOT

FORMATS = ROOT / "tests" / "data" / "formats"
RELEASES = [path.parent for path in sorted(FORMATS.glob("*/numbers.npz"))]
MODELS = [path.parent for path in sorted(FORMATS.glob("*/*/model.json"))]
NEAR = {"nmf": 5e-4}  # 0.1.0 multiplied 50 times, which ends a little before the least squares
BLOCKS = sorted(FORMATS.glob("*/blocks"))


def name(path: Path) -> str:
    return path.relative_to(FORMATS).as_posix()


def numbers(release: Path) -> dict[str, Any]:
    with np.load(release / "numbers.npz", allow_pickle=False) as file:
        return dict(file)


def test_there_are_samples_of_each_kind() -> None:
    assert RELEASES and len(BLOCKS) == len(RELEASES)
    kinds = {bl.load(path).model.model_dump()["kind"] for path in MODELS}
    assert kinds <= set(bl.models.MODELS)  # new kinds are in the samples of the next release
    for release in RELEASES:
        models = {path.name for path in MODELS if path.parent == release}
        assert models == set(numbers(release)) - {"X", "Y", "weights", "new"}
        files = [file for file in release.rglob("*") if file.is_file()]
        assert sum(file.stat().st_size for file in files) < 200_000


@pytest.mark.parametrize("path", MODELS, ids=name)
def test_a_model_predicts_the_same(path: Path) -> None:
    kept = numbers(path.parent)
    learner = bl.load(path)
    new = sparse.csr_array(kept["new"])
    expected = kept[path.name]
    np.testing.assert_allclose(
        learner.predict(new), expected, rtol=1e-3, atol=NEAR.get(path.name, 1e-4)
    )
    assert all(np.isfinite(score) for score in learner.progress.scores.values())
    # triangles take one pass, components end earlier
    assert learner.progress.scores and learner.progress.pass_ in (1, 2, 3)
    assert learner.names is not None and len(learner.names) == new.shape[1]


@pytest.mark.parametrize("path", MODELS, ids=name)
def test_the_documented_way_to_read_it_still_holds(path: Path, page: dict[str, Any]) -> None:
    kept = numbers(path.parent)
    model, tensors = page["read_model"](path)
    found = page[f"predict_{model['kind'].replace('-', '_')}"](
        model, tensors, kept["new"].astype(np.float64)
    )
    np.testing.assert_allclose(found, kept[path.name], rtol=2e-3, atol=NEAR.get(path.name, 2e-4))


@pytest.mark.parametrize("path", MODELS, ids=name)
def test_a_model_can_be_saved_again(path: Path, tmp_path: Path) -> None:
    bl.save(bl.load(path), tmp_path / "again")
    again, kept = bl.load(tmp_path / "again"), numbers(path.parent)
    new = sparse.csr_array(kept["new"])
    np.testing.assert_array_equal(again.predict(new), bl.load(path).predict(new))
    assert again.names == bl.load(path).names and again.row_names == bl.load(path).row_names


@pytest.mark.parametrize("path", BLOCKS, ids=name)
def test_a_block_dataset_has_the_same_rows(path: Path) -> None:
    kept, source = numbers(path.parent), BlockSource([path])
    found = np.zeros_like(kept["X"])
    for rows, entries in blocks_of_entries(source):
        found[rows] = entries.toarray()
    np.testing.assert_array_equal(found, kept["X"])
    across = np.zeros_like(kept["X"].T)
    for rows, entries in blocks_of_entries(source.transposed()):
        across[rows] = entries.toarray()
    np.testing.assert_array_equal(across, kept["X"].T)
    assert list(row_names(source) or ()) == [f"document {i}" for i in range(len(found))]
    learner = bl.load(path.parent / "glm")
    labelled = sparse.csr_array(kept["X"]), kept["Y"], kept["weights"]
    ours, theirs = learner.evaluate(source), learner.evaluate(labelled)
    assert ours == pytest.approx(theirs, rel=1e-4)  # so targets and weights are the same, too


@pytest.mark.slow
def test_samples_are_made_once(tmp_path: Path, page: dict[str, Any]) -> None:
    script = ["scripts/make_format_samples.py", "--to"]
    made = subprocess.run(
        [sys.executable, *script, str(tmp_path / "new")], cwd=ROOT, capture_output=True, text=True
    )
    assert made.returncode == 0, made.stderr
    folders = {p.name for p in (tmp_path / "new").iterdir()}
    assert folders >= {p.name for p in RELEASES[-1].iterdir()}
    paths = [path.parent for path in (tmp_path / "new").glob("*/model.json")]
    assert {page["read_model"](path)[0]["kind"] for path in paths} == set(bl.models.MODELS)
    for path in paths:
        test_a_model_predicts_the_same(path)
        test_the_documented_way_to_read_it_still_holds(path, page)
    again = subprocess.run(
        [sys.executable, *script, str(tmp_path / "new")], cwd=ROOT, capture_output=True, text=True
    )
    assert again.returncode == 2 and "must not change" in again.stderr
