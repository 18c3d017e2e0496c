"""Configuration: layers, their precedence, and what every mistake is reported as."""

import random
import re
from itertools import pairwise
from pathlib import Path
from typing import get_args

import pytest
from ruamel.yaml import YAML

from blocklearn.datasources.config import Kind
from blocklearn.learner.configuration.config import RunConfig
from blocklearn.learner.configuration.kinds import own_classes
from blocklearn.learner.configuration.yaml_config import (
    Setting,
    of_values,
    resolve,
    to_yaml,
    values_of,
)
from blocklearn.learner.configuration.yaml_tree import Origin, merge, parse_file, parse_text
from blocklearn.learner.errors import ConfigError
from blocklearn.models import MODELS
from tests.support.beside import CONFIGS
from tests.support.page_blocks import commands

GOOD = """\
model:
  kind: lda
  topics: 40
data:
  train: {kind: python-docs}
"""


@pytest.fixture
def write(tmp_path: Path):
    def write(text: str | bytes, name: str = "a.yaml") -> Path:
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def problems(*args, **kwargs) -> list[str]:
    """What `resolve` complains about, without the folder of the files."""
    with pytest.raises(ConfigError) as caught:
        resolve(RunConfig, *args, **kwargs)
    return [line.replace(f"{args[0][0].parent}/", "") for line in caught.value.problems]


# ---- what comes out ------------------------------------------------------------------------------


def test_defaults_are_filled_in(write) -> None:
    config = resolve(RunConfig, [write(GOOD)], {})
    assert config.model.topics == 40
    assert config.learner.passes == 1
    assert config.optimizer is None  # the model chooses one when it has seen the data


def test_later_layers_win(write) -> None:
    one = write(GOOD)
    two = write("model: {topics: 41}\nlearner: {passes: 2, seed: 2}\n", "b.yaml")
    environ = {"LEARN__LEARNER__PASSES": "3", "LEARN__DATA__BLOCK_ROWS": "3", "LEARN_X": "no"}
    settings = [Setting.parse("data.block_rows=4"), Setting.parse("model.eta=[0.5, 1e-3]")]
    config = resolve(RunConfig, [one, two], environ, settings[1:])
    assert (config.model.topics, config.learner.seed) == (41, 2)
    assert (config.learner.passes, config.data.block_rows) == (3, 3)
    assert config.model.eta == [0.5, 0.001]
    assert resolve(RunConfig, [one], environ, settings).data.block_rows == 4


def test_defaults_from_outside_the_schema_lie_lowest(write) -> None:
    default = [Setting("out", "runs/a", "default", literal=True)]
    assert resolve(RunConfig, [write(GOOD)], {}, [], default).out == Path("runs/a")
    assert resolve(RunConfig, [write("out: 2026-01-01\n" + GOOD)], {}, [], default).out == Path(
        "2026-01-01"
    )


def test_settings_may_come_in_any_order(write) -> None:
    settings = [
        Setting.parse(text)
        for text in ("data.train.path=x.txt", "data.train.kind=file", "learner.seed=3")
    ]
    results = set()
    for seed in range(6):
        random.Random(seed).shuffle(settings)
        results.add(to_yaml(resolve(RunConfig, [write(GOOD)], {}, settings)))
    assert len(results) == 1


def test_another_kind_replaces_the_fields_of_the_old_one() -> None:
    here = Origin("x")
    old = parse_text("{kind: python-docs, min_df: 3}", here)
    assert merge(old, parse_text("{kind: file}", here)).plain() == {"kind": "file"}
    assert merge(old, parse_text("{min_df: 4}", here)).plain()["kind"] == "python-docs"


@pytest.mark.parametrize(
    "text, value",
    [
        ("1e-3", 0.001),
        ("on", "on"),
        ("no", "no"),
        ("2026-01-01", "2026-01-01"),
        ("12:30", "12:30"),
        ("0o17", 15),
        ("true", True),
        ("", None),
        ("'3'", "3"),
        ("[1, {a: b}]", [1, {"a": "b"}]),
    ],
)
def test_values_are_yaml_1_2(text: str, value: object) -> None:
    assert parse_text(text, Origin("x")).plain() == value


