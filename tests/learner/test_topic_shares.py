"""`learn predict --least`: the topics of rows that have a share or more, in all forms of output."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from pyarrow import parquet

import blocklearn as bl
from blocklearn.learner.errors import ConfigError
from blocklearn.learner.results.predictions import Predicted
from blocklearn.learner.results.topic_shares import largest_topics, topic_model, write_topics
from tests.support.learn_command import Learn

TEXTS = ["ship mast storm sail", "oven bread flour", "ship oven", "mast bread sail", "unheard of"]
X = np.array([[3, 1, 0], [0, 2, 4], [1, 0, 1]], np.float32)


def by_hand(shares: np.ndarray, least: float) -> list[tuple[int, int, float]]:
    """Row, topic and share, row by row, the largest first."""
    found = []
    for row, values in enumerate(shares.tolist()):
        ranked = sorted(range(len(values)), key=lambda k: -values[k])
        found += [(row, k, values[k]) for k in ranked if values[k] >= least]
    return found


@pytest.fixture
def run(command: Learn) -> Learn:
    """Runs `learn` in a folder with a model of five topics, `model`, and `texts.txt`."""
    Path("texts.txt").write_text("\n".join(TEXTS))
    model = bl.models.LDA(topics=5, inference="cvb0", seeds={"at sea": ["ship"]})
    bl.save(bl.Learner(model, TEXTS[:4], passes=1, threads=1).fit(), "model")
    return command


def test_all_forms_have_the_same_topics(run: Learn) -> None:
    arguments = ["predict", "model", "--data", "texts.txt", "--out"]
    assert run(*arguments, "all.npy")[0] == 0
    expected = by_hand(np.load("all.npy"), 0.21)
    assert 0 < len(expected) < 15 and {row for row, _, _ in expected} == {0, 1, 2, 3}  # none of 4
    names = ["at sea", "1", "2", "3", "4"]
    for out in ("t.parquet", "t.csv", "t.tsv"):
        code, said, _ = run(*arguments, out, "--least", "0.21")
        assert code == 0 and said == f"{out}: {len(expected)} rows\n"
    table = parquet.read_table("t.parquet")
    columns = [table[name].to_pylist() for name in ("row", "topic", "share")]
    assert list(zip(*columns, strict=True)) == expected
    assert table["name"].to_pylist() == [names[k] for _, k, _ in expected]
    assert table["document"].to_pylist() == [f"texts.txt:{row + 1}" for row, _, _ in expected]
    for out, separator in (("t.csv", ","), ("t.tsv", "\t")):
        with Path(out).open(newline="") as file:
            header, *lines = csv.reader(file, delimiter=separator)
        assert header == table.column_names
        assert [(int(line[0]), int(line[2])) for line in lines] == [e[:2] for e in expected]
        assert [float(line[4]) for line in lines] == pytest.approx([e[2] for e in expected])
    code, said, _ = run(*arguments, "-", "--least", "0.21")
    found = [json.loads(line) for line in said.splitlines()]
    assert code == 0 and [item["row"] for item in found] == [0, 1, 2, 3, 4]
    flat = [(item["row"], t["topic"], t["share"]) for item in found for t in item["topics"]]
    assert flat == expected and {t["name"] for t in found[0]["topics"]} <= set(names)
    code, said, _ = run(*arguments[:-1], "--least", "0.21")
    assert code == 0 and said.count("%") == len(expected)
    assert said.splitlines()[4] == "texts.txt:5: no words that the model knows"


def test_what_has_no_such_topics_is_refused(run: Learn) -> None:
    arguments = ["predict", "model", "--data", "texts.txt"]
    for wrong in (["--out", "t.npy"], ["--least", "nan"], ["--least", "1.5"], ["--pairs", "p.csv"]):
        least = [] if "--least" in wrong else ["--least", "0.1"]
        assert run(*arguments, *wrong, *least)[0] == 2
    assert not Path("t.npy").exists()
    with pytest.raises(ConfigError, match="ALS has no topics"):
        topic_model(bl.Learner(bl.models.ALS(rank=2), X))
    bl.save(bl.Learner(bl.models.KMeans(clusters=2), X, passes=1).fit(), "groups")
    code, _, err = run("topics", "groups")
    assert code == 78 and "a model of kind KMeans has no topics" in err


def test_blocks_without_rows_or_topics_leave_a_table(tmp_path: Path) -> None:
    learner = bl.Learner(bl.models.LDA(topics=3), X)

    def blocks(*parts: np.ndarray) -> Iterator[Predicted]:
        for part in parts:
            yield Predicted(np.arange(len(part)), ["a", "b"][: len(part)], part)

    names, none = list("xyz"), np.zeros((2, 3), np.float32)
    path = tmp_path / "t.parquet"
    for parts in ([none], [none[:0]], [none[:0], none]):
        assert write_topics(path, learner, blocks(*parts), 0.5, names) == 0
        assert parquet.read_table(path).column_names == "row document topic name share".split()
    assert (
        write_topics(
            path,
            learner,
            blocks(none, np.array([[0, 0.2, 0.1], [0, 0.5, 1]], np.float32)),
            0.5,
            names,
        )
        == 2
    )
    assert parquet.read_table(path)["name"].to_pylist()[0] in names


def test_equal_shares_are_in_the_order_of_topics() -> None:
    shares = np.array([[0.25, 0.5, 0.25], [0.0, 0.0, 0.0]])
    assert [row.tolist() for row in largest_topics(shares, 0.25)] == [[1, 0, 2], []]
    assert [row.tolist() for row in largest_topics(shares, 0.0, 2)] == [[1, 0], [0, 1]]
