"""Ratings that come with Python: what is in them, and that factors explain them."""

import os
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest

import blocklearn as bl
from blocklearn.datasources import DataError, Reading
from blocklearn.datasources.examples import calls as calls_module
from blocklearn.datasources.examples import time_zones as zones_module
from blocklearn.datasources.examples.calls import calls_in, python_calls, read_calls
from blocklearn.datasources.examples.kinds import PythonCalls, TimeZones
from blocklearn.datasources.examples.time_zones import time_zones
from blocklearn.learner.command_line.cli import main
from blocklearn.models import ALS
from tests.support.beside import CONFIGS
from tests.support.few_modules import few_modules
from tests.support.often import first_often


def test_clocks_are_those_of_the_world() -> None:
    ratings = time_zones()
    hours, months = ratings.matrix.toarray(), list(ratings.users)
    assert (months[0], months[-1], len(months)) == ("1970-01", "2025-12", 672)
    assert ratings.matrix.nnz == hours.size  # also where clocks show UTC

    def shown(zone: str, month: str) -> float:
        return float(hours[months.index(month), list(ratings.items).index(zone)])

    assert shown("Europe/Rome", "1990-01") == 1.0
    assert shown("Europe/Rome", "1990-07") == 2.0
    assert shown("Atlantic/Faroe", "1990-01") == 0.0
    assert shown("America/New_York", "2000-01") == -5.0
    assert shown("Asia/Tokyo", "2010-07") == 9.0
    names = set(ratings.items)
    assert "Pacific/Apia" not in names  # moved across the date line in 2011
    assert not {"UTC", "EST", "Etc/GMT+5"} & names
    assert len({hours[:, j].tobytes() for j in range(hours.shape[1])}) == hours.shape[1]


def test_without_a_database_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zones_module.zoneinfo, "available_timezones", set)
    with pytest.raises(DataError, match="pip install tzdata"):
        time_zones()


def test_factors_halve_the_error_of_biases() -> None:
    train, held = TimeZones().hold_out(0.3, Reading(block_rows=128), Reading(block_rows=128))
    model = ALS(rank=20, reg=0.01)
    learner = bl.Learner(model, train=train, eval=held, passes=8, block_rows=128).fit()
    known, asked = (source._matrix for source in (train, held))  # type: ignore[attr-defined]
    rows = [np.repeat(np.arange(672), np.diff(part.indptr)) for part in (known, asked)]
    mean = known.values.mean()
    a, b = np.zeros(672), np.zeros(train.shape.columns)
    for _ in range(20):  # least squares of mean + a + b, by turns
        for own, other, mine, theirs in (
            (a, b, rows[0], known.indices),
            (b, a, known.indices, rows[0]),
        ):
            own[:] = np.bincount(mine, known.values - mean - other[theirs], own.size)
            own /= np.maximum(np.bincount(mine, minlength=own.size), 1)
    biases = asked.values - mean - a[rows[1]] - b[asked.indices]
    assert learner.progress.scores["rmse"] < 0.5 * np.sqrt((biases**2).mean())


SOURCE = '''
import os, os.path as p
from json import dumps as d
from . import sibling
from .other import helper

def outer(x):
    """Calls."""
    os.path.join(x); p.join(x, len(x)); d(x); sibling.run(); helper()
    x.append(1); x.y.z(); (lambda: min(x))(); x()()
    def inner():
        return max(x)
    return inner() or Thing()

class Thing:
    size = sum([])
    async def method(self):
        self.other()
        import struct
        struct.pack("b", 1)
'''


def test_calls_are_named_by_what_the_imports_say(tmp_path: Path) -> None:
    file = tmp_path / "some.py"
    file.write_text(dedent(SOURCE))
    found = {name: sorted(calls) for name, calls in calls_in(file, "pack.some")}
    assert found == {
        "pack.some.outer": sorted(
            "os.path.join os.path.join len json.dumps pack.sibling.run pack.other.helper .append "
            ".z min pack.some.Thing".split()
        ),
        "pack.some.outer.inner": ["max"],
        "pack.some.Thing.method": [".other", "struct.pack"],
    }


def test_what_cannot_be_parsed_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "old.py").write_text("print 'hello'\n")
    with pytest.raises(DataError, match="no functions in the Python files under"):
        read_calls(tmp_path)
    (tmp_path / "new.py").write_text("def f():\n    print(print(1))\n")
    calls = read_calls(tmp_path)
    assert calls.documents == ["new.f"] and calls.vocabulary == ["print"]
    assert calls.counts.toarray().tolist() == [[2.0]]


@pytest.fixture
def a_small_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The calls are those of a few modules, and the user's cache is an empty folder."""
    few = few_modules(tmp_path / "library", "glob.py", "shutil.py", "tarfile.py", "tempfile.py")
    monkeypatch.setattr(calls_module, "get_path", lambda name: str(few))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_rare_names_and_short_functions_are_left_out(a_small_library: None, tmp_path: Path) -> None:
    cache = tmp_path / "own"
    few = python_calls(cache, min_functions=5, min_names=4)
    again = python_calls(cache, min_functions=5, min_names=4)  # from the cache
    assert (few.counts != again.counts).nnz == 0 and few.documents == again.documents
    assert len(os.listdir(cache)) == 1
    assert np.diff(few.counts.indptr).min() == 4
    every = read_calls(tmp_path / "library")
    functions = dict(zip(every.vocabulary, (every.counts > 0).sum(axis=0).tolist(), strict=True))
    assert {name for name, count in functions.items() if count >= 5} == set(few.vocabulary)
    assert "os.path.join" in few.vocabulary and "len" in few.vocabulary


def test_data_to_evaluate_on_get_the_rows_and_columns_of_the_model(a_small_library: None) -> None:
    train = PythonCalls().open_source(Reading(block_rows=64))
    other = PythonCalls(min_functions=10, min_names=6).open_source(Reading(block_rows=64), train)
    assert other.names == train.names
    assert other.shape.total_rows == train.shape.total_rows
    assert 0 < sum(1 for _ in range(other.blocks))
    ours, theirs = (source._matrix for source in (train, other))  # type: ignore[attr-defined]
    assert 0 < theirs.values.size < ours.values.size


@pytest.mark.parametrize("name", first_often(["als", "als-implicit", "nmf"]))
def test_configurations_run_as_they_stand(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = CONFIGS / f"{name}.yaml"
    with pytest.raises(SystemExit) as stop:
        main(["--config", str(config), "--out", str(tmp_path / "run")])
    out, err = capsys.readouterr()
    assert stop.value.code == 0, err
    lines = out.splitlines()
    if name == "nmf":
        assert len(lines) == 40 and all(len(line.split()) == 9 for line in lines)
        return
    rmse = [float(line.split()[1]) for line in lines[1:11]]
    assert lines[0].split()[:2] == ["pass", "rmse"] and rmse == sorted(rmse, reverse=True)
    assert "alike" in lines and ("recommended" in lines) == (name == "als-implicit")
    lists = [line for line in lines[11:] if line.startswith("  ")]
    assert len(lists) == (12 if name == "als-implicit" else 6)
    assert all(len(line.partition(": ")[2].split(", ")) == 5 for line in lists)
