"""`learn` from a text file to topics, predictions and back again, as a user would go."""

import json
from pathlib import Path

import numpy as np
import pytest

import blocklearn as bl
from blocklearn.learner.exit_codes import ExitCode
from blocklearn.learner.watch.events import Event
from tests.support.beside import CONFIGS
from tests.support.learn_command import Learn
from tests.support.often import first_often

THEMES = {
    "sea": "harbour anchor sailor wave ship mast".split(),
    "kitchen": "oven flour butter sugar bread dough".split(),
    "court": "judge verdict lawyer witness trial jury".split(),
}
CONFIG = """\
model: {kind: lda, topics: 3, inference: cvb0}
data:
  train: {kind: file, path: docs.txt}
  eval: {kind: holdout, share: 0.1}
  block_rows: 64
learner: {passes: 4, seed: 1}
"""


@pytest.fixture
def learn(command: Learn) -> Learn:
    """Runs `learn` in an empty folder with a corpus of three themes: exit code, stdout, stderr."""
    rng = np.random.default_rng(0)
    lines = [" ".join(rng.choice(list(THEMES.values())[i % 3], size=20)) for i in range(300)]
    Path("docs.txt").write_text("\n".join(lines) + "\n")
    Path("themes.yaml").write_text(CONFIG)

    return command


def events(run: str) -> list[dict]:
    return [json.loads(line) for line in Path(run, "metrics.jsonl").read_text().splitlines()]


def same_model(one: str, other: str) -> bool:
    name = "weights.safetensors"
    return Path(one, name).read_bytes() == Path(other, name).read_bytes()


def test_predictions_do_not_replace_what_is_read(learn: Learn) -> None:
    learn("--config", "themes.yaml", "-q")
    Path("new.csv").write_text("text\nparis berlin\n")
    Path("alias.csv").symlink_to("new.csv")
    for name in ("new.csv", "alias.csv"):
        given = ["--data", "new.csv", "--text", "text", "--out", name, "--overwrite"]
        code, _, err = learn("predict", "runs/themes", *given)
        assert code == ExitCode.USAGE and "would replace what is read" in err
    assert Path("new.csv").read_text() == "text\nparis berlin\n"


def test_from_text_to_topics(learn: Learn) -> None:
    code, out, err = learn("--config", "themes.yaml")
    assert code == ExitCode.DONE, err
    found = [line.split()[1:7] for line in out.splitlines()]  # six words make a theme
    assert sorted(map(sorted, found)) == sorted(map(sorted, THEMES.values()))
    assert "rows (" in err and "x 18 columns" in err
    assert "pass 4/4, held out: perplexity" in err

    end = events("runs/themes")[-1]
    Event.model_validate(end)
    assert end["event"] == "end" and end["allocations_after_warmup"] == 0
    assert end["seconds"] > 0 and end["rows_per_s"] > 0 and 5 < end["perplexity"] < 10
    assert {path.name for path in Path("runs/themes").iterdir()} >= {
        "model.json", "weights.safetensors", "vocab.arrow", "metrics.json", "README.md",
        "metrics.jsonl", "config.yaml"}  # fmt: skip

    # nothing is written anywhere else
    assert {path.name for path in Path().iterdir()} == {"docs.txt", "themes.yaml", "runs"}

    code, out, _ = learn("topics", "runs/themes", "--top", "2", "--json")
    assert code == 0
    topics = json.loads(out)
    assert [len(topic["words"]) for topic in topics] == [2, 2, 2]
    assert all(0 < word["probability"] < 1 for topic in topics for word in topic["words"])


def test_predict_and_evaluate(learn: Learn) -> None:
    import pyarrow.parquet as pq

    learn("--config", "themes.yaml", "-q")
    Path("new.txt").write_text("ship wave sailor ship\nbread flour xylophone butter oven\n\n")
    code, out, err = learn("predict", "runs/themes", "--data", "new.txt")
    assert code == 0 and len(out.splitlines()) >= 2
    first, second = out.splitlines()[:2]
    assert set(first.split()) & set(THEMES["sea"])
    assert set(second.split()) & set(THEMES["kitchen"])
    assert "1 of 9 words are unknown" in err
    assert "new.txt: 1 of 3 rows have no word that the model knows\n" in err

    learn("predict", "runs/themes", "--data", "new.txt", "--out", "deep/p.parquet")
    learn("predict", "runs/themes", "--data", "new.txt", "--out", "p.npy")
    _, out, _ = learn("predict", "runs/themes", "--data", "new.txt", "--out", "-")
    table, array = pq.read_table("deep/p.parquet"), np.load("p.npy")
    rows = [json.loads(line) for line in out.splitlines()]
    assert table["row"].to_pylist() == list(range(len(array))) == [row["row"] for row in rows]
    assert table["document"].to_pylist() == [row["document"] for row in rows]
    for values in (table["prediction"].to_pylist(), [row["prediction"] for row in rows]):
        np.testing.assert_allclose(values, array, rtol=1e-6)
    np.testing.assert_allclose(array.sum(axis=1), 1.0, rtol=1e-5)
    np.testing.assert_array_equal(
        bl.load("runs/themes").predict(bl.datasources.read_counts(
            "new.txt", bl.load("runs/themes").names).counts), array)  # fmt: skip

    code, out, _ = learn("evaluate", "runs/themes", "--data", "docs.txt", "--json")
    assert code == 0 and 5 < json.loads(out)["perplexity"] < 10
    code, out, _ = learn("evaluate", "runs/themes", "--data", "docs.txt")
    assert "perplexity" in out

    Path("alien.txt").write_text("xylophone zeppelin\n")
    code, _, err = learn("predict", "runs/themes", "--data", "alien.txt")
    assert code == ExitCode.DATA and "none of its 2 words" in err


