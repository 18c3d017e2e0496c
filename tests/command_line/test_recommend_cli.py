"""`learn recommend`, `learn similar`, and other commands on a model of users and items."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as parquet
import pytest

import blocklearn as bl
from blocklearn.datasources import read_ratings
from blocklearn.learner.exit_codes import ExitCode
from blocklearn.learner.recommendation.factors import factors_of
from tests.support.learn_command import learn
from tests.support.often import first_often

CONFIG = """
model: {{kind: als, rank: 4, loss: {loss}}}
data:
  train: {{kind: ratings, path: {folder}/ratings.csv, user: who, item: "what, then"}}
  eval: {{kind: holdout, share: 0.2}}
  block_rows: 16
learner: {{passes: 2, threads: 1, seed: 3{ranking}}}
"""


def write_ratings(path: Path, users: int = 30, seed: int = 0) -> None:
    rng = np.random.default_rng(seed)
    lines = ['rating,who,"what, then"\n']
    for user in range(users):
        for item in np.flatnonzero(rng.random(20) < 0.4):
            lines.append(f'{rng.integers(1, 6)},"user ""{user}""",{item:03}é\n')
    path.write_text("".join(lines), encoding="utf-8")


def train(folder: Path, loss: str, ranking: str = "") -> Path:
    write_ratings(folder / "ratings.csv")
    (folder / "c.yaml").write_text(CONFIG.format(loss=loss, folder=folder, ranking=ranking))
    assert learn("--config", folder / "c.yaml", "--out", folder / "run", "--quiet") == 0
    return folder / "run"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(tmp_path_factory.mktemp("explicit"), "explicit")


@pytest.fixture(scope="module")
def implicit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(tmp_path_factory.mktemp("implicit"), "implicit")


@pytest.fixture
def ids(tmp_path: Path) -> Path:
    path = tmp_path / "ids.txt"
    path.write_text('user "7"\n\nuser "11"\r\n', encoding="utf-8")
    return path


def objects(text: str) -> Iterator[Any]:
    return (json.loads(line) for line in text.splitlines())


