"""Scoring while training: when, what follows from it, and that training does not notice."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import blocklearn as bl
from blocklearn.fields import FieldError
from blocklearn.learner.errors import ConfigError
from blocklearn.learner.training.settings.evaluation import HIGHER, LOWER, Evaluation, Evaluator
from blocklearn.learner.training.settings.progress import Best, Progress
from blocklearn.models import GLM, LDA
from blocklearn.models.glm.links import LINKS
from blocklearn.models.ranking_metrics import METRICS
from blocklearn.models.topic_quality import QUALITY
from blocklearn.optimizers import SGD, Adam
from tests.learner.test_resume import labelled
from tests.support.corpora import planted
from tests.support.stops import differences, outcome


class Events(bl.Hook):
    """Where the model was scored, and where it was better than ever."""

    def __init__(self) -> None:
        self.evaluated_at: list[Any] = []
        self.improved_at: list[Any] = []
        self.ended_at: Any = None

    def evaluated(self, learner: Any, progress: Any) -> None:
        self.evaluated_at.append(progress.position)

    def improved(self, learner: Any, progress: Any) -> None:
        self.improved_at.append(progress.position)
        assert progress.best.position == progress.position

    def end(self, learner: Any, progress: Any) -> None:
        self.ended_at = progress.position


def scored(values: list[float], settings: Evaluation, blocks: int = 2, passes: int = 4) -> Any:
    """What an evaluator does of these scores: positions of evaluations, and the progress."""
    progress, heard, scores = Progress(passes, blocks), [], iter(values)

    def tell(event: str) -> None:
        heard.append((event, progress.position))

    evaluator = Evaluator(settings, progress, lambda: {"loss": next(scores)}, tell)
    for done in range(blocks * passes):
        progress.pass_, progress.block = divmod(done, blocks)
        progress.block, progress.closed = progress.block + 1, False
        evaluator.look()
        if progress.block == blocks:
            progress.closed = True
            evaluator.look(last=progress.pass_ + 1 == passes)
        if progress.stop:
            break
    return heard, progress


def test_when_the_eval_data_are_scored() -> None:
    def at(**settings: Any) -> Any:
        heard, _ = scored([0.0] * 20, Evaluation(**settings))
        return [position for _, position in heard]

    assert at() == [(1, 0), (2, 0), (3, 0), (4, 0)]
    assert at(every_passes=3) == [(3, 0), (4, 0)]
    assert at(every_passes=None) == [(4, 0)]
    assert at(every_passes=None, every_blocks=3) == [(1, 1), (3, 0), (4, 0)]
    assert at(every_passes=2, every_blocks=5) == [(2, 0), (2, 1), (4, 0)]
    assert len(at(every_seconds=1e-9)) == 8


def test_patience_ends_training() -> None:
    settings = Evaluation(metric="loss", better="lower", patience=2, every_blocks=1)
    heard, progress = scored([5.0, 4.0, math.nan, 3.0, 3.0, 3.5, 0.0], settings)
    improved = [position for event, position in heard if event == "improved"]
    assert improved == [(0, 1), (1, 0), (2, 0)]
    assert progress.position == (3, 0) and progress.stop
    assert progress.best == Best("loss", 3.0, 2, 0, waited=2)


@pytest.mark.parametrize(
    "metric, better, lower",
    [
        ("perplexity", None, True),
        ("log_loss/spam", None, True),
        ("auc", None, False),
        ("ndcg@10", None, False),
        ("elbo_per_token", None, False),
        ("novelty", "higher", False),
        ("auc", "higher", False),
    ],
)
def test_better_is_known_by_the_name(metric: str, better: Any, lower: bool) -> None:
    settings = Evaluation(metric=metric, better=better)
    assert settings.improves(1.0, 2.0) is lower and settings.improves(2.0, 1.0) is not lower
    assert not settings.improves(1.0, 1.0)
    assert not settings.improves(math.nan, 1.0) and settings.improves(1.0, math.nan)


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"patience": 3}, "patience needs a metric to watch"),
        (
            {"metric": "novelty"},
            "metric=novelty: unknown score. Correct its name; of a score of your own, set better",
        ),
        (
            {"metric": "log_loss/spam", "better": "higher"},
            "better=higher: log_loss/spam is better when it is lower. Leave out better; if the",
        ),
        ({"every_blocks": 0}, "above 0"),
        ({"metrics": "auc"}, "metrics"),
    ],
)
def test_settings_that_make_no_sense(settings: Any, message: str) -> None:
    with pytest.raises(FieldError, match=message):
        Evaluation(**settings)


def test_a_score_that_is_not_there() -> None:
    X, _ = planted(60)
    watched = Evaluation(metric="auc")
    with pytest.raises(ValueError, match="Pass eval=X"):
        bl.Learner(LDA(topics=3), X, evaluation=watched)
    with pytest.raises(ConfigError, match="'auc', but the scores are perplexity, elbo_per_token"):
        learner = bl.Learner(LDA(topics=3), X, X, evaluation=watched)
        learner.fit()
    assert learner.progress.rows == 0  # found before training
    with pytest.raises(ConfigError, match="'auc', but the scores are perplexity"):
        bl.Learner(LDA(topics=3), X, X, evaluation=watched).trial(1)  # as for `--dry-run`
    bl.Learner(LDA(topics=3), X, X, evaluation="perplexity").trial(1)


def test_scores_of_hooks_can_be_watched() -> None:
    """Those of lists, and others that a hook names."""

    class Novelty(bl.Hook):
        adds = ("novelty",)

        def evaluated(self, learner: Any, progress: Any) -> None:
            progress.scores["novelty"] = float(progress.pass_)

    ratings = sp.random(30, 20, 0.3, format="csr", random_state=0, dtype=np.float32)
    hooks = [bl.RankingEvaluation(top=5), Novelty()]
    for watched in (Evaluation(metric="ndcg@5"), Evaluation(metric="novelty", better="higher")):
        model = bl.models.ALS(rank=2, reg=1.0)
        learner = bl.Learner(model, ratings, eval=0.3, hooks=hooks, passes=2, evaluation=watched)
        learner.trial(1)
        best = learner.fit().progress.best
        assert best is not None and best.metric == watched.metric
    with pytest.raises(ConfigError, match=r"'ndcg@9', but the scores are rmse, .*, auc@5, novelty"):
        bl.Learner(model, ratings, eval=0.3, hooks=hooks, evaluation="ndcg@9").fit()


@pytest.mark.parametrize(
    "optimizer, dense, replicas",
    [
        (SGD(rate=0.3, momentum=0.5), False, 3),
        (Adam(rate=0.05, average_from=2), True, 3),
        (SGD(rate=0.1, step_per="row"), False, 1),
    ],
    ids=["rests", "averages", "rows"],
)
def test_training_does_not_notice(optimizer: Any, dense: bool, replicas: int) -> None:
    model, (X, Y) = GLM(l1=1e-3, l2=1e-2), labelled()
    data = (X.toarray() if dense else X, Y)

    def learner(evaluation: Evaluation) -> Any:
        return bl.Learner(
            model, data, data, passes=2, block_rows=32, optimizer=optimizer, replicas=replicas,
            sync_every=1, sync_weight=0.6, evaluation=evaluation,
        ).fit()  # fmt: skip

    often = learner(Evaluation(every_blocks=1, every_seconds=1e-6))
    rarely = learner(Evaluation(every_passes=None))
    assert differences(outcome(often), outcome(rarely)) == []
    assert often.progress.scores == rarely.progress.scores
    assert often.progress.allocations_after_warmup == 0


def test_replicas_that_differ_are_scored_as_the_model_that_they_will_be() -> None:
    """In the middle of a pass: as if they were merged there for good."""
    X, Y = labelled()
    found = []
    for weight in (0.5, 1.0):

        class Scores(bl.Hook):
            seen: Any = None

            def evaluated(self, learner: Any, progress: Any) -> None:
                self.seen = self.seen or (dict(progress.scores), learner.parameter("W"))

        hook = Scores()
        bl.Learner(
            GLM(), (X, Y), (X, Y), passes=1, block_rows=32, optimizer=SGD(rate=0.3), replicas=2,
            sync_every=1, sync_weight=weight, evaluation=Evaluation(every_blocks=2), hooks=[hook],
        ).fit()  # fmt: skip
        found.append(hook.seen)
    assert found[0][0] == pytest.approx(found[1][0])  # replicas that differ have the same mean
    np.testing.assert_allclose(found[0][1], found[1][1], atol=1e-6)


def overfitting() -> Any:
    """A learner whose held-out loss falls first, and rises when it knows the noise."""
    rng = np.random.default_rng(2)
    X = rng.standard_normal((120, 40)).astype(np.float32)
    Y = (X[:, :3].sum(1, keepdims=True) + rng.standard_normal((120, 1)) > 0).astype(np.float32)

    def learner(**settings: Any) -> tuple[bl.Learner, Events]:
        events = Events()
        made = bl.Learner(
            GLM(), (X[:80], Y[:80]), (X[80:], Y[80:]), passes=30, block_rows=20,
            optimizer=SGD(rate=0.3), hooks=[events], evaluation=Evaluation(**settings),
        )  # fmt: skip
        return made, events

    return learner


def test_the_best_model_is_what_stays() -> None:
    make = overfitting()
    curve: list[Any] = []

    class Watch(bl.Hook):
        def evaluated(self, learner: Any, progress: Any) -> None:
            curve.append((progress.scores["log_loss"], progress.position, learner.parameter("W")))

    whole, _ = make()
    whole.hooks.append(Watch())
    whole.fit()
    loss, position, W = min(curve, key=lambda entry: entry[0])
    assert (1, 0) < position < (20, 0) and loss < 0.9 * curve[-1][0]

    best, events = make(metric="log_loss", patience=4)
    best.fit()
    assert events.improved_at[-1] == position and events.ended_at == (position[0] + 4, 0)
    assert best.progress.position == position and best.progress.scores["log_loss"] == loss
    np.testing.assert_array_equal(best.parameter("W"), W)
    data: Any = best.eval
    assert best.evaluate(data)["log_loss"] == loss

    last, events = make(metric="log_loss", patience=4, keep_best=False)
    last.fit()
    assert last.progress.position == events.ended_at == (position[0] + 4, 0)
    np.testing.assert_array_equal(last.parameter("W"), curve[position[0] + 3][2])


def test_stopping_in_the_middle_of_a_pass_and_going_on_from_there() -> None:
    make = overfitting()
    settings: Any = {"metric": "log_loss", "every_blocks": 1, "keep_best": False}
    first, events = make(**settings, patience=3)
    first.fit()
    assert events.ended_at == first.progress.position and events.ended_at[1] > 0
    assert first.progress.stop

    again, heard = make(**settings, patience=3)
    again.restore(first.state())
    assert again.fit().progress.position == events.ended_at  # there is nothing left to do
    assert heard.evaluated_at == []

    longer, heard = make(**settings, patience=1000)
    longer.restore(first.state())
    whole, _ = make(**settings)
    assert differences(outcome(longer.fit()), outcome(whole.fit())) == []


def test_patience_goes_on_counting_after_a_stop() -> None:
    make = overfitting()
    settings: Any = {"metric": "log_loss", "patience": 6, "keep_best": False}

    class Stop(bl.Hook):
        def pass_end(self, learner: Any, progress: Any) -> None:
            if progress.best.waited == 2:
                raise KeyboardInterrupt

    whole, events = make(**settings)
    whole.fit()
    first, _ = make(**settings)
    first.hooks.append(Stop())
    with pytest.raises(KeyboardInterrupt):
        first.fit()
    second, heard = make(**settings)
    second.restore(first.state())
    second.fit()
    assert heard.ended_at == events.ended_at and second.progress.best == whole.progress.best
    assert differences(outcome(second), outcome(whole)) == []


def test_scores_of_the_package_have_a_better_direction() -> None:
    names = {link.metric for link in LINKS.values()} | {*METRICS, "auc", *QUALITY}
    assert names <= LOWER | HIGHER and not LOWER & HIGHER
