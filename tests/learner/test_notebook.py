"""A real notebook kernel: the bar of `fit`, and what objects look like."""

from __future__ import annotations

import pytest

CELLS = [
    "import numpy as np, blocklearn as bl\n"
    "X = np.random.default_rng(0).poisson(0.5, (200, 8)) + 1.0\n"
    "learner = bl.Learner('nmf', X, eval=0.2, passes=4, block_rows=32, threads=1).fit()\n"
    "learner",
    "learner.history",
    "bl.Learner('nmf', X, verbose=False).fit().train",
    "learner.history.plot()",
    "learner.model",
    "bl.sparse(X)",
    "from blocklearn.matcache import MatCache, from_array\n"
    "from_array(MatCache(threads=1), np.ones((3, 2), np.float32), 'W')",
    "bl.ALS(n_components=2)",
]


@pytest.mark.slow
def test_a_notebook_shows_bars_cards_and_curves() -> None:
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    cells = [nbformat.v4.new_code_cell(text) for text in CELLS]
    book = nbformat.v4.new_notebook(cells=cells)
    nbclient.NotebookClient(book, timeout=300, kernel_name="python3").execute()
    outputs = [list(cell.outputs) for cell in book.cells]
    shown, history, source, plot, *cards = outputs

    bar, card = (output.data["text/html"] for output in shown)
    assert 'value="24" max="24"' in bar and "pass 4 of 4" in bar
    assert "<svg" in card and "4 of 4 passes" in card
    assert shown[1].data["text/plain"].startswith("Learner(NMF(), ")
    assert "<svg" in history[0].data["text/html"]
    assert [o.output_type for o in source] == ["execute_result"]  # verbose=False: no bar
    assert "memory of a block" in source[0].data["text/html"]
    assert "image/png" in plot[-1].data
    texts = [found[-1].data["text/html"] for found in cards]
    for text, told in zip(
        texts, ["(8, 20)", "1,600, 100.00% of all", "24 bytes", "ALS"], strict=True
    ):
        assert told in text