def test_an_existing_run(learn: Learn) -> None:
    learn("--config", "themes.yaml", "-q", "--out", "a")
    code, _, err = learn("--config", "themes.yaml", "--out", "a")
    assert code == ExitCode.USAGE and "--overwrite" in err and "--resume auto" in err
    code, out, err = learn("--config", "themes.yaml", "--out", "a", "--resume", "auto")
    assert code == ExitCode.DONE and "finished, 4 passes" in err and not out
    code, _, err = learn("--config", "themes.yaml", "--out", "a", "--resume", "auto",
                         "--set", "learner.passes=5", "--set", "model.alpha=0.3")  # fmt: skip
    assert code == ExitCode.CONFIG and "model.alpha: 0.3, but the run was started with" in err
    code, _, _ = learn("--config", "themes.yaml", "--out", "a", "--overwrite", "--seed", "2", "-q")
    assert code == ExitCode.DONE, err
    assert "seed: 2" in Path("a/config.yaml").read_text()


def test_going_on_gives_the_bits_of_never_having_stopped(learn: Learn) -> None:
    learn("--config", "themes.yaml", "-q", "--out", "whole")
    more = ["--config", "themes.yaml", "-q", "--out", "parts", "--resume", "auto"]
    learn(*more, "--set", "learner.passes=1")
    assert not same_model("whole", "parts")
    learn(*more, "--set", "learner.passes=3", "--threads", "1")
    learn(*more)
    assert same_model("whole", "parts")
    assert [e["pass"] for e in events("parts") if e["event"] == "eval"] == [1, 2, 3, 4]
    assert [e["event"] for e in events("parts")].count("end") == 1
    assert events("parts")[-1]["perplexity"] == events("whole")[-1]["perplexity"]


@pytest.mark.parametrize("first, alike", first_often([(1, False), (2, True)]))
def test_a_pass_that_sampled_because_it_was_to_be_the_last_is_told_of(
    learn: Learn, caplog: pytest.LogCaptureFixture, first: int, alike: bool
) -> None:
    gibbs = ["--config", "themes.yaml", "-q", "--set", "model.inference=gibbs"]
    learn(*gibbs, "--out", "whole")
    more = [*gibbs, "--out", "parts", "--resume", "auto"]
    learn(*more, "--set", f"learner.passes={first}")
    assert not caplog.messages
    assert learn(*more)[0] == 0
    assert same_model("whole", "parts") == alike
    assert [f"was {first} and is now 4. Pass 1" in text for text in caplog.messages] == (
        [] if alike else [True]
    )


def test_a_run_whose_model_was_lost_writes_it_again(learn: Learn) -> None:
    learn("--config", "themes.yaml", "-q", "--out", "a")
    learn("--config", "themes.yaml", "-q", "--out", "b")
    Path("b/model.json").unlink()
    Path("b/weights.safetensors").unlink()
    for name in ("vocab.arrow", "metrics.json", "README.md"):
        Path("b", name).unlink()
    code, _, _ = learn("--config", "themes.yaml", "-q", "--out", "b", "--resume", "auto")
    assert code == 0 and same_model("a", "b")
    assert json.loads(Path("b/metrics.json").read_text())["passes"] == 4
    assert events("b")[-1]["perplexity"] == events("a")[-1]["perplexity"]


