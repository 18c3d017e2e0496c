"""Hashed features of tables have names in sources, models, exports and reports."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from blocklearn.datasources import DataError, HashedWords, Reading, TableData
from blocklearn.datasources.arrays import hashed_names
from blocklearn.datasources.arrays.feature_hashing import hash_features
from blocklearn.datasources.arrays.hashed_names import SeenNames
from blocklearn.learner.storage import model_folder
from tests.support.learn_command import Learn

SECTIONS, REGIONS = ["python", "c", "7"], ["north", "south"]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "rows.csv"
    with path.open("w") as file:
        rows = csv.writer(file)
        rows.writerow(["id", "age", "section", "region", "label"])
        for i in range(60):
            section, region = SECTIONS[i % 3], REGIONS[i % 2]
            rows.writerow([f"r{i}", 20 + i, section, region, "no" if section == "c" else "yes"])
    return path


def test_features_are_named_by_column_and_value() -> None:
    columns = {"section": np.array(["python", None, "c"], object), "day": np.array([1, 2, 1])}
    seen = SeenNames()
    X = hash_features(columns, 20, interactions=[("section", "day")], seen=seen, signed=False)
    pairs = {"section=python & day=1", "section=c & day=1"}
    assert set(seen.values()) == {"section=python", "section=c", "day=1", "day=2"} | pairs
    for number, (section, day) in enumerate([("python", 1), (None, 2), ("c", 1)]):
        wanted = {f"day={day}"}
        if section is not None:
            wanted |= {f"section={section}", f"section={section} & day={day}"}
        assert {seen[column] for column in X[[number]].indices} == wanted


def test_a_name_says_that_its_column_is_minus_the_feature() -> None:
    """A plan that ends contracts has a positive weight in the report, whatever its hash's sign."""
    seen = SeenNames()
    plans = np.array([f"plan {n}" for n in range(16)], object)
    X = hash_features({"plan": plans}, 20, seen=seen).toarray().sum(axis=0)
    names = HashedWords(20, [], seen)
    assert {X[column] for column in seen} == {-1.0, 1.0}
    assert all((X[column] < 0) == name.startswith("minus ") for column, name in seen.items())
    assert names.opposites() == {c: seen[c].removeprefix("minus ") for c in seen if X[c] < 0}


def test_features_of_one_column_share_a_name_and_many_have_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = SeenNames()
    for _ in range(2):  # later batches add nothing
        hash_features({"day": np.arange(4)}, 1, seen=seen, signed=False)
    assert sorted(" | ".join(seen.values()).split(" | ")) == [f"day={i}" for i in range(4)]
    hash_features({"day": np.arange(10_000)}, 1, seen=seen)
    assert all(len(name) < 2 * hashed_names.LONGEST for name in seen.values())
    monkeypatch.setattr(hashed_names, "MOST_NAMES", 3)
    seen = SeenNames()
    hash_features({"day": np.arange(100)}, 20, seen=seen)
    names = HashedWords(20, ["age"], seen)
    assert len(seen) == 3 and names[0] == "age"
    assert {names[1 + column] for column in seen} == set(seen.values())
    assert names[1 + next(i for i in range(9) if i not in seen)].startswith("#")


def test_streams_know_the_same_names(table: Path) -> None:
    kinds = [
        TableData(path=table, numeric=["age"], categorical=["section", "region"], stream=stream)
        for stream in (False, True)
    ]
    names = [kind.open_source(Reading(16)).names for kind in kinds]
    found = [dict(given.seen) for given in names if isinstance(given, HashedWords)]
    assert len(found) == 2 and found[0] == found[1]
    plain = {name.removeprefix("minus ") for name in found[0].values()}
    assert plain == {f"section={s}" for s in SECTIONS} | {f"region={r}" for r in REGIONS}


def test_rows_have_the_names_of_a_column(table: Path) -> None:
    samples = TableData(path=table, numeric=["age"], ids="id").load()
    assert samples.row_names == [f"r{i}" for i in range(60)]
    with pytest.raises(ValueError, match="ids: must be left out with `stream`"):
        TableData(path=table, numeric=["age"], ids="id", stream=True)
    with pytest.raises(DataError, match="column 'name' is not among its 5 columns"):
        TableData(path=table, numeric=["age"], ids="name").load()


def test_commands_say_names_and_ids(command: Learn, table: Path, tmp_path: Path) -> None:
    few = ("--threads", "1", "--set", "data.train.hash_bits=12")
    code, _, said = command("glm", "rows.csv", "--out", "run", "-q", *few)
    assert code == 0, said
    names = model_folder.load(tmp_path / "run").names
    assert isinstance(names, HashedWords) and "section=python" in names.seen.values()
    assert command("export", "run", "--to", "w.csv", "--tensor", "W")[0] == 0
    with (tmp_path / "w.csv").open() as file:
        rows = csv.DictReader(file)
        (column,) = (name for name in rows.fieldnames or () if name.endswith("no"))
        weights = {row["name"]: float(row[column]) for row in rows}
    strongest = max(weights, key=weights.__getitem__)
    assert strongest == "section=c"
    assert "section=c" in (tmp_path / "run" / "report.html").read_text()
    assert command("predict", "run", "--data", "rows.csv", "--out", "found.csv")[0] == 0
    with (tmp_path / "found.csv").open() as file:
        found = list(csv.DictReader(file))
    assert list(found[0]) == ["row", "document", "no", "yes"]
    assert [row["document"] for row in found] == [f"r{i}" for i in range(60)]
    (tmp_path / "run" / "hashed.arrow").write_bytes(b"")
    code, _, said = command("predict", "run", "--data", "rows.csv")
    assert code == 65 and "hashed.arrow" in said