def test_resolved_yaml_reads_back(write) -> None:
    config = resolve(RunConfig, [write(GOOD)], {}, [Setting.parse("model.eta=[0.1, 2.0]")])
    text = to_yaml(config)
    assert to_yaml(resolve(RunConfig, [write(text, "b.yaml")], {})) == text
    assert YAML(typ="safe").load(text)["learner"]["threads"] is None
    assert "threads: null" in text


def test_what_a_process_has_dumped_another_reads(write) -> None:
    """Texts and numbers that YAML would read otherwise arrive as they are."""
    text = GOOD + "distributed: {patience_seconds: .inf}\n"
    settings = [Setting("data.train", '{kind: file, path: "a/$${X}\\x7f.npz"}', "--set data.train")]
    config = resolve(RunConfig, [write(text)], {}, settings)
    dumped = values_of(config)
    assert dumped["data"]["train"]["path"] == "a/${X}\x7f.npz"
    found = of_values(RunConfig, dumped, "worker 0", own_classes)
    assert found.model_dump() == config.model_dump()
    assert found.model.model_fields_set == config.model.model_fields_set  # no more was given
    dumped["data"]["later"] = 1
    with pytest.raises(ConfigError, match="worker 0: data.later: unknown key"):
        of_values(RunConfig, dumped, "worker 0", own_classes)


def test_delivered_configurations_are_valid() -> None:
    paths = sorted(CONFIGS.glob("*.yaml"))
    assert paths
    for path in paths:
        head = re.sub(r"^# *", "", path.read_text().partition("\n\n")[0], flags=re.M)
        first = re.search(r"learn --config (?:.*\\\n)*.*", head)
        assert first, path
        (arguments,) = commands(first[0], "learn")  # with what a file for data of one's own lacks
        given = [Setting.parse(text) for option, text in pairwise(arguments) if option == "--set"]
        resolve(RunConfig, [path], {}, given)


# ---- mistakes ------------------------------------------------------------------------------------


def test_all_mistakes_at_once_with_places_and_nearest_names(write) -> None:
    text = """\
model:
  kind: lda
  topiks: 40
  inference: gibs
  alpha: [0.1, -1]
data:
  train: {kind: python_docs}
  block_rows: 0
learner:
  passes: "3"
  zzz: 1
"""
    found = problems([write(text)], {"LEARN__MODEL__ETAA": "3"}, [Setting.parse("learner.sed=3")])
    kinds = ", ".join(sorted(kind.model_fields["kind"].default for kind in get_args(Kind)))
    assert found[0] == "--set learner.sed: unknown key (did you mean 'seed'?)"
    assert found[1] == "LEARN__MODEL__ETAA: model.etaa: unknown key (did you mean 'eta'?)" or (
        found[-1] == "LEARN__MODEL__ETAA: model.etaa: unknown key (did you mean 'eta'?)"
    )
    places = [line for line in found if line.startswith("a.yaml")]
    assert places[0] == "a.yaml:3:3: model.topiks: unknown key (did you mean 'topics'?)"
    assert places[1].startswith("a.yaml:4:14: model.inference: must be 'vb'")
    assert places[1].endswith("not \"gibs\" (did you mean 'gibbs'?)")
    assert places[2:6] == [
        "a.yaml:5:16: model.alpha.1: must be above 0, not -1",
        f"a.yaml:7:17: data.train.kind: 'python_docs' is not one of: {kinds}"
        " (did you mean 'python-docs'?)",
        "a.yaml:8:15: data.block_rows: must be above 0 or 'auto', not 0",
        'a.yaml:10:11: learner.passes: must be an integer, not "3"',
    ]
    assert places[6].startswith(
        "a.yaml:11:3: learner.zzz: unknown key (valid here: device, device_blocks, devices, index,"
    )
    assert len(places) == 7


def test_thousands_of_millions_of_threads_are_refused(write) -> None:
    found = problems([write("model: {kind: glm}\nlearner: {threads: 2147483648}\n")], {}, [])
    assert any("learner.threads: must be at most 4096" in line for line in found)


