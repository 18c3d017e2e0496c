"""Every benchmark runs, and its JSON has the fields that programs rely on. No figure is tested.

The inner loop runs the benchmark of reading; those that train run with `-m slow`.
"""

import doctest
import importlib
import json
import math
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from blocklearn.models.topic_quality import QUALITY
from scripts.benchmarks.__main__ import main
from scripts.benchmarks.calls import show
from scripts.benchmarks.data import power_law, split
from scripts.benchmarks.lda import kept_rows, mean_of, ratios
from scripts.benchmarks.lda_systems import PEERS as LDA_PEERS
from scripts.benchmarks.perplexity import completion, halves, unigram
from scripts.benchmarks.report import Report, Row
from scripts.benchmarks.turns import OURS


def run(tmp_path: Path, *arguments: str) -> dict[str, Any]:
    """The JSON document of a quick run, its form checked."""
    file = tmp_path / "result.json"
    assert main([*arguments, "--quick", "--json", str(file)]) == 0
    report: dict[str, Any] = json.loads(file.read_text())
    assert report["task"] == arguments[0] and report["failed"] == {}
    assert {"cpu", "cores", "memory_bytes", "python", "load_before"} <= report["machine"].keys()
    assert {"documents", "words", "nnz", "tokens", "name"} <= report["data"].keys()
    assert report["rows"]
    for row in report["rows"]:
        assert isinstance(row["system"], str) and isinstance(row["version"], str)
        assert isinstance(row["settings"], dict) and row["quality"]
        assert row["seconds"] > 0
        assert row["memory"] is None or row["memory"] > 0
    for ratio in report["ratios"]:
        assert ratio.keys() == {"name", "of", "to", "value", "note"}
        assert ratio["value"] is None or ratio["value"] > 0
    return report


def systems(report: dict[str, Any]) -> set[str]:
    return {row["system"] for row in report["rows"]}


@pytest.mark.slow
def test_allocation(tmp_path: Path) -> None:
    report = run(tmp_path, "allocation")
    assert systems(report) == {"cache on", "cache off", "numpy"}
    for row in report["rows"]:
        if row["system"] == "cache on":
            assert row["quality"]["allocations"] == row["quality"]["allocated_bytes"] == 0
        if row["system"] == "cache off":
            assert row["quality"]["allocations"] > 0


@pytest.mark.slow
def test_overhead(tmp_path: Path) -> None:
    only = ("--only", "k-means", "--replicas", "1,2")
    report = run(tmp_path, "overhead", *only)
    kept, read, device, rows, *replicas = report["rows"]
    assert device["settings"] == {"model": "k-means", "blocks": "device"}
    assert rows["settings"] == {"model": "k-means", "blocks": "rows"}
    assert kept["settings"] == {"model": "k-means", "blocks": "kept"}
    assert read["settings"] == {"model": "k-means", "blocks": "read"}
    assert [row["settings"]["replicas"] for row in replicas] == [1, 2]
    assert all(row["seconds"] > 0 for row in report["rows"])
    earlier = str(tmp_path / "result.json")
    again = run(tmp_path, "overhead", *only, "--before", earlier)["rows"]
    assert [row["quality"]["before"] for row in again[:2]] == [kept["seconds"], read["seconds"]]


@pytest.mark.slow
def test_tables(tmp_path: Path) -> None:
    rows = run(tmp_path, "tables")["rows"]
    assert [row["system"] for row in rows] == ["whole", "resting"] * 6
    assert all(row["seconds"] > 0 for row in rows)


@pytest.mark.slow
def test_scale(tmp_path: Path) -> None:
    file = tmp_path / "scale.json"
    assert main(["scale", "--quick", "--json", str(file)]) == 0
    rows = Report.read(file).rows
    ways = [row for row in rows if row.settings["model"] != "ALS"]
    assert {row.system for row in ways} == {"dense", "differing", "needed"}
    assert len(ways) == 2 * 2 * 2 * 4 * 3  # models, blocks, workers, networks, ways
    assert len(rows) - len(ways) == 2 * 4  # ALS: workers, networks
    assert all(0 < row.quality["efficiency"] < 1 for row in rows)


@pytest.mark.slow
def test_lists(tmp_path: Path) -> None:
    report = run(tmp_path, "lists", "--peers", "none")
    assert systems(report) == {"blocklearn ALS", "blocklearn ranking"}
    assert all(0 < row["quality"]["ndcg@10"] < 1 for row in report["rows"])


@pytest.mark.slow
def test_words(tmp_path: Path) -> None:
    rows = run(tmp_path, "words", "--peers", "none")["rows"]
    assert all(0 < row["quality"]["neighbours"] < 1 for row in rows)


