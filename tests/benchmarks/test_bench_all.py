"""`scripts/bench all`: what it runs, and that its report tells everything."""

import doctest
import json
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from scripts.benchmarks import everything
from scripts.benchmarks.__main__ import TASKS, main
from scripts.benchmarks.everything import Part
from scripts.benchmarks.report import Report


def test_a_report_tells_everything(tmp_path: Path) -> None:
    found = Report("lda", "training", {}, {}, missing=["spark"], failed={"vw": "a\nIt fell"})
    good = Part("lda-d", "lda", ["--data", "d"], found, "its own <text>", seconds=12.0)
    bad = Part("als-e", "als", [], failed="Traceback\nKilledError: no memory\n")
    everything.write(tmp_path / "report.md", ["- cpu: its name"], [good, bad])
    text = (tmp_path / "report.md").read_text()
    for said in [
        "- cpu: its name\n\n## lda-d\n",
        "`scripts/bench lda --data d`; 12 s in all\n- not installed: spark\n",
        "- vw stopped: It fell\n",
        "```text\nits own <text>\n```",
        "## als-e\n\n`scripts/bench als`\nDid not run to its end: KilledError: no memory",
    ]:
        assert said in text, said


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
    assert not (out / "als-bad.json").exists()
    assert "blocklearn vb: training" in capsys.readouterr().err
    before = (out / "lda-good.json").stat().st_mtime_ns
    assert main([*arguments[:-1], "lda-good", "--keep"]) == 0
    assert (out / "lda-good.json").stat().st_mtime_ns == before


def test_examples_in_docstrings() -> None:
    result = doctest.testmod(everything)
    assert result.attempted and not result.failed