def test_numbers_that_no_run_reaches_are_refused(write) -> None:
    text = "model: {kind: lda, topics: 100000000000}\nlearner: {passes: 99999999999999999999}\n"
    found = "\n".join(problems([write(text)], {}, []))
    assert "model.topics: must be below 2147483648" in found
    assert "learner.passes: must be at most 2147483647" in found


def test_a_kind_that_is_no_word_is_refused(write) -> None:
    text = "model: {kind: glm}\nlearner: {rates: 1}\noptimizer: {kind: {rate: 1}, rate: 0.1}\n"
    found = problems([write(text)], {}, [])
    assert any(line.startswith("a.yaml:2:11: learner.rates: unknown key") for line in found)
    assert any("optimizer.kind" in line for line in found)


@pytest.mark.parametrize(
    "text, expected",
    [
        ("", "a.yaml:1:1: the file is empty"),
        ("# only a comment\n", "a.yaml:1:1: the file is empty"),
        ("- 1\n", "a.yaml:1:1: expected a mapping of sections"),
        ("a: [1,\n", "a.yaml:2:1: while parsing a flow"),
        ("a: b: c\n", "a.yaml:1:5: mapping values are not allowed here"),
        ("\ta: 1\n", "a.yaml:1:1: while scanning"),
        ("a: 1\n--- \nb: 1\n", "a.yaml:2:1: expected a single document"),
        ("a: *b\n", "a.yaml:1:4: found undefined alias"),
        ("a: &a [*a]\n", "a.yaml:1:4: a value that contains itself"),
        ("a: !!python/none 1\n", "a.yaml:1:4: the tag"),
        ("a: !x 1\n", "a.yaml:1:4: the tag !x is not supported"),
        ("? [1, 2]\n: 3\n", "a.yaml:1:3: a key must be a plain word"),
        (b"a: \xff\n", "a.yaml:1:1: not a UTF-8 YAML text"),
        (b"a: \x00\n", "a.yaml:1:1: not a UTF-8 YAML text"),
        ("[" * 5000, "a.yaml:1:1: the values are nested too deeply"),
    ],
)
def test_files_that_are_no_configuration(write, text: str | bytes, expected: str) -> None:
    assert problems([write(text)], {})[0].startswith(expected)


@pytest.mark.parametrize(
    "text",
    ["9" * 5000, "-" + "9" * 5000, "0x" + "f" * 5000, "0b" + "1" * 2000, "!!int abc", "!!int ''",
     "!!float x", "!!bool 17", "!!null 3"],
)  # fmt: skip
def test_numbers_that_are_none_and_those_that_nothing_prints(text: str) -> None:
    try:
        value = parse_text(f"{{a: {text}}}", Origin("x")).plain()
    except ConfigError as error:
        assert "must be a YAML" in str(error) and len(str(error)) < 300
    else:
        assert value == {"a": None} and text == "!!null 3"


def test_repeated_keys(write) -> None:
    text = "model:\n  kind: lda\n  topics: 3\n  topics: 4\nmodel: {}\n"
    found = [line.split("first")[0] for line in problems([write(text)], {})]
    assert found == ["a.yaml:4:3: topics: repeated key, ", "a.yaml:5:1: model: repeated key, "]


def test_mistakes_of_several_files_come_together(write) -> None:
    found = problems([write("a: [\n"), write("", "b.yaml")], {"LEARN__X": "["})
    assert [line.split(":")[0] for line in found] == ["a.yaml", "b.yaml", "LEARN__X"]


def test_missing_sections_and_kinds(write) -> None:
    found = problems([write("model: {topics: 3}\n")], {})
    assert found == [
        "a.yaml:1:1: data: missing, and there is no default; --set data=VALUE gives one",
        f"a.yaml:1:1: model.kind: missing, choose one of: {', '.join(sorted(MODELS))}",
    ]


