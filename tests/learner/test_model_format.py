"""docs/model-format.md is enough to read any model and to predict with it, without blocklearn."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import xxhash
from scipy import sparse

import blocklearn as bl
from blocklearn.models import (
    ALS,
    FM,
    GLM,
    LDA,
    MODELS,
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
from tests.support.page_blocks import ROOT, CodeBlock, PageRun, code_blocks

PAGE = "docs/model-format.md"
PRIOR = np.ones((12, 3), np.float32)
WORDS = [f"wörd{i}" for i in range(12)]


def program() -> list[CodeBlock]:
    """The Python code of the page."""
    text = (ROOT / PAGE).read_text(encoding="utf-8")
    return [block for block in code_blocks(PAGE, text) if block.language == "python"]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What it defines."""
    run = PageRun(tmp_path_factory.mktemp("page"))
    for block in program():
        run.run(block)
    return run.names


def counts(rows: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).poisson(0.7, (rows, 12)).astype(np.float32)


def trained(model: bl.Model, path: Path, Y: Any = None, **more: Any) -> bl.Learner:
    """A model that was trained on 60 rows and 12 columns with names, saved to `path`.

    Models of links take the first 12 rows, for they need as many as columns. Word
    vectors take rows of one word.
    """
    from blocklearn.datasources import MatrixSource

    rows = 12 if isinstance(model, PageRank | Components | Triangles) else 60
    X = counts(60)[:rows]
    if isinstance(model, WordVectors):
        X = np.eye(12, dtype=np.float32)[X.argmax(axis=1)]
    source = MatrixSource(
        sparse.csr_array(X),
        targets=Y,
        names=WORDS,
        row_names=[f"row {i}" for i in range(rows)],
        block_rows=16,
        **more,
    )
    learner = bl.Learner(model, source, passes=3, threads=1).fit()
    bl.save(learner, path)
    return learner


def test_the_page_needs_no_blocklearn() -> None:
    code = "".join(block.text for block in program())
    found = set(re.findall(r"^(?:import|from) (\w+)", code, re.M))
    assert found == {"json", "pathlib", "numpy", "pyarrow", "safetensors"}


@pytest.mark.parametrize(
    "model",
    [
        LDA(topics=3),
        LDA(topics=3, inference="vb", alpha=[0.1, 0.2, 0.3]),
        NMF(components=3),
        NMF(components=2, l1_W=0.01, l2_W=0.1),
        NMF(components=3, loss="kullback-leibler"),
        NMF(components=3, loss="kullback-leibler", l1_W=0.05, l2_W=0.2, update_H="batch"),
        LDA(topics=3, term_weights="idf"),
        NMF(components=3, term_weights="tf-idf"),
        NMF(components=3, term_weights="pmi"),
        ALS(rank=3),
        ALS(rank=3, biases=False, weighted=False, solver="cholesky"),
        ALS(rank=2, loss="implicit", alpha=4.0),
        GaussianMixture(components=3, reg_covar=0.1),
        GaussianMixture(components=3, reg_covar=0.1, covariance="full"),
    ],
    ids=repr,
)
def test_predictions(model: bl.Model, tmp_path: Path, page: dict[str, Any]) -> None:
    learner = trained(model, tmp_path / "m")
    found, tensors = page["read_model"](tmp_path / "m")
    X = counts(9, seed=1)
    X[3] = 0.0
    ours = learner.predict(sparse.csr_array(X))
    kind = found["kind"].replace("-", "_")
    theirs = page[f"predict_{kind}"](found, tensors, X.astype(np.float64))
    np.testing.assert_allclose(theirs, ours, rtol=2e-3, atol=2e-4)
    assert page["read_names"](tmp_path / "m") == WORDS


TARGETS = [
    Target(column="a"),
    Target(column="count", link="poisson"),
    Target(columns=["a", "b", "c"], name="class"),
    Target(column="b", link="hinge", l2=[0.01, 0.1]),
    Target(column="count", link="linear", name="amount"),
    Target(columns=["c", "a"], name="two"),
]


@pytest.mark.parametrize("output", ["mean", "score", "label"])
@pytest.mark.parametrize("given", [TARGETS, None], ids=["listed", "all"])
def test_predictions_of_linear_models(
    output: Any, given: Any, tmp_path: Path, page: dict[str, Any]
) -> None:
    rng = np.random.default_rng(3)
    Y = np.hstack([np.eye(3)[rng.integers(3, size=60)], rng.poisson(2.0, (60, 1))])
    if given is None:
        Y = Y[:, :3]
    model = GLM(targets=given, output=output)
    names = ["a", "b", "c", "count"][: Y.shape[1]]
    learner = trained(model, tmp_path / "m", Y=Y.astype(np.float32), target_names=names)
    found, tensors = page["read_model"](tmp_path / "m")
    outputs = [output["name"] for output in found["outputs"]]
    if given is None:
        assert outputs == ["a", "b", "c"]
    else:
        assert outputs == [
            "a", "count", "class.a", "class.b", "class.c", "b l2=0.01", "b l2=0.1", "amount",
            "two.c", "two.a",
        ]  # fmt: skip
    assert found["target_names"] == names
    X = counts(40, seed=1)
    ours = learner.predict(sparse.csr_array(X))
    theirs = page["predict_glm"](found, tensors, X.astype(np.float64))
    np.testing.assert_allclose(theirs, ours, rtol=1e-4, atol=1e-5)


