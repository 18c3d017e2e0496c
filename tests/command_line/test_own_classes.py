"""Models, optimizers, mixins and data of users: named in configurations, never by files of runs."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from importlib import invalidate_caches
from pathlib import Path

import numpy as np
import pytest
from ruamel.yaml import YAML
from scipy.sparse import csr_array, save_npz

import blocklearn as bl
from blocklearn.learner.configuration.kinds import named_class, with_kind
from blocklearn.learner.serving.served import Served
from tests.support.learn_command import Learn
from tests.support.often import first_often
from tests.support.worse_models import LikenessLDA, LikenessNMF

MODEL = '''\
"""Sums of columns, which no built-in model is."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

import blocklearn as bl
from blocklearn.matcache import total

(Path(__file__).parent / "imported").touch()


class Sums(bl.Model):
    """Adds up the rows."""

    power: int = Field(1, ge=1, description="of the sums")

    def allocate(self, shapes, rng):
        self.sums = self.parameter("sums", shapes.columns, 1, merge="sum")

    def update(self, block):
        self.sums <<= self.sums + block.X.T @ block.weights

    def score(self, block):
        return {"along": bl.Sum(total(self.predict(block)), total(block.weights))}

    def predict(self, block):
        return (block.X @ self.sums).mat()


class Half(bl.Model):
    """Lacks the other methods."""

    def allocate(self, shapes, rng):
        """Nothing."""


number = 3
'''

OTHERS = '''\
import numpy as np
from pathlib import Path
from blocklearn.datasources import MemoryKind, Samples
from blocklearn.mixins import L2
from blocklearn.optimizers import SGD

(Path(__file__).parent / "imported").touch()


class Slow(SGD):
    """SGD with another default."""
    rate: float = 0.01


class Ridge(L2):
    """L2 under another name."""


class Stairs(MemoryKind):
    """Rows of so many steps, and whether they are in the upper half."""
    rows: int = 8

    def load(self, like=None):
        steps = np.tri(self.rows, dtype=np.float32)
        return Samples(steps, targets=(steps.sum(1) > self.rows / 2)[:, None])