def test_numbers_are_not_guessed(write) -> None:
    text = GOOD + "learner: {passes: true, seed: 1.5, log_every_seconds: '3'}\n"
    assert [line.split(": ", 2)[1] for line in problems([write(text)], {})] == [
        "learner.passes",
        "learner.seed",
        "learner.log_every_seconds",
    ]


def test_a_setting_names_its_key_once_and_the_place_inside_its_value(write) -> None:
    settings = [Setting.parse("learner.tables=x"), Setting.parse("model={kind: lda, topics: -1}")]
    assert problems([write(GOOD)], {}, settings) == [
        "--set learner.tables: must be 'float32' or 'bfloat16', not \"x\"",
        "--set model: model.topics: must be at least 1, not -1",
    ]


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ("{tables: {disk: 60GiB}}", r"learner\.tables\.disk: unknown key"),
        ("{tables: {device: 1GiB, folder: a}}", r"learner\.tables: device=.*Leave out one of them"),
        ("{tables: {memory: much, folder: a}}", r"learner\.tables\.memory: must be bytes"),
        ("{tables: {memory: 1GiB}}", r"learner\.tables: memory=.*needs a folder.*tables\.folder"),
        ("{tables: {folder: a}, table_folder: a}", "table_folder: must be null.*tables.folder"),
    ],
)
def test_places_of_tables_are_checked(settings: str, text: str, write) -> None:
    (problem,) = problems([write(GOOD + f"learner: {settings}\n")], {})
    assert re.search(text, problem)


def test_words_near_a_valid_one_are_answered_with_it(write) -> None:
    text = GOOD + "distributed: {engine: mpii}\nevaluation: {metric: perplexty}\n"
    text += "learner: {memory_limit: {host: 8 bananas}}\n"
    assert problems([write(text)], {}) == [
        "a.yaml:6:23: distributed.engine: must be 'local', 'auto', 'mpi' or 'ray', not \"mpii\" "
        "(did you mean 'mpi'?)",
        "a.yaml:7:13: evaluation: metric=perplexty: unknown score (did you mean 'perplexity'?). "
        "Correct its name; of a score of your own, set better to lower or higher",
        'a.yaml:8:32: learner.memory_limit.host: must be bytes, such as 8GB, not "8 bananas"',
    ]


def test_the_explicit_loss_needs_ratings(write) -> None:
    text = "model: {kind: als}\ndata: {train: {kind: ratings, path: r.csv, rating: null}}\n"
    (found,) = problems([write(text)], {})
    assert found.startswith("a.yaml:1:1: data.train.rating=null: each record counts as 1, but")
    for more in ("model: {loss: implicit}\n", "data: {train: {duplicates: sum}}\n"):
        resolve(RunConfig, [write(text), write(more, "b.yaml")], {})


def test_variables_with_mistakes_are_named(write) -> None:
    path = write(GOOD)
    assert problems([path], {"LEARN__MODEL__TOPICS": "[1"})[0].startswith("LEARN__MODEL__TOPICS:")
    assert problems([path], {"LEARN____": "1"}) == ["LEARN____: the name has an empty part"]
    assert problems([path], {"LEARN__MODEL": "3"}) == [
        "LEARN__MODEL: model: must be a mapping, not 3"
    ]


@pytest.mark.parametrize(
    "text, told",
    [
        ("data: []", "a.yaml:2:7: data: must be a mapping"),
        ("data: {train: []}", "a.yaml:2:15: data.train: must be a mapping"),
        ("mixins: {kind: l1}", "a.yaml:2:9: mixins: must be a list"),
        ("learner: {checkpoint: 3}", "unknown key (did you mean the section 'checkpoint'?)"),
        ("learner: {out: m}", "unknown key (did you mean the key 'out' beside the sections?)"),
        ("learner: {table_folder: {a: 1}}", "learner.table_folder: must be a string or a list"),
    ],
)
def test_a_section_of_the_wrong_form_is_named(text: str, told: str, write) -> None:
    found = problems([write(f"model: {{kind: lda}}\n{text}\n")], {}, [])
    assert any(told in line for line in found), found