def test_topics_and_ratings(tmp_path: Path, page: dict[str, Any]) -> None:
    learner = trained(LDA(topics=3), tmp_path / "lda")
    found, tensors = page["read_model"](tmp_path / "lda")
    model: Any = learner.model
    ours = [[WORDS[column] for column, _ in words] for words in model.topic_words(4)]
    assert page["top_words"](tensors, WORDS, 4) == ours

    learner = trained(ALS(rank=3), tmp_path / "als")
    found, tensors = page["read_model"](tmp_path / "als")
    lists = list(bl.recommend(learner, [7], n=5))
    seen = np.flatnonzero(counts(60)[7])
    best = page["recommend"](tensors, 7, 5, seen)
    assert best.tolist() == lists[0].ids[0].tolist()
    np.testing.assert_allclose(page["ratings"](tensors, 7, best), lists[0].scores[0], rtol=1e-5)
    assert page["read_names"](tmp_path / "als", "rows.arrow")[7] == "row 7"


# ---- what the page says of bytes -----------------------------------------------------------------


@pytest.fixture
def als(tmp_path: Path) -> Path:
    trained(ALS(rank=3), tmp_path / "als")
    return tmp_path / "als"


def test_every_key_is_documented(als: Path) -> None:
    text = (ROOT / PAGE).read_text(encoding="utf-8")
    section = text[text.index("## model.json") : text.index("## weights.safetensors")]
    keys = re.findall(r"^\| `(\w+)` \|", section, re.M)
    assert keys == list(json.loads((als / "model.json").read_text()))
    listed = re.findall(r"^\| `([\w.]+)` \|", text[: text.index("**Replacing")], re.M)
    hashed = {"hashed.arrow"}  # only models of hashed columns have it
    assert set(listed) == {path.name for path in als.iterdir()} | hashed


@pytest.mark.parametrize("kind", MODELS)
def test_every_tensor_is_documented(kind: str, tmp_path: Path) -> None:
    models = {"nmf": NMF(components=3), "als": ALS(rank=3), "glm": GLM(), "fm": FM()}
    models |= {"ranking": Ranking(rank=3), "kmeans": KMeans(clusters=3)}
    models["svd"] = SVD(components=3)
    models["gaussian-mixture"] = GaussianMixture(components=3)
    models["pagerank"] = PageRank()
    models["components"] = Components()
    models["triangles"] = Triangles()
    models["word-vectors"] = WordVectors(dimensions=3)
    models["lda"] = LDA(topics=3, inference="cvb0", alpha="auto", eta=PRIOR)
    targets = {"Y": counts(60)[:, :2] > 0} if MODELS[kind].needs_targets else {}
    trained(models[kind], tmp_path / "m", **targets)
    text = (ROOT / PAGE).read_text(encoding="utf-8")
    section = text[text.index(f"\n## {kind.upper()}\n") :]
    section = section[: section.index("\n\n```python")]
    names = set(re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`.*?`) \|", section, re.M))))
    manifest = json.loads((tmp_path / "m" / "model.json").read_text())
    assert names == set(manifest["tensors"])
    assert {entry["dtype"] for entry in manifest["tensors"].values()} == {"float32"}


def test_digests(als: Path) -> None:
    manifest = json.loads((als / "model.json").read_text())
    for name, entry in manifest["files"].items():
        data = (als / name).read_bytes()
        assert (len(data), xxhash.xxh3_128_hexdigest(data)) == (entry["bytes"], entry["xxh3_128"])
    digest = manifest.pop("digest")
    text = json.dumps(manifest, sort_keys=True, separators=(",", ":"))
    assert xxhash.xxh3_128_hexdigest(text.encode()) == digest


def test_bytes_of_the_tensors(als: Path) -> None:
    data = (als / "weights.safetensors").read_bytes()
    length = int.from_bytes(data[:8], "little")
    header, body = json.loads(data[8 : 8 + length]), data[8 + length :]
    entries = json.loads((als / "model.json").read_text())["tensors"]
    assert length % 8 == 0 and set(header) - {"__metadata__"} == set(entries)
    for name, entry in entries.items():
        begin, end = header[name]["data_offsets"]
        assert header[name]["dtype"] == "F32" and header[name]["shape"] == entry["shape"]
        assert end - begin == 4 * np.prod(entry["shape"])
        assert xxhash.xxh3_128_hexdigest(body[begin:end]) == entry["xxh3_128"]


def test_names_in_arrow(als: Path) -> None:
    with pa.ipc.open_file(str(als / "vocab.arrow")) as reader:
        table = reader.read_all()
    assert table.schema == pa.schema([("name", pa.large_string())])
    assert table["name"].null_count == 0


def test_columns_of_hashed_words(tmp_path: Path) -> None:
    from blocklearn.datasources import HashedWords, MatrixSource

    words = HashedWords(4, ["price"])
    X = np.ones((4, len(words)), np.float32)
    source = MatrixSource(X, targets=np.eye(4)[:, :1], names=words, block_rows=4)
    bl.save(bl.Learner(GLM(), source, threads=1).fit(), tmp_path)
    manifest = json.loads((tmp_path / "model.json").read_text())
    assert manifest["hash_bits"] == 4
    with pa.ipc.open_file(str(tmp_path / "vocab.arrow")) as reader:
        first = reader.read_all()["name"].to_pylist()
    assert first == ["price"]
    column = len(first) + xxhash.xxh3_64_intdigest("Straße".encode()) % 2**4
    assert column == words.column("Straße")


def test_a_newer_model_beside_the_older_one(als: Path, page: dict[str, Any]) -> None:
    """`.next` is what a crash in the middle of a replacement leaves."""
    trained(ALS(rank=2), als.parent / "newer")
    (als.parent / "newer").rename(als / ".next")
    read: Callable[[Path], Any] = page["read_model"]
    assert read(als)[0]["config"]["rank"] == 2
    assert bl.load(als).model.model_dump()["rank"] == 2
