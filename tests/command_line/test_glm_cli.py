"""`learn` with a generalised linear model: from files to a table, predictions, a picture."""

from __future__ import annotations

import json
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from blocklearn.learner.exit_codes import ExitCode
from blocklearn.learner.reports.targets import check_plot
from blocklearn.models import GLM, Target
from tests.support.beside import CONFIGS
from tests.support.learn_command import Learn

WORDS = {"sea": "harbour anchor sailor wave".split(), "kitchen": "oven flour butter sugar".split()}
CONFIG = """\
model:
  kind: glm
  targets:
    - {name: theme, link: softmax, columns: [sea, kitchen, neither]}
    - {column: sea, l1: [0, 0.001, 1]}
data:
  train: {kind: file, path: docs.txt, targets: Y.npy}
  eval: {kind: holdout, share: 0.2}
  block_rows: 64
learner: {passes: 3, seed: 1}
"""


@pytest.fixture
def learn(command: Learn) -> Learn:
    """Runs `learn` in a folder with labelled documents: exit code, stdout, stderr."""
    rng = np.random.default_rng(0)
    classes = rng.integers(3, size=300)
    texts = [*WORDS.values(), [w for words in WORDS.values() for w in words]]
    lines = [" ".join(rng.choice(texts[k], 8)) for k in classes]
    Path("docs.txt").write_text("\n".join(lines) + "\n")
    Path("labels.txt").write_text("sea\nkitchen\nneither\n")
    np.save("Y.npy", np.eye(3)[classes])
    Path("themes.yaml").write_text(CONFIG)

    return command


def test_from_texts_to_a_table_and_back(learn: Learn) -> None:
    code, out, err = learn("--config", "themes.yaml")
    assert code == ExitCode.DONE, err
    head, *rows = (line.split() for line in out.splitlines())
    assert head == ["target", "log_loss", "accuracy", "auc", "weights"]
    classes = ["theme.sea", "theme.kitchen", "theme.neither"]
    assert [row[0] for row in rows] == ["theme", "sea", "sea", "sea", *classes]
    accuracy = float(rows[0][2])
    assert accuracy > 0.9
    assert rows[3][:2] == ["sea", "l1=1"] and rows[3][-1] == "0"  # a penalty that leaves nothing
    assert "held out: log_loss" in err and "log_loss/theme" not in err
    saved = json.loads(Path("runs/themes/metrics.json").read_text())
    assert saved["accuracy/theme"] == pytest.approx(accuracy, abs=1e-3)

    Path("new.txt").write_text("harbour wave wave\nflour oven sugar\n")
    code, out, _ = learn("predict", "runs/themes", "--data", "new.txt")
    first, second = out.splitlines()
    assert code == ExitCode.DONE
    assert first.startswith("new.txt:1: theme.sea 0.") and "theme.kitchen 0." in second

    options = ("--data", "docs.txt", "--targets", "Y.npy")
    code, out, _ = learn("evaluate", "runs/themes", *options)
    assert code == ExitCode.DONE and "accuracy 0.9" in out and "theme.sea" in out
    code, out, _ = learn("evaluate", "runs/themes", *options, "--json")
    assert json.loads(out)["accuracy/theme"] > 0.9

    code, out, _ = learn("--config", "themes.yaml", "--out", "runs/again", "--quiet")
    weights = [Path("runs", run, "weights.safetensors").read_bytes() for run in ("themes", "again")]
    assert code == ExitCode.DONE and weights[0] == weights[1]


def test_a_target_with_one_class_has_no_auc(learn: Learn) -> None:
    """A dash in its place, here and among the others; what can be scored is."""
    Y = np.load("Y.npy")
    Y[:, 2] = 0
    np.save("Y.npy", Y)
    config = ("--config", "themes.yaml", "--set", "model.targets=null")
    code, out, err = learn(*config)
    assert code == ExitCode.DONE and "auc -" not in err
    assert "nan" not in out + err
    last = out.splitlines()[-1].split()
    assert last[0] == "neither" and last[2] == "-" and float(last[1]) < 0.5
    code, out, err = learn("evaluate", "runs/themes", "--data", "docs.txt", "--targets", "Y.npy")
    assert (code, "no value for auc/neither" in err) == (ExitCode.DONE, True)
    assert out.splitlines()[-1].split()[2] == "-" and out.startswith("log_loss 0.")

    Y[:] = 0
    np.save("Y.npy", Y)
    code, out, err = learn("evaluate", "runs/themes", "--data", "docs.txt", "--targets", "Y.npy")
    assert (code, "auc" in out, "log_loss" in out) == (ExitCode.DONE, False, True)
    code, out, err = learn(*config, "--overwrite")
    assert (code, "auc -," in err, "nan" in out + err) == (ExitCode.DONE, True, False)


def test_mistakes_in_targets_have_their_place(learn: Learn) -> None:
    code, _, err = learn(
        "--config", "themes.yaml", "--set", "model.targets=[{column: 0, colum: 3}]"
    )
    assert code == ExitCode.CONFIG
    assert "model.targets.0.colum: unknown key (did you mean 'column'?)" in err
    code, _, err = learn("--config", "themes.yaml", "--set", "model.targets=[{column: land}]")
    assert code == ExitCode.CONFIG
    assert "there is no target 'land'. The data have 3: sea, kitchen, neither." in err


def test_a_plot_needs_a_path_and_matplotlib(learn: Learn, monkeypatch: pytest.MonkeyPatch) -> None:
    plot = ("--config", "themes.yaml", "--plot", "path.png")
    code, _, err = learn(*plot, "--set", "model.targets=null")
    assert code == ExitCode.CONFIG and "give a target a list of l1 or l2" in err
    assert not Path("runs").exists()
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    code, _, err = learn(*plot)
    assert code == ExitCode.UNAVAILABLE and "pip install 'blocklearn[plots]'" in err
    assert not Path("runs").exists()


@pytest.mark.skipif(find_spec("matplotlib") is None, reason="needs the extra `plots`")
def test_a_path_is_drawn(learn: Learn) -> None:
    code, _, err = learn("--config", "themes.yaml", "--plot", "pictures/path.png")
    assert code == ExitCode.DONE, err
    assert Path("pictures/path.png").read_bytes().startswith(b"\x89PNG")
    check_plot(GLM(l2=[0.1, 1.0]))
    check_plot(GLM(targets=[Target(column=0, l1=[0.1])]))


@pytest.mark.parametrize("name, rows", [("glm", 8), ("glm-path", 31)])
def test_configurations_run_as_they_stand(
    name: str, rows: int, tmp_path: Path, learn: Learn
) -> None:
    config = str(CONFIGS / f"{name}.yaml")
    code, out, err = learn(
        "--config", config, "--out", str(tmp_path / "run"), "--set", "learner.passes=2"
    )
    assert code == ExitCode.DONE, err
    assert len(out.splitlines()) == rows and out.startswith("target")