def test_a_null_character_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text('model: {kind: glm}\ndata: {train: {kind: file, path: "a\\0.npz"}}\n')
    with pytest.raises(ConfigError, match=r"run.yaml:2:34: must have no null character"):
        parse_file(file)


@pytest.mark.parametrize("text", ["a", "=1", "a..b=1", ".a=1", "a.=1"])
def test_settings_of_a_wrong_form(text: str) -> None:
    with pytest.raises(ValueError, match="section.key=value"):
        Setting.parse(text)


def test_a_missing_file_is_no_configuration_mistake(tmp_path: Path, write) -> None:
    write(GOOD, "lda.yaml")
    with pytest.raises(FileNotFoundError, match="did you mean 'lda.yaml'"):
        resolve(RunConfig, [tmp_path / "lad.yaml"], {})
    with pytest.raises(IsADirectoryError, match="is a folder; name a configuration file"):
        resolve(RunConfig, [tmp_path], {})


# ---- aliases -------------------------------------------------------------------------------------


def test_a_metric_needs_data_that_it_is_a_score_of(write) -> None:
    watched = "evaluation: {metric: perplexity}\n"
    (found,) = problems([write(GOOD + watched)], {})
    assert found.startswith("a.yaml:1:1: evaluation.metric=perplexity: needs held-out data")
    held_out = "  eval: {kind: holdout, share: 0.1}\n"
    resolve(RunConfig, [write(GOOD + held_out + watched)], {})


def bomb(levels: int, leaf: str = "x") -> str:
    """YAML whose aliases make 9**levels values of it."""
    lines = [f"a0: &a0 [{', '.join([leaf] * 9)}]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, levels)]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(bomb(12), id="lists"),
        pytest.param(bomb(12).replace("[", "{k: [").replace("]", "]}"), id="mappings"),
        pytest.param(f"a: &a {'x' * 100_000}\nb: [{', '.join(['*a'] * 20)}]\n", id="texts"),
    ],
)
def test_aliases_that_multiply(write, text: str) -> None:
    (found,) = problems([write(text)], {})
    assert re.match(r"a\.yaml:\d+:\d+: the aliases \(\*NAME\) of this text must add", found)


def test_aliases_that_multiply_outside_files(write) -> None:
    value = f"[&a {'x' * 100_000}, {', '.join(['*a'] * 20)}]"
    (found,) = problems([write(GOOD)], {}, [Setting("data.train", value, "--set data.train")])
    assert found.startswith("--set data.train: the aliases")


def test_long_texts_without_aliases(write) -> None:
    path = write(GOOD + "out: " + "x" * 2_000_000)
    assert len(str(resolve(RunConfig, [path], {}).out)) == 2_000_000


@pytest.mark.parametrize(
    "features, told",
    [
        ("[{dense: x, with: 3}]", ["features.0.with: unknown key (did you mean 'width'?)"]),
        ("{indices: x, value: y}", ["features.value: unknown key (did you mean 'values'?)"]),
        (
            "[{indices: x, valuess: y}, {dense: [3]}]",
            [
                "features.0.valuess: unknown key (did you mean 'values'?)",
                "features.1.dense: must be a string",
            ],
        ),
        ("3", ["features: must be a list or a mapping, not 3"]),
        (
            "[{column: x}]",
            [
                "features.0.dense: missing, and there is no default; "
                "--set data.train.features.0.dense=VALUE gives one",
                "features.0.indices: missing, and there is no default; "
                "--set data.train.features.0.indices=VALUE gives one",
                "features.0.column: unknown key (valid here: dense, indices, size, values, width)",
            ],
        ),
    ],
)
def test_of_several_forms_the_likeliest_is_explained(
    tmp_path: Path, features: str, told: list[str]
) -> None:
    file = tmp_path / "a.yaml"
    train = f"{{kind: parquet, path: a.parquet, features: {features}}}"
    file.write_text(f"model: {{kind: glm}}\ndata:\n  train: {train}\nout: a\n")
    with pytest.raises(ConfigError) as caught:
        resolve(RunConfig, [file], {})
    found = [line.split("data.train.", 1)[1] for line in caught.value.problems]
    assert found == told
