"""Words of other libraries are answered with the names here: Python, configuration, command."""

import re
from inspect import signature
from typing import Any

import numpy as np
import pytest

import blocklearn as bl
from blocklearn.answers import METHODS, MODELS, TRAINING
from blocklearn.datasources import FileData, MatrixSource
from blocklearn.learner.command_line.cli import main
from blocklearn.learner.configuration.config import RunConfig
from blocklearn.learner.configuration.kinds import GROUPS as GROUPS_OF_KINDS
from blocklearn.learner.configuration.yaml_config import Setting, resolve
from blocklearn.learner.errors import ConfigError
from blocklearn.learner.runs.inputs import open_data
from blocklearn.synonyms import GROUPS, meant, nearest
from tests.support.beside import CONFIGS

X = np.eye(4, dtype=np.float32)


@pytest.mark.parametrize(
    "word, name",
    [
        ("epochs", "passes"),
        ("batch_size", "block_rows"),
        ("n_jobs", "threads"),
        ("random_state", "seed"),
        ("callbacks", "hooks"),
        ("validation_data", "eval"),
        ("pases", "passes"),  # a slip of the fingers, no synonym
        ("learning_rate", "optimizer=blocklearn.optimizers.SGD(rate=...)"),
        ("n_topics", "blocklearn.models.LDA(topics=...)"),
        ("early_stopping", "evaluation"),
        ("checkpoint_dir", "checkpoint"),
        ("save_steps", "every_blocks"),
    ],
)
def test_a_learner_names_the_parameter_that_is_meant(word: str, name: str) -> None:
    with pytest.raises(TypeError) as caught:
        bl.Learner(bl.models.LDA(topics=2), X, **{word: 3})
    assert str(caught.value) == f"Learner: {word}=3: unknown parameter; did you mean {name}?"


@pytest.mark.parametrize("word, name", [("text", "file"), ("csv", "table"), ("docs", "file")])
def test_a_kind_of_data_is_the_one_that_reads_such_files(word: str, name: str) -> None:
    assert nearest(word, GROUPS_OF_KINDS["data"].kinds) == name


def test_a_word_without_meaning_lists_the_parameters() -> None:
    with pytest.raises(TypeError, match=r"Learner: zzz=3: unknown parameter; the .* are model, t"):
        bl.Learner(bl.models.LDA(topics=2), X, zzz=3)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    "estimator, word, name",
    [
        ("LatentDirichletAllocation", "n_topics", "n_components"),
        ("LatentDirichletAllocation", "num_topics", "n_components"),
        ("LatentDirichletAllocation", "chunksize", "batch_size"),
        ("ALS", "factors", "n_components"),
        ("ALS", "iterations", "max_iter"),
        ("NMF", "k", "n_components"),
        ("GLMClassifier", "epochs", "max_iter"),
        ("GLMRegressor", "seed", "random_state"),
    ],
)
def test_an_estimator_names_the_parameter_that_is_meant(
    estimator: str, word: str, name: str
) -> None:
    with pytest.raises(TypeError, match=rf"{estimator}: {word}=3: .* did you mean {name}\?"):
        getattr(bl, estimator)(**{word: 3})


@pytest.mark.parametrize(
    "made, word, name",
    [
        (bl.models.LDA, "n_components", "topics"),
        (bl.models.ALS, "factors", "rank"),
        (bl.models.ALS, "regularization", "reg"),
        (bl.models.GLM, "fit_intercept", "intercept"),
        (bl.optimizers.Adam, "lr", "rate"),
        (bl.models.GLM, "penalty", "l2"),
        (bl.models.GLM, "learning_rate", "optimizer=blocklearn.optimizers.SGD(rate=...)"),
        (bl.models.GLM, "optimizer", "blocklearn.Learner(optimizer=...)"),
        (bl.models.LDA, "max_iter", "blocklearn.Learner(passes=...)"),
        (bl.models.LDA, "topcis", "topics"),  # a slip of the fingers
        (bl.mixins.L2, "wieght", "weight"),
        (bl.Evaluation, "early_stopping_rounds", "patience"),
        (FileData, "text_column", "text"),
    ],
)
def test_models_and_others_name_the_field_that_is_meant(made: Any, word: str, name: str) -> None:
    with pytest.raises(ValueError) as caught:
        made(**{word: 3})
    first = str(caught.value).splitlines()[0]
    assert first == f"{made.__name__}: {word}=3: unknown parameter; did you mean {name}?"