def test_lists_leave_out_the_training_row(
    run: Path, ids: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert learn("recommend", run, "--users", ids, "--top", 20, "--json") == 0
    seen = learn_seen(run)
    for found, user in zip(
        objects(capsys.readouterr().out), ['user "7"', 'user "11"'], strict=True
    ):
        items = [item["item"] for item in found["items"]]
        assert found["user"] == user
        assert len(items) == 20 - len(seen[user]) and not set(items) & seen[user]


def learn_seen(run: Path) -> dict[str, set[str]]:
    """Items of the training part, by user, found by the library."""
    from blocklearn.learner.runs.inputs import open_data
    from blocklearn.learner.runs.model_inputs import config_of

    config = config_of(run)
    assert config is not None
    source, held = open_data(config)
    assert held is not None
    rows, matrix = source.row_names, source.entries(np.arange(30))  # type: ignore[attr-defined]
    assert source.names is not None
    names = np.array(list(source.names))
    return {
        rows[row]: set(names[matrix.indices[slice(*matrix.indptr[row : row + 2])]].tolist())
        for row in range(30)
    }


def test_other_items_to_leave_out(
    run: Path, ids: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["recommend", run, "--users", ids, "--top", 20, "--json"]
    assert learn(*command, "--include-seen") == 0
    assert [len(found["items"]) for found in objects(capsys.readouterr().out)] == [20, 20]

    seen = tmp_path / "seen.csv"
    text = 'rating,who,"what, then"\n5,"user ""7""",001é\n5,"user ""7""",002é\n1,new,001é\n'
    seen.write_text(text, encoding="utf-8")
    assert learn(*command, "--seen", seen) == 0
    lists = list(objects(capsys.readouterr().out))
    assert [len(found["items"]) for found in lists] == [18, 20]
    assert not {"001é", "002é"} & {item["item"] for item in lists[0]["items"]}

    items = tmp_path / "items.txt"
    items.write_text("001é\n019é\n", encoding="utf-8")
    assert learn(*command, "--include-seen", "--items", items) == 0
    for found in objects(capsys.readouterr().out):
        assert {item["item"] for item in found["items"]} == {"001é", "019é"}


def test_new_users_are_folded_in(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new = tmp_path / "new.csv"
    new.write_text(
        'rating,who,"what, then"\n5,zoe,003é\n1,zoe,001é\n4,"user ""7""",019é\n', encoding="utf-8"
    )
    command = ["recommend", run, "--data", new, "--top", 20, "--json"]
    assert learn(*command) == 0
    found = {lists["user"]: lists["items"] for lists in objects(capsys.readouterr().out)}
    assert list(found) == ['user "7"', "zoe"] and [*map(len, found.values())] == [19, 18]

    learner = bl.load(run)
    names = list(learner.names or [])
    rows = np.zeros((2, len(names)))
    rows[0, names.index("019é")], rows[1, names.index("003é")] = 4, 5
    rows[1, names.index("001é")] = 1
    wanted = list(bl.recommend(learner, bl.sparse(rows), 20).named())
    for (_, items), ours in zip(wanted, found.values(), strict=True):
        assert [(item["item"], item["score"]) for item in ours] == items

    assert learn(*command, "--include-seen", "--out", tmp_path / "top.parquet") == 0
    users = parquet.read_table(tmp_path / "top.parquet")["user"].to_pylist()
    assert users == ['user "7"'] * 20 + ["zoe"] * 20


def test_unknown_ones_are_named_and_may_be_skipped(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new, ids = tmp_path / "new.csv", tmp_path / "some.txt"
    new.write_text('rating,who,"what, then"\n5,zoe,003é\n1,zoe,x\n2,eve,y\n', encoding="utf-8")
    ids.write_text('eve\nuser "7"\nzoe\n', encoding="utf-8")
    commands = [
        (["recommend", run, "--data", new], "2 of 3 items are unknown to the model: 'x', 'y'"),
        (["recommend", run, "--users", ids], "2 of 3 users are unknown to the model: 'eve', 'zoe'"),
        (["similar", run, "--users", ids], "2 of 3 users are unknown to the model: 'eve', 'zoe'"),
    ]
    for command, message in commands:
        assert learn(*command) == 65
        assert f"{message}; --skip-unknown leaves them out." in capsys.readouterr().err
        assert learn(*command, "--skip-unknown", "--json") == 0
        said = capsys.readouterr()
        users = [found["user"] for found in objects(said.out)]
        assert users == (["eve", "zoe"] if "--data" in command else ['user "7"'])
        assert said.err.endswith(f"{message}; they are left out\n")
    new.write_text('who,"what, then"\nzoe,003é\n', encoding="utf-8")
    for command in ("recommend", "predict", "evaluate"):
        assert learn(command, run, "--data", new) == 65
        assert "new.csv: users and items alone, but the model" in capsys.readouterr().err
    ids.write_text("eve\n")
    assert learn("recommend", run, "--users", ids, "--skip-unknown") == 65
    assert "'eve'; there are no others." in capsys.readouterr().err


def test_all_users_into_a_file(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "top.parquet"
    assert learn("recommend", run, "--top", 2, "--out", path) == 0
    assert capsys.readouterr().out == f"{path}: 60 rows\n"
    table = parquet.read_table(path)
    assert len(set(table["user"].to_pylist())) == 30
    assert table["rank"].to_pylist() == [1, 2] * 30


def test_what_is_similar(
    run: Path, ids: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert learn("similar", run, "--users", ids, "--top", 3, "--json") == 0
    for found in objects(capsys.readouterr().out):
        assert len(found["users"]) == 3
        assert found["user"] not in [other["user"] for other in found["users"]]
    items = tmp_path / "items.txt"
    items.write_text("001é\n", encoding="utf-8")
    assert learn("similar", run, "--items", items, "--top", 1) == 0
    line = capsys.readouterr().out
    assert line.startswith("001é: 0") and line.endswith(")\n")


@pytest.mark.parametrize(
    "options, code, message",
    [
        (
            ["recommend", "--users", "none.txt"],
            66,
            "none.txt: No such file. Write the ids into a file",
        ),
        (["recommend", "--users", "unknown.txt"], 65, "1 of 1 users are unknown.*'eve'"),
        (["recommend", "--items", "unknown.txt"], 65, "1 of 1 items are unknown.*'eve'"),
        (["recommend", "--users", "empty.txt"], 65, "has no ids"),
        (["recommend", "--seen", "other.csv"], 65, "none of its ratings"),
        (["recommend", "--seen", "unknown.txt", "--include-seen"], 2, ""),
        (["recommend", "--data", "none.csv"], 66, "none.csv: No such file"),
        (["recommend", "--data", "a.csv", "--users", "b"], 2, "its own users"),
        (["recommend", "--out", "top.xls"], 2, ""),
        (["recommend", "--top", "0"], 2, ""),
        (["similar"], 2, ""),
        (["similar", "--items", "a", "--users", "b"], 2, ""),
    ],
)
def test_mistakes(
    run: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    code: int,
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("unknown.txt").write_text("eve\n")
    Path("empty.txt").write_text("\n\n")
    Path("other.csv").write_text('rating,who,"what, then"\n1,eve,apple\n')
    assert learn(options[0], run, *options[1:]) == code
    error = capsys.readouterr().err
    assert re.search(message, error), error
    assert "Traceback" not in error


def test_training_data_that_are_gone_or_changed(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A copy of the run whose data are elsewhere; then a model folder alone."""
    copy = tmp_path / "run"
    shutil.copytree(run, copy)
    config = (copy / "config.yaml").read_text().replace(str(run.parent), str(tmp_path))
    (copy / "config.yaml").write_text(config)
    assert learn("recommend", copy) == 66
    assert "are gone; --seen FILE" in capsys.readouterr().err
    assert learn("recommend", copy, "--include-seen", "--top", 1) == 0

    write_ratings(tmp_path / "ratings.csv")
    held_out = f"  eval: {{kind: ratings, path: {tmp_path}/gone.csv}}\n"
    (copy / "config.yaml").write_text(re.sub(r"  eval:\n(    .*\n)+", held_out, config))
    assert learn("recommend", copy, "--top", 1) == 0  # it does not read the held-out data

    write_ratings(tmp_path / "ratings.csv", users=31)
    capsys.readouterr()
    assert learn("recommend", copy) == 65
    assert "have other users or items than when" in capsys.readouterr().err

    (copy / "config.yaml").unlink()
    assert learn("recommend", copy) == 65
    assert "no configuration" in capsys.readouterr().err
    assert learn("recommend", copy, "--include-seen", "--top", 1) == 0


@pytest.mark.parametrize(
    "old, new, refused",
    [
        ("    rating: rating\n", "    rating: null\n", "rating=null"),
        ("  metric: null\n  better: null", "  metric: rmse\n  better: higher", "better=higher"),
    ],
)
def test_runs_whose_configuration_is_refused_by_now(
    old: str, new: str, refused: str, run: Path, tmp_path: Path, capsys: Any
) -> None:
    """Earlier versions trained on ratings that are all 1, and watched scores the wrong way."""
    shutil.copytree(run, tmp_path / "run")
    config = tmp_path / "run" / "config.yaml"
    config.write_text(config.read_text().replace(old, new, 1))
    assert learn("--config", config, "--out", tmp_path / "other") == ExitCode.CONFIG
    assert refused in capsys.readouterr().err
    assert learn("recommend", tmp_path / "run", "--top", 1) == 0
    assert learn("evaluate", tmp_path / "run", "--data", run.parent / "ratings.csv") == 0


def test_models_of_other_kinds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    learner = bl.Learner(bl.models.LDA(topics=2), train=bl.sparse(np.eye(4)), threads=1).fit()
    bl.save(learner, tmp_path / "m")
    for options in (["recommend"], ["recommend", "--include-seen"], ["recommend", "--seen", "x"]):
        (tmp_path / "x").write_text("")
        options = [str(tmp_path / "x") if option == "x" else option for option in options]
        assert learn(options[0], tmp_path / "m", *options[1:]) == 78
        message = "learn: a model of kind LDA has no factors of users and items; "
        message += "ALS and Ranking have\n"
        assert capsys.readouterr().err == message


# ---- other commands ------------------------------------------------------------------------------


def test_predict_folds_new_users_in(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new = tmp_path / "new.csv"
    text = 'rating,who,"what, then"\n5,zoë,001é\n2,eve,002é\n1,eve,004é\n9,eve,nothing\n'
    new.write_text(text, encoding="utf-8")
    assert learn("predict", run, "--data", new, "--out", "-") == 0
    found = list(objects(capsys.readouterr().out))
    assert [row["document"] for row in found] == ["eve", "zoë"]
    loaded = bl.load(run)
    ratings = read_ratings(new, user="who", item="what, then", items=factors_of(loaded).item_ids)
    np.testing.assert_allclose(
        [row["prediction"] for row in found], bl.fold_in(loaded, ratings.matrix), rtol=1e-6
    )


@pytest.mark.slow
def test_other_models_read_ratings_over_their_own_items(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_ratings(tmp_path / "ratings.csv")
    text = CONFIG.format(loss="", folder=tmp_path, ranking="")
    text = text.replace("kind: als, rank: 4, loss: ", "kind: nmf, components: 2")
    (tmp_path / "nmf.yaml").write_text(text)
    run = tmp_path / "nmf"
    assert learn("--config", tmp_path / "nmf.yaml", "--out", run, "--quiet") == 0
    new = tmp_path / "new.csv"
    new.write_text('rating,who,"what, then"\n4,zoë,019é\n4,zoë,apple\n', encoding="utf-8")
    assert learn("predict", run, "--data", new, "--out", "-") == 0
    (found,) = objects(capsys.readouterr().out)
    loaded = bl.load(run)
    row = np.zeros((1, 20), np.float32)
    row[0, 19] = 4
    assert found["document"] == "zoë" and list(loaded.names or ())[19] == "019é"
    np.testing.assert_allclose(found["prediction"], loaded.predict(bl.sparse(row))[0], rtol=1e-5)


def test_evaluate_scores_further_ratings_and_their_ranking(
    run: Path, implicit: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = implicit.parent / "ratings.csv"
    assert learn("evaluate", implicit, "--data", data, "--json") == 0
    scores = json.loads(capsys.readouterr().out)
    assert {
        "rmse",
        "ndcg@10",
        "precision@10",
        "recall@10",
        "map@10",
        "mrr@10",
        "auc@10",
    } <= scores.keys()
    assert learn("evaluate", run, "--data", data, "--json") == 0
    assert not any("@" in name for name in json.loads(capsys.readouterr().out))

    copy = tmp_path / "run"
    shutil.copytree(implicit, copy)
    config = (copy / "config.yaml").read_text().replace(str(implicit.parent), str(tmp_path))
    (copy / "config.yaml").write_text(config)
    assert learn("evaluate", copy, "--data", data, "--json") == 0
    output = capsys.readouterr()
    assert "ranking is not scored" in output.err
    assert {"rmse"} <= json.loads(output.out).keys() < scores.keys()


def test_ranking_in_training(
    implicit: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    events = [json.loads(line) for line in (implicit / "metrics.jsonl").read_text().splitlines()]
    assert all(0 < event["ndcg@10"] <= 1 for event in events if event["event"] == "eval")
    explicit = train(tmp_path, "explicit", ", ranking: {top: 3, relevant: 4}")
    event = json.loads((explicit / "metrics.jsonl").read_text().splitlines()[-1])
    assert {"rmse", "map@3"} <= event.keys() and "map@10" not in event

    text = CONFIG.format(loss="explicit", folder=tmp_path, ranking=", ranking: {}")
    text = text.replace("kind: als, rank: 4, loss: explicit", "kind: nmf, components: 2")
    (tmp_path / "nmf.yaml").write_text(text.replace("eval: {kind: holdout, share: 0.2}", ""))
    capsys.readouterr()
    assert learn("--config", tmp_path / "nmf.yaml", "--out", tmp_path / "other") == 78
    assert "learner.ranking: a model of kind NMF has no items to rank" in capsys.readouterr().err


PAIRS = [('user "1"', "003é"), ("stranger", "003é"), ('user "1"', "new"), ("x", "y")]


def expected_pairs(run: Path) -> list[float]:
    """What the pairs above should have, from the factors."""
    factors = factors_of(bl.load(run))
    user = factors.users[factors.names("user").numbers(['user "1"'])[0]].astype(np.float64)
    item = factors.items[factors.names("item").numbers(["003é"])[0]].astype(np.float64)
    if len(user) > factors.rank:  # (x, b_u, 1) and (y, 1, b_i)
        rest = [factors.offset + item[-1], factors.offset + user[-2], factors.offset]
    else:
        rest = [0.0, 0.0, 0.0]
    return [factors.offset + float(user @ item), *rest]


@pytest.mark.parametrize("kind", first_often(["run", "implicit"]))
def test_pairs_are_predicted_in_their_order(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder: Path = request.getfixturevalue(kind)
    quoted = [(user.replace('"', '""'), item) for user, item in PAIRS]
    lines = ['who,extra,"what, then"', *(f'"{user}",1,{item}' for user, item in quoted)]
    (tmp_path / "pairs.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    wanted = expected_pairs(folder)
    assert learn("predict", folder, "--pairs", tmp_path / "pairs.csv") == 0
    printed = capsys.readouterr().out.splitlines()
    assert [line.rpartition("(")[2] for line in printed[1:]] == [
        "user unknown)", "item unknown)", "both unknown)"
    ]  # fmt: skip
    assert printed[0].startswith('user "1" 003é ')
    assert learn("predict", folder, "--pairs", tmp_path / "pairs.csv", "--out", "-") == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(one["user"], one["item"]) for one in found] == PAIRS
    assert [one["prediction"] for one in found] == pytest.approx(wanted, rel=1e-5)
    assert [(one["user_known"], one["item_known"]) for one in found] == [
        (True, True), (False, True), (True, False), (False, False)
    ]  # fmt: skip
    out = tmp_path / "out.parquet"
    assert learn("predict", folder, "--pairs", tmp_path / "pairs.csv", "--out", out) == 0
    table = parquet.read_table(out).to_pylist()
    assert [row["prediction"] for row in table] == pytest.approx(wanted, rel=1e-5)
    assert [tuple(row)[:2] for row in table] == [("user", "item")] * 4
    assert bl.predict_pairs(
        bl.load(folder), [u for u, _ in PAIRS], [i for _, i in PAIRS]
    ).values.tolist() == pytest.approx(wanted, rel=1e-5)


def test_pairs_that_cannot_be_predicted_are_refused(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pairs.csv").write_text("a,b\n1,2\n")
    assert learn("predict", run, "--pairs", tmp_path / "pairs.csv") == 65
    assert "no column 'who'" in capsys.readouterr().err
    assert learn("predict", run, "--pairs", tmp_path / "none.csv") == 66
    assert learn("predict", run) == 2
    assert "choose one of --data and --pairs" in capsys.readouterr().err
    with pytest.raises(ValueError, match="2 users and 1 items; pairs need as many of each"):
        bl.predict_pairs(bl.load(run), ["a", "b"], ["c"])