@pytest.mark.slow
def test_a_model_without_its_manifest_is_written_again(learn: Learn) -> None:
    learn("--config", "themes.yaml", "-q")
    before = Path("runs/themes/weights.safetensors").read_bytes()
    Path("runs/themes/model.json").unlink()
    code, _, err = learn("topics", "runs/themes")
    assert code == ExitCode.NO_INPUT
    assert "model.json is missing; the same command with --resume auto writes it again" in err
    assert learn("--config", "themes.yaml", "-q", "--resume", "auto")[0] == ExitCode.DONE
    assert learn("topics", "runs/themes")[0] == ExitCode.DONE
    assert Path("runs/themes/weights.safetensors").read_bytes() == before


def test_changed_data_are_noticed(learn: Learn) -> None:
    learn("--config", "themes.yaml", "-q")
    with Path("docs.txt").open("a") as file:
        file.write("ship ship ship mast\n" * 5)
    code, _, err = learn("--config", "themes.yaml", "--resume", "auto")
    assert code == ExitCode.CONFIG and "the data have changed" in err


def test_a_dry_run_writes_nothing(learn: Learn) -> None:
    code, out, _ = learn("--config", "themes.yaml", "--dry-run")
    assert code == 0 and "bytes  in all" in out and "lambda" in out
    assert not Path("runs").exists()


def test_quiet_and_json(learn: Learn) -> None:
    code, out, err = learn("--config", "themes.yaml", "--quiet")
    assert (code, out, err) == (0, "", "")
    code, out, err = learn("--config", "themes.yaml", "--out", "j", "--log-format", "json")
    assert (code, out) == (0, "")
    assert [json.loads(line) for line in err.splitlines()] == events("j")


@pytest.mark.slow
def test_counts_without_evaluation(learn: Learn) -> None:
    from scipy import sparse

    counts = np.random.default_rng(0).poisson(1.0, (50, 12)).astype(np.float32)
    sparse.save_npz("counts.npz", sparse.csr_array(counts))
    data = "data={train: {kind: file, path: counts.npz}, eval: null}"
    code, out, _ = learn("--config", "themes.yaml", "--set", data, "--out", "c")
    assert code == 0 and len(out.splitlines()) == 3
    assert "perplexity" not in events("c")[-1]
    code, _, _ = learn("predict", "c", "--data", "counts.npz")
    assert code == 0


@pytest.mark.slow
def test_the_delivered_configuration(learn: Learn) -> None:
    """The first command of the README: topics that a person recognises."""
    code, out, _ = learn("--config", str(CONFIGS / "lda.yaml"))
    assert code == 0
    topics = [set(line.split()[1:]) for line in out.splitlines()]
    themes = (  # which module's words meet in one topic depends on what of the library is installed
        "socket connection asyncio protocol transport server address client port",
        "date time datetime calendar year month timezone day",
        "path directory file files directories filename names",
        "test tests assert mock unittest doctest case failure",
        "xml element parser sax dom tree handler attributes",
        "thread process lock queue multiprocessing pool threading",
        "logging handler log record logger",
        "mail message header email mailbox headers",
    )
    found = [words for words in themes if max(len(set(words.split()) & t) for t in topics) >= 3]
    assert len(found) >= 6, found


def test_wrong_models_leave_no_run_behind(learn: Learn) -> None:
    code, _, err = learn("--config", "themes.yaml", "--set", "model.alpha=[0.1, 0.2]")
    assert (code, Path("runs").exists()) == (ExitCode.CONFIG, False)
    assert "alpha has 2 numbers, but there are 3 topics" in err
    code, _, err = learn("--config", "themes.yaml", "--set", "model.eta=[0.1, 0.2]")
    assert (code, Path("runs").exists()) == (ExitCode.CONFIG, False)
    assert "eta has 2 numbers, but there are 18 words" in err
    code, _, _ = learn("--config", "themes.yaml", "--quiet")
    assert code == 0


def test_documents_without_a_known_word_are_named(learn: Learn) -> None:
    learn("--config", "themes.yaml", "--quiet")
    Path("other.txt").write_text("nothing known here\nharbour\n")
    code, out, _ = learn("predict", "runs/themes", "--data", "other.txt")
    assert (code, "other.txt:1: no words that the model knows" in out) == (0, True)
    code, out, err = learn("evaluate", "runs/themes", "--data", "other.txt")
    assert (code, "no value for perplexity" in err) == (0, True)
    assert "elbo_per_token" in out and "perplexity" not in out  # of one word, a half is none


def test_version(learn: Learn) -> None:
    assert learn("--version")[:2] == (0, f"blocklearn {bl.__version__}\n")
    assert learn("-h")[:2] == learn("--help")[:2]


def test_files_of_a_model_can_be_read_by_others(learn: Learn) -> None:
    learn("--config", "themes.yaml", "--quiet")
    modes = {p.name: oct(p.stat().st_mode & 0o777) for p in Path("runs/themes").iterdir()}
    assert modes["weights.safetensors"] == modes["config.yaml"]
