"""Make small models and a block dataset that every later release must read.

    .venv/bin/python scripts/make_format_samples.py

writes `tests/data/formats/VERSION`. Run it once before each release; samples of a release never
change. `tests/formats/test_format_samples.py` reads the samples of all releases.

| in the folder | |
|---|---|
| `lda`, `glm`, ... | model folders |
| `blocks` | a block dataset of the rows that they were trained on, with targets and weights |
| `numbers.npz` | `X`, `Y`, `weights`: these rows; `new`: others; `NAME`: that model's predictions |
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

import blocklearn as bl
from blocklearn.datasources import HashedWords, MatrixSource, write_blocks
from blocklearn.models import (
    ALS,
    FM,
    GLM,
    LDA,
    NMF,
    SVD,
    Components,
    GaussianMixture,
    KMeans,
    PageRank,
    Ranking,
    Target,
    Triangles,
    WordVectors,
)

ROOT = Path(__file__).parents[1]
WORDS = "anchor bread butter court flour harbour judge jury mast oven sailor Straße".split()
TARGETS = ["sea", "kitchen", "pages"]
GLM_TARGETS = [
    Target(columns=["sea", "kitchen"], name="theme"),
    Target(column="sea", l1=[0.0, 1e-3]),
    Target(column="pages", link="poisson"),
]
MODELS: dict[str, bl.Model] = {
    "lda": LDA(topics=3, alpha=[0.1, 0.2, 0.3]),
    "glm": GLM(targets=GLM_TARGETS),
    "glm-hashed": GLM(targets=[Target(column="pages", link="linear")]),
    "fm": FM(factors=3, targets=[Target(column=0), Target(column=1)]),
    "nmf": NMF(components=3),
    "nmf-kl": NMF(components=3, loss="kullback-leibler"),
    "als": ALS(rank=2),
    "als-implicit": ALS(rank=2, loss="implicit", alpha=4.0),
    "kmeans": KMeans(clusters=3),
    "kmeans-spherical": KMeans(clusters=3, spherical=True),
    "ranking": Ranking(rank=2, negatives=4),
    "svd": SVD(components=2, center=True),
    "gaussian-mixture": GaussianMixture(components=2),
    "pagerank": PageRank(),
    "components": Components(),
    "triangles": Triangles(),
    "word-vectors": WordVectors(dimensions=3),
}


def main() -> None:
    """Make the folder."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--to", type=Path, default=ROOT / "tests/data/formats" / bl.__version__)
    to = parser.parse_args().to
    if to.exists():
        parser.error(f"{to} exists already, and samples of a release must not change")
    rng = np.random.default_rng(7)
    theme = rng.integers(2, size=40)
    rates = np.where(theme[:, None] == np.array([1, 0]).repeat(6), 1.5, 0.2)
    X = rng.poisson(rates).astype(np.float32)
    Y = np.stack([theme, 1 - theme, rng.poisson(1.0 + 2.0 * theme)], axis=1).astype(np.float32)
    weights = rng.integers(1, 4, size=40).astype(np.float32)
    new = rng.poisson(0.8, (6, 12)).astype(np.float32)
    new[2] = 0.0
    rows = [f"document {i}" for i in range(40)]
    numbers: dict[str, Any] = {"X": X, "Y": Y, "weights": weights, "new": new}
    for name, model in MODELS.items():
        hashed = HashedWords(3, WORDS[:4]) if name == "glm-hashed" else WORDS
        of_links = isinstance(model, PageRank | Components | Triangles)  # which are square
        size = len(WORDS) if of_links else len(X)
        features = X[:size]
        if isinstance(model, WordVectors):  # a word in each row
            features = np.eye(len(WORDS), dtype=np.float32)[X.argmax(axis=1)]
        source = MatrixSource(
            sparse.csr_array(features),
            targets=None if isinstance(model, WordVectors) else Y[:size],
            weights=weights if isinstance(model, GLM) else None,
            names=hashed,
            row_names=rows[:size],
            target_names=None if isinstance(model, WordVectors) else TARGETS,
            block_rows=16,
        )
        learner = bl.Learner(model, source, source, passes=3, seed=1, threads=1).fit()
        bl.save(learner, to / name)
        numbers[name] = learner.predict(sparse.csr_array(new))
    write_blocks(
        MatrixSource(sparse.csr_array(X), targets=Y, weights=weights, names=WORDS, row_names=rows,
                     target_names=TARGETS, block_rows=16, shuffle=False),
        [to / "blocks"],
        both_orientations=True,
    )  # fmt: skip
    np.savez_compressed(to / "numbers.npz", **numbers)
    print(f"{to}: {sum(file.stat().st_size for file in to.rglob('*') if file.is_file()):,} bytes")


if __name__ == "__main__":
    main()