@pytest.mark.slow
def test_machines(tmp_path: Path) -> None:
    ratings = tmp_path / "ratings.npz"
    user, item = np.divmod(np.arange(600), 20)
    np.savez(ratings, user=user, item=item, rating=(user * item) % 3)
    for data in [[], ["--ratings", str(ratings)], ["--fields", "3"]]:
        rows = run(tmp_path, "machines", "--peers", "none", *data)["rows"]
        assert {row["system"] for row in rows} == {"blocklearn"}
        assert all(0 < row["quality"]["auc"] <= 1 for row in rows)


@pytest.mark.slow
@pytest.mark.parametrize("arguments", ["kmeans", "mixture", "svd"])
def test_trainings_in_turns(tmp_path: Path, arguments: str) -> None:
    """The directions, clusters and components found are about as good as scikit-learn's."""
    file = tmp_path / "turns.json"
    assert main([*arguments.split(), "--quick", "--json", str(file)]) == 0
    report = Report.read(file)
    (figure,) = report.rows[0].quality
    found: dict[str, list[float]] = {OURS: [], "others": []}
    for row in report.rows:
        found[row.system if row.system == OURS else "others"].append(row.quality[figure])
    ours, others = (found[name][-1] for name in found)
    assert ours == pytest.approx(others, rel=0.1)  # local optima, which a last bit may change


