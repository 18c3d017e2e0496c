"""`scripts/bench all`: what it runs, and that its report tells everything, losses included."""

import doctest
import importlib
import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from scripts.benchmarks import everything, peak
from scripts.benchmarks.__main__ import TASKS, main
from scripts.benchmarks.blocks import write
from scripts.benchmarks.curves import Pair, behind, charts, pairs
from scripts.benchmarks.report import Report, Row
from scripts.benchmarks.side_by_side import Collection, Part, blocks

DATA = {"name": "d", "documents": 9, "words": 7, "nnz": 5}


def row(system: str, key: str, *points: tuple[float, float | None]) -> Row:
    curve = [{"seconds": s, key: q} for s, q in points]
    return Row(system, "1.2", {"alpha": 0.5}, points[-1][0], {}, 3 * 2**20, curve)


def lda() -> Report:
    rows = [
        row("blocklearn vb", "perplexity", (1.0, 90.0), (2.0, 60.0)),
        row("blocklearn gibbs", "perplexity", (0.5, 80.0), (4.0, 50.0)),
        row("slow", "perplexity", (3.0, 75.0), (9.0, 80.0)),
        row("fast", "perplexity", (0.1, 55.0)),
        row("best", "perplexity", (5.0, 10.0)),
    ]
    return Report("lda", "training", DATA, {}, rows, missing=["spark"], failed={"vw": "a\nIt fell"})


def test_a_peers_best_and_ours_at_that_quality_and_time() -> None:
    (chart,) = charts(lda())
    found = {(pair.peer, pair.ours): pair for pair in pairs(chart)}
    assert found["slow", "blocklearn vb"] == Pair("slow", 75.0, 3.0, "blocklearn vb", 2.0, 60.0)
    assert found["slow", "blocklearn vb"].ratio == 1.5
    gibbs = found["fast", "blocklearn gibbs"]
    assert (gibbs.ours_seconds, gibbs.ours_quality) == (4.0, None)
    assert gibbs.ratio == pytest.approx(1 / 40)
    assert found["best", "blocklearn gibbs"].ratio is None
    assert found["best", "blocklearn gibbs"].ours_quality == 50.0
    assert behind(chart) == ["fast", "best"]


def test_larger_auc_is_better_and_fewer_targets_are_no_curve() -> None:
    def glm(*rows: tuple[str, float | None, float]) -> Report:
        made = [
            Row(name, "1", {}, 1.0, {}, None, [{"seconds": 1.0, "auc": a, "sample_auc": s}])
            for name, a, s in rows
        ]
        return Report("glm", "training", DATA, {}, made)

    ours = [("blocklearn", 0.9, 0.8), ("blocklearn 1 target", 0.99, 0.99)]
    (one,) = charts(glm(*ours, ("sgd", 0.95, 0.7)))
    assert set(one.systems) == {"blocklearn", "sgd"} and behind(one) == ["sgd"]
    every, some = charts(glm(*ours, ("liblinear", None, 0.7)))
    assert set(every.systems) == {"blocklearn"} and every.peers == []
    assert set(some.systems) == {"blocklearn", "liblinear"} and behind(some) == []


def test_ratings_have_a_chart_for_each_rank_and_loss() -> None:
    rows = []
    for rank, loss in [(20, "explicit"), (100, "explicit"), (20, "implicit")]:
        rows.append(row("blocklearn cg", "error", (1.0, 0.5)))
        rows[-1].settings |= {"rank": rank, "loss": loss}
    found = charts(Report("als", "training", DATA, {}, rows))
    titles = ["held-out RMSE, rank 20", "held-out RMSE, rank 100", "objective, rank 20"]
    assert [chart.title for chart in found] == titles


def collection(*parts: Part) -> Collection:
    machine = {"cpu": "<cpu>", "cores": 2, "memory_bytes": 2**33, "system": "Linux", "python": "3",
               "numpy": "2", "load_before": [0.1, 0.2, 0.3]}  # fmt: skip
    limits = {"copy_gb_per_s": 44.0, "sgemm_gflops": 133.0, "fma_gflops": 166.0}
    limits["fma_gflops_all"] = 331.0
    return Collection("scripts/bench all", "today", machine, limits, list(parts), ["graphs"])


def test_a_report_tells_everything(tmp_path: Path) -> None:
    good = Part("lda-d", "lda", ["--data", "d"], lda(), "its | own <text>", seconds=12.0)
    bad = Part("als-e", "als", [], failed="Traceback\nKilledError: no memory\n")
    write(list(blocks(collection(good, bad))), tmp_path)
    text = (tmp_path / "report.md").read_text()
    for said in [
        "| FMA peak, float32, one thread | 166.0 gflops |",
        "| copy bandwidth, one thread (read + write) | 44.0 GB/s |",
        "| lda-d, held-out perplexity | slow | 75 | 3.00 | 2.00 | 1.50 | 60 | blocklearn vb |",
        "| slow | 75 | 3.00 | blocklearn vb | 2.00 | 1.50 | 60 |",
        "- lda-d, held-out perplexity: fast\n- lda-d, held-out perplexity: best",
        "- not installed: spark (`.venv/bin/pip install --editable '.[bench]'`)",
        "- lda-d: vw stopped: It fell",
        "- als-e did not run to its end: KilledError: no memory",
        "- no benchmark is for the data in: graphs",
        "| slow | 1.2 | 9.00 | 3.00 |",
        "| slow | alpha 0.5 |",
        "![held-out perplexity against seconds of training](lda-d-0.svg)",
        "`scripts/bench lda --data d`; 12 s in all",
        "its | own <text>",
    ]:
        assert said in text, said
    page = (tmp_path / "index.html").read_text()
    page = re.sub("<script.*?</script>|<meta[^>]*>", "", page, flags=re.S)  # these are no XML
    root = ET.fromstring(page.partition("\n")[2])
    shown = " ".join(root.itertext())
    for said in ["<cpu>", "its | own <text>", "vw stopped: It fell", "KilledError"]:
        assert said in shown
    assert not re.search(r'(?:src|href)="', page)
    drawing = ET.parse(tmp_path / "lda-d-0.svg").getroot()
    classes = [e.get("class") for e in drawing.iter() if (e.get("class") or "").startswith("dot")]
    assert classes == [f"dot k{n}" for n in range(5)]
    names = [e.text for e in drawing.iter() if e.tag.endswith("text")]
    assert names[-5:] == ["blocklearn vb", "blocklearn gibbs", "slow", "fast", "best"]


