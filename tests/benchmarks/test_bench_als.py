"""`scripts/bench als` runs, and its arithmetic is right. No figure is tested."""

import doctest
import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from scripts.benchmarks import als, als_data
from scripts.benchmarks.__main__ import main
from scripts.benchmarks.als_systems import PEERS, with_biases
from scripts.benchmarks.report import Row


def run(tmp_path: Path, *arguments: str) -> dict[str, Any]:
    """The JSON document of a quick run, its form checked."""
    file = tmp_path / "result.json"
    assert main(["als", *arguments, "--quick", "--rank", "6", "--json", str(file)]) == 0
    report: dict[str, Any] = json.loads(file.read_text())
    assert report["task"] == "als" and report["failed"] == {}
    assert {"documents", "words", "nnz", "tokens", "name", "users"} <= report["data"].keys()
    for row in report["rows"]:
        assert row["seconds"] > 0 and row["quality"] and row["settings"]["rank"] == 6
    return report


@pytest.mark.slow
def test_als(tmp_path: Path) -> None:
    report = run(tmp_path, "--peers", "none")
    systems = [row["system"] for row in report["rows"]]
    assert systems == ["blocklearn cg", "blocklearn cg without biases", "blocklearn cg"]
    for row in report["rows"]:
        assert row["quality"]["gflops"] > 0
        assert row["settings"]["allocations_after_warmup"] == 0
    explicit, _, implicit = report["rows"]
    assert [p["alternations"] for p in explicit["curve"]] == [1, 2]
    assert explicit["quality"]["rmse"] >= explicit["quality"]["rmse_clipped"] > 0
    assert implicit["curve"][1]["objective"] < implicit["curve"][0]["objective"]


@pytest.mark.slow
def test_a_file_of_ratings(tmp_path: Path) -> None:
    users, items, ratings = als_data.made(50, 30, 600)
    np.savez(tmp_path / "r.npz", user=users, item=items, rating=ratings)
    data = str(tmp_path / "r.npz")
    report = run(tmp_path, "--peers", "none", "--loss", "explicit", "--data", data)
    assert report["data"]["name"] == data
    assert report["data"]["nnz"] + report["data"]["held_out"] == len(ratings)
    with pytest.raises(SystemExit) as stop:
        np.savez(tmp_path / "bad.npz", user=users)
        main(["als", "--data", str(tmp_path / "bad.npz"), "--quick", "--peers", "none"])
    assert stop.value.code == 2


@pytest.mark.slow
@pytest.mark.parametrize("peer", list(PEERS))
def test_als_peer(tmp_path: Path, peer: str) -> None:
    if find_spec(PEERS[peer].module) is None:
        pytest.skip(f"{PEERS[peer].module} is not installed (extra `bench`)")
    report = run(tmp_path, "--peers", peer, "--loss", PEERS[peer].loss)
    assert peer in {row["system"] for row in report["rows"]}
    assert any(ratio["of"] == peer for ratio in report["ratios"])


def curve(*points: tuple[float, float]) -> list[dict[str, Any]]:
    return [{"alternations": n + 1, "seconds": s, "error": e} for n, (s, e) in enumerate(points)]


def test_ratio_is_to_the_lowest_error_and_the_median_of_pairs() -> None:
    def rows(*curves: list[dict[str, Any]]) -> list[Row]:
        return [Row("", "1", {}, c[-1]["seconds"], {}, curve=c) for c in curves]

    rounds = {
        "cmfrec": rows(*(curve((1.0, 0.9), (t, 0.5), (9.0, 0.6)) for t in (4.0, 6.0, 20.0))),
        "blocklearn cg": rows(*(curve((0.5, 0.8), (2.0, 0.5)) for _ in range(3))),
        "blocklearn far": rows(curve((0.5, 0.8))),
    }
    near, far = als.ratios(rounds, 20, "explicit")
    assert near.value == 3.0 and near.name == "seconds to the peer's best rmse, rank 20"
    assert "2.00 to 10.00" in near.note
    assert far.value is None and "not reached, 0.8000 at best" in far.note


def test_factors_are_scored_with_their_biases() -> None:
    rng = np.random.default_rng(0)
    U, V, a, b = (rng.normal(size=shape) for shape in ((9, 3), (7, 3), (9,), (7,)))
    users, items = rng.integers(9, size=40), rng.integers(7, size=40)
    truth = 2.0 + (U @ V.T)[users, items] + a[users] + b[items]
    held = als_data.Ratings("", sp.csr_matrix(np.float32([[1.0, 3.0]])), users, items, truth + 0.5)
    plain, clipped = held.rmse(*with_biases(U, V, a, b), 2.0)
    assert plain == pytest.approx(0.5, abs=1e-4)
    expected = np.sqrt(((np.clip(truth, 1, 3) - truth - 0.5) ** 2).mean())
    assert clipped == pytest.approx(expected, abs=1e-4)


def test_the_implicit_objective_is_that_of_the_paper() -> None:
    rng = np.random.default_rng(0)
    X = sp.random(12, 9, 0.3, "csr", np.float32, random_state=0)
    X.data -= 0.4  # some say no
    U, V = rng.normal(size=(12, 3)), rng.normal(size=(9, 3))
    R = X.toarray()
    c, p = 1 + 2.0 * abs(R), R > 0
    whole = (c * (p - U @ V.T) ** 2).sum() + 0.7 * ((U**2).sum() + (V**2).sum())
    assert als_data.objective(X, U, V, 2.0, 0.7) == pytest.approx(whole / X.nnz, rel=1e-6)


def test_examples_in_docstrings() -> None:
    result = doctest.testmod(als)
    assert result.attempted and not result.failed