@pytest.mark.parametrize(
    "call, told",
    [
        (lambda: bl.models.GLM(C=1.0), r"GLM: C=1.0: unknown .* mean l2\? It is 1 / \(C \* rows\)"),
        (lambda: bl.models.GLM(zzz=1), "GLM: zzz=1: unknown parameter; the parameters are targets"),
        (lambda: bl.models.LDA(10), r"LDA: 10: must have a name. Write LDA\(topics=10\)"),
        (lambda: bl.models.LDA(topics=0), "LDA: topics=0: must be at least 1"),
        (lambda: bl.models.LDA(topics="x"), "LDA: topics='x': must be an integer"),
        (lambda: bl.mixins.L2(weight=-1), "L2: weight=-1: must be at least 0 or a list."),
        (lambda: bl.models.ALS(biases="x"), "ALS: biases='x': must be true or false."),
        (lambda: bl.models.GLM(link="logit"), "link='logit': must be .* Did you mean 'logistic'"),
        (lambda: bl.models.GLM(targets=[{"column": 0, "lr": 1}]), "targets.0.lr=1: .* mean rate"),
        (lambda: bl.models.LDA(alpha="x"), "alpha='x': must be a number, a list or 'auto'.$"),
        (lambda: setattr(bl.models.LDA(), "topics", 0), "LDA: topics=0: must be at least"),
        (lambda: bl.Evaluation(patience=3), "Evaluation: patience needs a metric"),
        (lambda: MatrixSource(X, batch_size=3), "MatrixSource: batch_size=3: .* mean block_rows"),
        (lambda: bl.Learner("lda", X).fit(epochs=3), "Learner.fit: epochs=3: .* mean passes"),
        (lambda: bl.Learner("glm", X, y=X), r"Learner: y=<ndarray>: .* train=\(X, Y\)"),
        (lambda: bl.Learner("lda", X).fit(passes=3), "Learner.fit: passes=3: .* with new data"),
        (lambda: bl.recommend(None, N=3), "recommend: N=3: unknown parameter; did you mean n"),
        (lambda: bl.Learner(3, X), "Learner: model=3: must be a model, its name, or a mapping"),
        (lambda: bl.Learner("lda", X, optimizer=0.1), "optimizer=0.1: must be an optimizer, its"),
        (lambda: bl.Learner("lda", X, hooks=print), "hooks=<built-in .*: must be objects of a"),
        (lambda: bl.Learner("lda", X, hooks=bl.Hook), "hooks=<class .*: must be objects of a"),
        (lambda: bl.Learner("lda", X, evaluation=3), "evaluation=3: must be an Evaluation, or"),
        (lambda: bl.Learner("lda", X, passes=2.5), "passes=2.5: must be a whole number, and"),
        (lambda: bl.Learner("lda", X, seed=-1), "seed=-1: must be a whole number, and at least 0"),
        (lambda: bl.Learner("lda", X, device_tables=1.5), "device_tables=1.5: .* Write None for"),
        (lambda: bl.Learner("lda", X, threads=True), "threads=True: must .* Write threads=None"),
        (lambda: bl.Learner("lda", {"a": [1]}), "X is a dict: must be .*Write pandas.DataFrame"),
        (lambda: bl.Learner("lda", X).topics(), "nothing is trained"),
        (lambda: bl.Learner("lda", X, passes=1).fit().topics(0), "top=0: must be at least 1"),
        (lambda: bl.Learner("lda", X).fit().topics(relevance=2), "relevance=2: must be from 0 to"),
        (lambda: bl.Learner("nmf", X, mixins="l3"), "mixins='l3': must be one of"),
    ],
)
def test_what_newcomers_write_first_is_answered(call: Any, told: str) -> None:
    with pytest.raises((TypeError, ValueError), match=told):
        call()


@pytest.mark.parametrize(
    "owner, name, told",
    [
        (bl, "LdaModel", "did you mean blocklearn.LatentDirichletAllocation?"),
        (bl, "Adam", "did you mean blocklearn.optimizers.Adam?"),
        (bl, "MatrixSource", "did you mean blocklearn.datasources.MatrixSource?"),
        (bl, "Learnr", "did you mean blocklearn.Learner?"),
        (bl.Learner("lda", X), "save", "did you mean blocklearn.save(learner, FOLDER)?"),
        (bl.Learner("lda", X), "transform", "did you mean learner.predict(X)?"),
        (bl.Learner("lda", X), "zzz", "'Learner' object has no attribute 'zzz'"),
    ],
)
def test_names_that_are_missing_are_answered(owner: Any, name: str, told: str) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(owner, name)
    assert str(caught.value).endswith(told)
    assert not hasattr(owner, name)


