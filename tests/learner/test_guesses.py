"""Words of other libraries are answered with the names here: Python, configuration, command."""

from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

import blocklearn as bl
from blocklearn.learner.command_line.cli import main
from blocklearn.learner.configuration.config import RunConfig
from blocklearn.learner.configuration.yaml_config import Setting, resolve
from blocklearn.learner.errors import ConfigError
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
        ("learning_rate", "rate of optimizer: optimizer=blocklearn.optimizers.SGD(rate=...)"),
        ("n_topics", "topics of model: model=blocklearn.models.NAME(topics=...)"),
        ("early_stopping", "evaluation"),
        ("checkpoint", "hooks=[blocklearn.Checkpoints(FOLDER)]"),
        ("checkpoint_dir", "hooks=[blocklearn.Checkpoints(FOLDER)]"),
    ],
)
def test_a_learner_names_the_parameter_that_is_meant(word: str, name: str) -> None:
    with pytest.raises(TypeError) as caught:
        bl.Learner(bl.models.LDA(topics=2), X, **{word: 3})
    assert str(caught.value) == f"Learner: {word}=3: unknown parameter; did you mean {name}?"


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
        (bl.Evaluation, "early_stopping_rounds", "patience"),
    ],
)
def test_models_and_optimizers_name_the_field_that_is_meant(
    made: Any, word: str, name: str
) -> None:
    with pytest.raises(ValidationError, match=f"unknown; did you mean '{name}'"):
        made(**{word: 3})


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