@pytest.mark.slow
def test_graph(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "graph.json"
    assert main(["graph", "--quick", "--disk", str(tmp_path / "disk"), "--json", str(file)]) == 0
    found = {row.system: row.quality["l1_to_first"] for row in Report.read(file).rows}
    assert len(found) == 5 and found.pop("the disk") is None
    assert max(found.values()) < 1e-5
    assert "M links/s" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("what", ["components", "triangles"])
def test_graph_of_others(tmp_path: Path, what: str) -> None:
    file = tmp_path / "graph.json"
    assert main(["graph", "--quick", "--what", what, "--json", str(file)]) == 0
    rows = Report.read(file).rows
    assert [row.quality["l1_to_first"] for row in rows] == [0.0] * (2 + (what == "triangles"))


@pytest.mark.slow
def test_compile(tmp_path: Path) -> None:
    report = run(tmp_path, "compile", "--only", "lda gibbs,glm by block", "--widths", "3,4")
    assert [row["settings"]["model"] for row in report["rows"]] == ["lda gibbs", "glm by block"]
    for row in report["rows"]:
        assert row["seconds"] > row["quality"]["again"] > 0
        assert row["quality"]["other width"] >= 0


@pytest.mark.slow
def test_ridge(tmp_path: Path) -> None:
    report = run(tmp_path, "ridge")
    assert systems(report) >= {"biases", "reg 0.05", "auto", "row_reg 0, reg 0.025"}
    (auto,) = (row for row in report["rows"] if row["system"] == "auto")
    assert auto["settings"]["chosen"].startswith("chosen among 10 settings")


@pytest.mark.slow
def test_als_grid(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = run(tmp_path, "als-grid", "--rank", "3", "--peers", "none")
    told = [(row["settings"]["tried"], row["settings"]["seed"]) for row in report["rows"]]
    settings = ["reg 0.14, row_reg 0, bias_reg 2", "reg 0.07, row_reg 0, bias_reg 2"]
    assert told == [(setting, seed) for seed in (0, 1) for setting in settings]
    errors = [min(p["error"] for p in row["curve"]) for row in report["rows"]]
    assert len(set(errors)) == 4  # every seed has its split, and every setting its penalty
    mean = min((errors[0] + errors[2]) / 2, (errors[1] + errors[3]) / 2)
    assert f"{mean:.4f}" in capsys.readouterr().out


@pytest.mark.slow
def test_alternation(tmp_path: Path) -> None:
    (row,) = run(tmp_path, "alternation", "--peers", "none", "--rank", "4")["rows"]
    assert row["settings"]["rank"] == 4 and row["seconds"] > 0


@pytest.mark.slow
def test_optima(tmp_path: Path) -> None:
    rows = run(tmp_path, "optima", "--peers", "linear_svc,liblinear")["rows"]
    for loss in ("log_loss", "hinge", "squared_hinge"):
        same = [row for row in rows if row["settings"]["loss"] == loss]
        lowest = min(row["quality"]["objective"] for row in same)
        for row in same:
            if row["settings"]["told"] == "defaults":
                assert row["quality"]["objective"] < 1.001 * lowest, (loss, row["system"])


@pytest.mark.slow
def test_optima_of_numbers(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    counts = sp.csr_array(draw.poisson(0.3, (1500, 30)))
    sp.save_npz(tmp_path / "X.npz", counts)
    np.save(tmp_path / "y.npy", 2000.0 + counts.sum(axis=1) + draw.normal(size=1500))
    given = ("--data", str(tmp_path / "X.npz"), "--target", str(tmp_path / "y.npy"))
    report = run(tmp_path, "optima", *given, "--peers", "ridge")
    lowest = min(row["quality"]["objective"] for row in report["rows"])
    assert systems(report) == {"blocklearn", "ridge"}
    for row in report["rows"]:
        if row["settings"]["told"] in ("defaults", "solver=auto"):
            assert row["quality"]["objective"] < 1.001 * lowest


@pytest.mark.slow
def test_table1(tmp_path: Path) -> None:
    report = run(tmp_path, "table1")
    names = ["SGEMM", "SPMV", "SPMM, k = 256", "SDDMM, k = 256"]
    names += ["sort of rows of 256", "sort of pairs by key", "random numbers", "log(exp(x))"]
    assert [r["name"] for r in report["ratios"]] == [f"seconds, {name}" for name in names]
    assert all(row["quality"]["gb_per_s"] > 0 for row in report["rows"])


@pytest.mark.slow
def test_gpu_model(tmp_path: Path) -> None:
    report = run(tmp_path, "gpu-model", "--card", "A100")
    names = {row["settings"]["model"] for row in report["rows"]}
    assert {"LDA vb", "LDA gibbs", "ALS cg", "NMF", "GLM 1 target"} <= names
    for row in report["rows"]:
        assert row["seconds"] >= row["quality"]["kernels"] > 0
        assert row["quality"]["launches"] >= 1 and row["quality"]["copied"] > 0


@pytest.mark.slow
def test_kernels(tmp_path: Path) -> None:
    report = run(tmp_path, "kernels")
    assert systems(report) == {"generated", "hand-blocked", "hand-plain"}
    assert {r["to"] for r in report["ratios"]} == {"hand-blocked", "hand-plain"}
    assert all(row["quality"]["gflops"] > 0 for row in report["rows"])


def test_read(tmp_path: Path) -> None:
    report = run(tmp_path, "read", "--folders", str(tmp_path / "a"), str(tmp_path / "b"))
    assert {"readinto", "blocks raw", "blocks lz4", "parquet"} < systems(report)
    rates = [row for row in report["rows"] if "gb_per_s" in row["quality"]]
    assert {row["settings"]["readers"] for row in rates} == {1, 2}
    assert {row["settings"]["transposed"] for row in rates} == {False, True}
    assert all(row["quality"]["gb_per_s"] > 0 for row in rates)
    names = [ratio["name"] for ratio in report["ratios"]]
    assert names.count("raw_over_readinto") == 2 and names.count("blocks_over_memory") == 2


@pytest.mark.slow
def test_lda(tmp_path: Path) -> None:
    recipe = "{name: mine, model: {inference: cvb0}, learner: {passes: 2}}"
    report = run(tmp_path, "lda", "--ours", "vb", "--recipe", recipe, "--peers", "none")
    assert systems(report) == {"blocklearn vb", "blocklearn mine"}
    for row in report["rows"]:
        assert row["quality"]["perplexity"] > 1
        assert row["quality"].keys() >= {*QUALITY}
        passes = [point["passes"] for point in row["curve"]]
        assert passes == sorted(passes) and passes[-1] == 2


def test_lda_keeps_systems_of_an_earlier_run(tmp_path: Path) -> None:
    path, data = tmp_path / "lda.json", {"topics": 5}
    report = Report("lda", "training", data, {}, [Row("tomotopy", "1", {}, 2.0, {})])
    report.write(path)
    assert kept_rows(path, Report("lda", "training", data, {})) == report.rows
    with pytest.raises(ValueError, match="topics differ"):
        kept_rows(path, Report("lda", "training", {"topics": 6}, {}))


def test_lda_runs_of_other_seeds_become_means() -> None:
    runs = [
        Row("a", "1", {}, 0.0, {}, memory, [{"seconds": s, "perplexity": p}])
        for memory, s, p in [(10, 1.0, 90.0), (30, 2.0, 100.0)]
    ]
    row = mean_of(runs)
    assert row.curve == [{"seconds": 1.5, "perplexity": 95.0, "spread": 10.0}]
    assert row.memory == 30


@pytest.mark.slow
@pytest.mark.parametrize("peer", ["sklearn", "gensim", "tomotopy", "vw", "warplda"])
def test_lda_peer(tmp_path: Path, peer: str) -> None:
    if not LDA_PEERS[peer].installed:
        pytest.skip(f"{peer} is not installed (extra `bench`; WARPLDA)")
    report = run(tmp_path, "lda", "--ours", "cvb0", "--peers", peer)
    assert systems(report) == {"blocklearn cvb0", peer}
    assert len(report["ratios"]) == 2


@pytest.mark.slow
@pytest.mark.parametrize("peers", ["none", "sgd,liblinear"])
def test_glm(tmp_path: Path, peers: str) -> None:
    report = run(tmp_path, "glm", "--peers", peers)
    ours = {"blocklearn", "blocklearn 1 target", "blocklearn 3 targets"}
    assert systems(report) == ours | (set() if peers == "none" else set(peers.split(",")))
    for row in report["rows"]:
        assert row["quality"]["sample_auc"] > 0.5
        if row["system"] in ours:
            assert row["settings"]["flops"] > 0 and row["settings"]["bytes"] > 0
            assert row["quality"]["share_of_copy_bandwidth"] > 0
    names = {ratio["name"] for ratio in report["ratios"]}
    assert {"3_targets_over_1", "3_targets_over_1 (processor seconds)"} <= names
    if peers != "none":
        assert "seconds to the peer's final AUC" in names


@pytest.mark.slow
def test_glm_vw(tmp_path: Path) -> None:
    if find_spec("vowpalwabbit") is None:
        pytest.skip("vowpalwabbit is not installed (extra `bench`)")
    report = run(tmp_path, "glm", "--made", "1", "--peers", "vw")
    assert "vw" in systems(report)


def test_missing_peer_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("scripts.benchmarks.system.find_spec", lambda name: None)
    report = run(tmp_path, "lda", "--ours", "vb", "--peers", "gensim")
    assert report["missing"] == ["gensim"]
    assert "not installed: gensim" in capsys.readouterr().out


def test_unknown_peer_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["lda", "--peers", "mallet"])
    assert stop.value.code == 2
    assert "sklearn, gensim" in capsys.readouterr().err


def test_ratio_is_taken_at_the_first_checkpoint_that_is_good_enough() -> None:
    curve = [{"seconds": s, "perplexity": p} for s, p in [(1.0, 1600), (2.0, 1490), (4.0, 1400)]]
    ours = Row("blocklearn vb", "1", {}, 4.0, {"perplexity": 1400}, curve=curve)
    peer = Row("sklearn", "1", {}, 60.0, {"perplexity": 1500})
    time, final = ratios([peer, ours])
    assert time.value == 30.0
    assert final.value == pytest.approx(1500 / 1400, abs=1e-4)
    far = Row("tomotopy", "1", {}, 50.0, {"perplexity": 1300})
    assert ratios([far, ours])[0].value is None


def test_perplexity_of_the_true_topics_is_that_of_the_words() -> None:
    """With one topic there is no theta: perplexity is exp of the scored half's cross entropy."""
    train, held = split(power_law(200, 50))
    phi, parts = unigram(train, 0.1), halves(held)
    scored = np.zeros(50)
    for words, counts in parts[1]:
        scored[words] += counts
    expected = math.exp(-(scored @ np.log(phi[0])) / scored.sum())
    found, tokens = completion(phi, parts, 0.1)
    assert found == pytest.approx(expected, rel=1e-12)
    assert tokens == scored.sum()


@pytest.mark.parametrize(
    "name",
    [
        "__main__",
        "corpora",
        "data",
        "glm",
        "glm_systems",
        "lda_systems",
        "read",
        "report",
        "warplda",
    ],
)
def test_examples_in_docstrings(name: str) -> None:
    result = doctest.testmod(importlib.import_module(f"scripts.benchmarks.{name}"))
    assert result.attempted and not result.failed


@pytest.mark.slow
def test_calls_of_estimators(tmp_path: Path) -> None:
    file = tmp_path / "calls.json"
    assert main(["calls", "--quick", "--json", str(file)]) == 0
    report = Report.read(file)
    assert {row.system for row in report.rows} == {"blocklearn", "scikit-learn"}
    kinds = {(row.settings["call"], row.settings["rows"]) for row in report.rows}
    assert kinds == {*(("predict", rows) for rows in (1, 1_000, 2_000)), ("partial_fit", 100)}
    assert all(row.seconds > 0 for row in report.rows)
    assert len(report.ratios) == len(report.rows) / 2 and "k-means" in show(report)