def test_what_answers_name_exists() -> None:
    """`learner.predict(X)`, `blocklearn.save(learner, FOLDER)`."""
    known = {"learner": bl.Learner("lda", X), "blocklearn": bl}
    for place in METHODS:
        owner, name = place.split("(")[0].split(".", 1)
        first, *rest = name.split(".")
        assert hasattr(known[owner], first), place
        assert not rest or hasattr(getattr(known[owner], first), rest[0]), place
    for place in bl._ELSEWHERE:  # type: ignore[attr-defined]
        assert hasattr(bl, place), place


def test_each_place_of_a_parameter_has_it() -> None:
    """What the hints say works: `blocklearn.Learner(passes=...)`."""
    for place, names in (TRAINING | MODELS).items():
        made = re.search(r"blocklearn\.[\w.]+(?=\()", place)
        assert made is not None
        owner: Any = bl
        for part in made[0].split(".")[1:]:
            owner = getattr(owner, part)
        known = set(signature(owner).parameters) | set(getattr(owner, "model_fields", ()))
        if "{}=" in place:
            assert set(names.split()) <= known, place


@pytest.mark.parametrize(
    "setting, name",
    [
        ("learner.epochs=3", "passes"),
        ("learner.n_jobs=3", "threads"),
        ("learner.batch_size=3", "data.block_rows"),
        ("learner.learning_rate=0.1", "optimizer.rate"),
        ("batch_size=3", "data.block_rows"),
        ("model.n_topics=3", "topics"),
        ("learner.n_topics=3", "model.topics"),
        ("model.kind=matrix_factorization", "als"),
        ("optimizer={kind: adagrad, lr: 1}", "rate"),
        ("learner.pases=3", "passes"),
    ],
)
def test_a_configuration_names_the_key_that_is_meant(setting: str, name: str) -> None:
    with pytest.raises(ConfigError) as caught:
        resolve(RunConfig, [CONFIGS / "lda.yaml"], {}, [Setting.parse(setting)])
    assert f"(did you mean '{name}'?)" in str(caught.value)


@pytest.mark.parametrize(
    "line, answer",
    [
        ("fit --config a.yaml", "fit: did you mean `learn train`?"),
        ("transform RUN", "transform: did you mean `learn predict`?"),
        ("--epochs 3", "--epochs: did you mean --set learner.passes=VALUE?"),
        ("train --passes=3", "--passes: did you mean --set learner.passes=VALUE?"),
        ("train --batch-size 3", "--batch-size: did you mean --set data.block_rows=VALUE?"),
        ("train --model lda", "--model: did you mean --set model.kind=VALUE?"),
        ("topics --model RUN", "--model: did you mean the argument RUN? `learn topics RUN`"),
        ("similar RUN --item a.txt", "--item: did you mean --items?"),
        ("recommend RUN --N 3", "--N: did you mean --top?"),
        ("glm.yaml", "glm.yaml: did you mean `learn --config glm.yaml`?"),
        ("train glm.yaml", "glm.yaml: did you mean `learn --config glm.yaml`?"),
    ],
)
def test_the_command_names_the_word_that_is_meant(
    line: str, answer: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        main(line.split())
    assert stop.value.code == 2
    assert capsys.readouterr().err.splitlines()[-1] == answer


def test_right_words_get_no_hint(capsys: pytest.CaptureFixture[str]) -> None:
    """Values, what follows `--`, and options that exist are no guesses."""
    for line in ["train --config a --threads x", "topics RUN --top x -- --model"]:
        with pytest.raises(SystemExit):
            main(line.split())
        assert "did you mean" not in capsys.readouterr().err


def test_a_name_means_itself_and_order_decides() -> None:
    for group in GROUPS:
        for word in group:
            assert meant(word, [word]) == word
            assert meant(word, group[:1]) == group[0]
    assert meant("k", ["topics", "rank"]) == "topics"
    assert meant("passes", ["seed"]) is None and nearest("sed", ["seed"]) == "seed"


@pytest.mark.parametrize("shuffle", [True, False, "blocks"])
def test_rows_are_shuffled_as_configured(shuffle: bool | str) -> None:
    """The order of rows, of blocks, or none reaches the source that is opened."""
    told = [f"data.shuffle={str(shuffle).lower()}", "data.eval=null"]
    settings = [Setting.parse(one) for one in told]
    train, _ = open_data(resolve(RunConfig, [CONFIGS / "als.yaml"], {}, settings))
    assert f"shuffle={shuffle!r}" in repr(train)