'''

CONFIG = """\
model: {kind: "code/sums.py:Sums"}
data:
  train: {kind: libsvm, path: rows.svm, zero_based: true}
  block_rows: 4
learner: {passes: 2}
out: run
"""

ROWS = "0 0:1 2:2\n1 1:3\n0 2:1\n1 0:2\n0 1:1 2:1\n"


@pytest.fixture
def project(command: Learn, tmp_path: Path) -> Path:
    """A folder with a configuration, code in another folder, and data."""
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "sums.py").write_text(MODEL)
    (tmp_path / "code" / "others.py").write_text(OTHERS)
    (tmp_path / "a.yaml").write_text(CONFIG)
    (tmp_path / "rows.svm").write_text(ROWS)
    return tmp_path


def imported(project: Path) -> bool:
    """Whether the code was run since the last call."""
    marker = project / "code" / "imported"
    found = marker.exists()
    marker.unlink(missing_ok=True)
    for name in [name for name in sys.modules if name.startswith(("sums_", "others_", "mine"))]:
        del sys.modules[name]
    return found


# ---- runs ----------------------------------------------------------------------------------------


def test_a_model_of_a_file_is_trained_and_used_by_all_commands(
    command: Learn, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "elsewhere").mkdir()
    monkeypatch.chdir(project / "elsewhere")  # the file is beside the configuration
    (project / "elsewhere" / "rows.svm").write_text(ROWS)
    assert command("train", "--config", "../a.yaml", "--set", "learner.report=true")[0] == 0
    assert json.loads(Path("run/model.json").read_text())["kind"] == "Sums"
    assert "folder never imports" not in Path("run/report.html").read_text()
    assert imported(project)
    named = ["--model-class", "../code/sums.py:Sums"]
    code, out, err = command("evaluate", "run", "--data", "rows.svm", *named)
    assert (code, err) == (0, "") and out.startswith("along ")
    code, out, _ = command("predict", "run", "--data", "rows.svm", "--out", "-", *named)
    sums = np.array([6.0, 8.0, 8.0])  # two passes
    X = np.array([[1, 0, 2], [0, 3, 0], [0, 0, 1], [2, 0, 0], [0, 1, 1]])
    predicted = [json.loads(line)["prediction"] for line in out.splitlines()]
    assert predicted == (X @ sums)[:, None].tolist()
    assert command("report", "run", "--out", "again.html", *named)[0] == 0
    assert "must be one of" not in Path("again.html").read_text()
    served = Served(Path("run"), model=named_class(named[1], "models"))
    assert served.kind == "Sums"


def test_a_named_model_reads_occurring_rows_alone_if_its_class_says_so() -> None:
    """Subclasses do not inherit this, but that which has the kind is the same class to users."""
    for cls, says in ((LikenessLDA, True), (LikenessNMF, False)):
        assert vars(with_kind(cls, "mine.py:Mine")).get("reads_occurring", False) is says


@pytest.mark.parametrize("held_out", first_often(["", "  eval: {kind: holdout, share: 0.5}\n"]))
def test_a_model_that_takes_no_counts_takes_negative_numbers(
    command: Learn, project: Path, held_out: str
) -> None:
    X = np.array([[1, 0, -2], [0, -3, 0], [0, 0, 1], [2, 0, 0]], np.float32)
    save_npz(project / "x.npz", csr_array(X))
    data = "{kind: file, path: x.npz}"
    own = CONFIG.replace("{kind: libsvm, path: rows.svm, zero_based: true}", data)
    (project / "a.yaml").write_text(own.replace("  block_rows", f"{held_out}  block_rows"))
    assert command("train", "--config", "a.yaml")[0] == 0
    named = ["--model-class", "code/sums.py:Sums"]
    code, out, _ = command("predict", "run", "--data", "x.npz", "--out", "-", *named)
    predicted = [json.loads(line)["prediction"][0] for line in out.splitlines()]
    sums = bl.load("run", model=named_class(named[1], "models")).parameter("sums")
    assert 'bl.load("this folder", model=' in Path("run/README.md").read_text()
    assert code == 0 and predicted == (X @ sums)[:, 0].tolist()
    if not held_out:
        assert sums[:, 0].tolist() == (2 * X.sum(axis=0)).tolist()  # two passes
    for kind in ("lda", "nmf"):
        config = f"model: {{kind: {kind}}}\ndata:\n  train: {data}\n{held_out}"
        (project / "b.yaml").write_text(config)
        code, _, err = command("train", "--config", "b.yaml")
        assert code == 65 and "x.npz: row 0, column 2 is -2.0, but a count must not" in err
        assert "a model that takes them, such as svd or kmeans" in err


def test_an_error_of_an_own_class_is_not_called_a_bug_of_ours(
    command: Learn, project: Path
) -> None:
    file = project / "code" / "sums.py"
    file.write_text(file.read_text().replace("(block.X @ self.sums).mat()", "block.X"))
    code, _, err = command("train", "--config", "a.yaml")
    last = err.splitlines()[-1]
    assert code == 70 and "Sums.predict returns a sparse matrix" in err
    assert last.startswith("learn: an error in ") and "please report" not in err
    assert "sums.py:Sums, or else a bug in blocklearn" in last


@pytest.mark.slow
def test_a_model_without_a_table_by_column_knows_its_columns(command: Learn, project: Path) -> None:
    """Its only parameter is a row, so no table has as many rows as the data have columns."""
    file = project / "code" / "sums.py"
    text = file.read_text().replace('"sums", shapes.columns, 1,', '"sums", 1, shapes.columns,')
    text = text.replace("block.X.T @ block.weights", "(block.X.T @ block.weights).T")
    file.write_text(text.replace("block.X @ self.sums", "block.X @ self.sums.T"))
    assert command("train", "--config", "a.yaml")[0] == 0
    named = ["--model-class", "code/sums.py:Sums"]
    assert command("evaluate", "run", "--data", "rows.svm", *named)[0] == 0
    (project / "wide.svm").write_text("0 5:1\n")
    code, _, err = command("evaluate", "run", "--data", "wide.svm", *named)
    assert code == 65 and "6 columns, but the model has 3" in err


def test_a_run_folder_never_causes_an_import(command: Learn, project: Path) -> None:
    assert command("train", "--config", "a.yaml")[0] == 0
    assert imported(project)
    data = ["--data", "rows.svm"]
    for command_line in (
        ["inspect", "run"], ["report", "run"], ["compare", "run", "run"],
        ["export", "run", "--to", "run.npz"],
    ):  # fmt: skip
        assert command(*command_line)[0] == 0, command_line
    for command_line in (["predict", "run", *data], ["evaluate", "run", *data]):
        code, _, err = command(*command_line)
        assert code == 65 and "--model-class FILE.py:CLASS" in err
    for use in (bl.load, Served):
        with pytest.raises(ValueError, match="load.path, model=YourClass"):
            use(Path("run"))
    assert not imported(project)


@pytest.mark.slow
def test_other_own_classes_train_and_are_not_needed_afterwards(
    command: Learn, project: Path
) -> None:
    config = YAML(typ="safe").load(CONFIG)
    config["model"] = {"kind": "glm"}
    config["data"]["train"] = {"kind": "code/others.py:Stairs"}
    config["optimizer"] = {"kind": "code/others.py:Slow"}
    config["mixins"] = [{"kind": "l1"}, {"kind": "code/others.py:Ridge", "weight": 0.01}]
    with (project / "a.yaml").open("w") as file:
        YAML().dump(config, file)
    assert command("train", "--config", "a.yaml")[0] == 0
    written = YAML(typ="safe").load(Path("run/config.yaml"))
    assert written["optimizer"]["rate"] == 0.01 and written["mixins"][1]["weight"] == 0.01
    assert written["code"].keys() == {"optimizer", "mixins.1", "data.train"}
    assert imported(project)
    assert command("report", "run")[0] == 0
    assert "a run folder never imports code" in Path("run/report.html").read_text()
    np.save("rows.npy", np.tri(8, dtype=np.float32))
    assert command("predict", "run", "--data", "rows.npy")[0] == 0  # by the ending of its name
    Served(Path("run"))
    assert not imported(project)


# ---- resuming ------------------------------------------------------------------------------------


def test_a_run_resumes_with_the_same_file_only(command: Learn, project: Path) -> None:
    more = ["--resume", "auto", "--set", "learner.passes=3"]
    assert command("train", "--config", "a.yaml")[0] == 0
    (project / "code").rename(project / "moved")
    text = CONFIG.replace("code/", "moved/")
    (project / "a.yaml").write_text(text)
    assert command("train", "--config", "a.yaml", *more)[0] == 0  # its folder does not matter
    file = project / "moved" / "sums.py"
    file.write_text(MODEL.replace("Adds up", "Sums up"))
    code, _, err = command("train", "--config", "a.yaml", *more)
    assert code == 78
    assert "code.model: the file that model.kind names has changed since the run was sta" in err
    code, _, err = command("train", "--config", "run/config.yaml", "--out", "again")
    assert code == 78 and "must be the digest of the file that model.kind names" in err
    file.write_text(MODEL)
    assert command("train", "--config", "run/config.yaml", "--out", "again")[0] == 0
    kind = named_class("moved/sums.py:Sums", "models")
    first, again = (bl.load(run, model=kind).parameter("sums") for run in ("run", "again"))
    assert np.array_equal(first, again)


def test_a_checkpoint_of_another_class_is_refused_without_an_import(
    command: Learn, project: Path
) -> None:
    assert command("train", "--config", "a.yaml")[0] == 0
    assert imported(project)
    shutil.copy(project / "code" / "sums.py", project / "more.py")
    (project / "a.yaml").write_text(CONFIG.replace("code/sums.py", "more.py"))
    code, _, err = command("train", "--config", "a.yaml", "--resume", "auto")
    assert code == 78 and "but the run was started with 'sums.py:Sums'" in err
    assert not imported(project)  # `code/` was not; `more.py` marks its own folder


# ---- mistakes ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "model, problem",
    [
        ("kind: 'code/sum.py:Sums'", "must name a file that can be read: PROJECT/code/sum.py: "),
        ("kind: 'code/sums.py:Sum'", "which has no Sum. Did you mean 'Sums'?"),
        ("kind: 'code/sums.py:number'", "must be a subclass of blocklearn's Model."),
        ("kind: 'code/others.py:Slow'", "must be a subclass of blocklearn's Model."),
        ("kind: 'code/sums.py:Half'", "Define predict, score, update."),
        ("kind: 'code/sums.py:'", "must be FILE.py:CLASS or package.module:CLASS."),
        ("kind: 'code/broken.py:A'", "PROJECT/code/broken.py:2: ZeroDivisionError: division"),
        ("kind: 'code/syntax.py:A'", "PROJECT/code/syntax.py:1: SyntaxError: "),
        ("kind: 'code/exits.py:A'", "PROJECT/code/exits.py:1: SystemExit: 0"),
        ("kind: 'no_such_package.models:A'", "there is no no_such_package. Install its package"),
        ("kind: 'json.no_such:A'", "there is no json.no_such."),
        ("kind: 'json:A'", "must be in json, which has no A."),
    ],
)  # fmt: skip
def test_a_class_that_cannot_be_loaded_is_named(
    command: Learn, project: Path, model: str, problem: str
) -> None:
    (project / "code" / "broken.py").write_text("def f():\n    return 1 / 0\nf()\n")
    (project / "code" / "syntax.py").write_text("class A(:\n")
    (project / "code" / "exits.py").write_text("raise SystemExit(0)\n")
    (project / "a.yaml").write_text(CONFIG.replace('kind: "code/sums.py:Sums"', model))
    code, _, err = command("train", "--config", "a.yaml", "--dry-run")
    assert code == 78
    assert err.startswith("a.yaml:1:15: model.kind='")
    assert problem.replace("PROJECT", str(project)) in err


def test_settings_of_own_classes_are_checked_like_built_in_ones(
    command: Learn, project: Path
) -> None:
    def problem(settings: str) -> str:
        (project / "a.yaml").write_text(CONFIG.replace('Sums"', f'Sums", {settings}'))
        code, _, err = command("config", "--config", "a.yaml")
        assert code == 78
        return err.strip()

    assert problem("powr: 2").endswith("model.powr: unknown key (did you mean 'power'?)")
    assert problem("power: 0").endswith("power: must be at least 1, not 0")
    assert problem("power: a").startswith("a.yaml:1:43: model.power: must be an integer")


@pytest.mark.parametrize(
    "part",
    ["mixins: 3", "mixins: {a: 1}", "optimizer: [1]", "mixins: [1, b]", "optimizer: {kind: [1]}"],
)
def test_a_section_of_another_form_is_still_reported(
    command: Learn, project: Path, part: str
) -> None:
    (project / "a.yaml").write_text(CONFIG + part)
    code, _, err = command("config", "--config", "a.yaml")
    assert code == 78 and err.startswith("a.yaml:7:")
    (project / "a.yaml").write_text(CONFIG.replace("data:\n  train", "data:\n  - train"))
    code, _, err = command("config", "--config", "a.yaml")
    assert code == 78 and err.startswith("a.yaml:")


def test_an_option_that_names_no_class_says_so(command: Learn, project: Path) -> None:
    assert command("train", "--config", "a.yaml")[0] == 0
    for name, problem in (
        ("code/sums.py:Sum", "which has no Sum. Did you mean 'Sums'?"),
        ("sums", "CLASS, or be listed by `learn kinds`."),
    ):
        given = ["--data", "rows.svm", "--model-class", name]
        code, _, err = command("evaluate", "run", *given)
        assert code == 78 and err.startswith(f"--model-class={name!r}: must be ")
        assert err.strip().endswith(problem)


# ---- packages ------------------------------------------------------------------------------------


@pytest.fixture
def package(project: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An installed package with a model, an optimizer and a mixin."""
    site = project / "code"
    info = site / "mine-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text(
        "[blocklearn.models]\nsums = mine:Sums\n[blocklearn.optimizers]\nslow = mine_too:Slow\n"
    )
    (site / "mine.py").write_text(MODEL)
    (site / "mine_too.py").write_text(OTHERS)
    monkeypatch.syspath_prepend(site)
    invalidate_caches()
    yield site
    imported(project)


def test_kinds_of_packages_are_listed_and_used(
    command: Learn, project: Path, package: Path
) -> None:
    code, out, _ = command("kinds")
    lines = [line.split(maxsplit=2) for line in out.splitlines()]
    assert code == 0
    assert ["models", "sums", "mine:Sums of mine 1.2"] in lines
    assert ["optimizers", "slow", "mine_too:Slow of mine 1.2"] in lines
    assert {"lda", "adam", "l2", "file"} <= {line[1] for line in lines}
    _, out, _ = command("--help")
    assert "Models of installed packages, for model.kind: sums." in out
    assert not imported(project)
    (project / "a.yaml").write_text(CONFIG.replace("code/sums.py:Sums", "sums"))
    assert command("train", "--config", "a.yaml")[0] == 0
    assert "kind: mine:Sums" in Path("run/config.yaml").read_text()
    assert imported(project)
    assert command("evaluate", "run", "--data", "rows.svm")[0] == 65
    assert not imported(project)
    for name in ("sums", "mine:Sums"):
        assert command("evaluate", "run", "--data", "rows.svm", "--model-class", name)[0] == 0


def test_a_name_of_two_packages_is_refused(command: Learn, project: Path, package: Path) -> None:
    other = package / "theirs-1.0.dist-info"
    other.mkdir()
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    (other / "entry_points.txt").write_text("[blocklearn.models]\nsums = theirs:Sums\n")
    invalidate_caches()
    (project / "a.yaml").write_text(CONFIG.replace("code/sums.py:Sums", "sums"))
    code, _, err = command("train", "--config", "a.yaml")
    assert code == 78 and "but is by mine:Sums and theirs:Sums. Name one." in err


def test_a_learner_takes_names_too(project: Path, package: Path) -> None:
    rows = np.eye(3, dtype=np.float32)
    for name in ("code/sums.py:Sums", "mine:Sums", "sums"):
        learner = bl.Learner({"kind": name, "power": 2}, rows, optimizer=None)
        assert type(learner.model).__name__ == "Sums"
    with pytest.raises(ValueError, match="Learner: model='code/sums.py:Sum': must be in .*'Sums'"):
        bl.Learner("code/sums.py:Sum", rows)