def test_a_folder_says_what_is_run(tmp_path: Path) -> None:
    for name in ("t/docword.npz", "t/y.npy", "m/X.npz", "m/Y.npz", "r/ratings.npz", "z/edges.npz"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    found, unused = everything.parts(tmp_path)
    names = ["lda-t", "glm-m", "glm-t", "als-r", "read", "kernels", "allocation"]
    assert [part.name for part in found] == names and unused == ["z"]
    assert found[2].arguments == [
        "--data", str(tmp_path / "t/docword.npz"), "--target", str(tmp_path / "t/y.npy")
    ]  # fmt: skip
    assert found[-1].arguments == ["--data", str(tmp_path / "t/docword.npz")]
    assert everything.peers("sgd,implicit", "glm", TASKS) == ["--peers", "sgd"]
    assert everything.peers("sgd,implicit", "lda", TASKS) == ["--peers", "none"]
    assert everything.peers("none", "kernels", TASKS) == []
    own = [(part.name, part.task, part.arguments) for part in everything.parts(None)[0]]
    names = ["lda", "glm", "als", "read", "kernels", "allocation"]
    assert own == [(name, name, []) for name in names] and set(names) <= TASKS.keys()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--only", "lda-x"], "no lda-x; there are lda, glm"),
        (["--peers", "prophet"], "no prophet here"),
        (["--with", "ldx --topics 3"], "it begins with one of "),
        (["--data", "nowhere"], "no such folder"),
        (["--data", "."], "docword.npz"),
    ],
)
def test_what_is_not_there_is_said_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    arguments: list[str], message: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stop:
        main(["all", "--out", "report", *arguments])
    assert stop.value.code == 2 and message in capsys.readouterr().err
    assert not (tmp_path / "report").exists()


@pytest.mark.slow
def test_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two benchmarks, one of which finds its data damaged; then one again with `--keep`."""
    data, out = tmp_path / "data", tmp_path / "report"
    (data / "good").mkdir(parents=True)
    X = sp.csr_matrix(np.random.default_rng(0).poisson(0.3, (60, 20)))
    sp.save_npz(data / "good" / "docword.npz", X)
    (data / "bad").mkdir()
    np.savez(data / "bad" / "ratings.npz", user=np.arange(3))
    arguments = ["all", "--data", str(data), "--out", str(out), "--quick", "--peers", "none"]
    arguments += ["--with", "lda-good --ours vb", "--only", "lda-good,als-bad"]
    assert main(arguments) == 1
    assert "no array 'item'" in (out / "report.md").read_text()
    found = json.loads((out / "lda-good.json").read_text())
    assert [row["system"] for row in found["rows"]] == ["blocklearn vb"]
    assert Report.read(out / "lda-good.json").rows[0].curve == found["rows"][0]["curve"]
    assert not (out / "als-bad.json").exists() and (out / "lda-good-0.svg").exists()
    assert "blocklearn vb: training" in capsys.readouterr().err
    before = (out / "lda-good.json").stat().st_mtime_ns
    assert main([*arguments[:-1], "lda-good", "--keep"]) == 0
    assert (out / "lda-good.json").stat().st_mtime_ns == before


@pytest.mark.slow
def test_all_of_what_comes_with_the_package(tmp_path: Path) -> None:
    """Two of the benchmarks; `test_bench.py` and `test_bench_als.py` run each of them."""
    some = ["--only", "read,glm", "--peers", "sgd,sklearn"]
    assert main(["all", "--out", str(tmp_path), "--quick", *some]) == 0
    text = (tmp_path / "report.md").read_text()
    assert re.findall(r"^## (\w+)$", text, re.M) == ["glm", "read"]


def test_multiplications_and_additions_at_the_peak() -> None:
    assert 0 < peak.fma_gflops(2, quick=True) < 1e5
    assert peak.vector_width() in (4, 8, 16)
    assert peak.assembly(8).count("@llvm.fma.v8f32(<8 x float> %x") == peak.CHAINS


@pytest.mark.parametrize("name", ["blocks", "curves", "side_by_side"])
def test_examples_in_docstrings(name: str) -> None:
    result = doctest.testmod(importlib.import_module(f"scripts.benchmarks.{name}"))
    assert result.attempted and not result.failed
