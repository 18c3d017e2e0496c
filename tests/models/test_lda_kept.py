"""LDA whose assignments of tokens to topics are kept between passes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import blocklearn as bl
from blocklearn.datasources import HostBlock, IterableSource, MatrixSource
from blocklearn.datasources.blocks import write_blocks
from blocklearn.learner.command_line.cli import main
from blocklearn.learner.training.inputs.counting import count_tokens
from blocklearn.matcache.operations import kept_topics as sampling
from blocklearn.mixins import CosineSimilarity
from blocklearn.models import LDA
from blocklearn.models.errors import ModelConfigError
from blocklearn.models.lda import kept_topics
from blocklearn.models.lda import settings as lda_settings
from blocklearn.models.lda.limits import MANY_TOKENS, SWEEPS
from blocklearn.optimizers import StreamingAverage
from tests.support.model_variants import counts
from tests.support.often import rarely
from tests.support.stops import check_stops

TOPICS = 3  # as the contract's variant, which shares the kernel
SMALL: dict[str, Any] = {
    "topics": TOPICS, "warm_up": 1, "inner_iterations": 3, "fresh_passes": 0, "sweeps": 2,
}  # fmt: skip


def learner(X: Any = None, **options: Any) -> bl.Learner:
    """A learner of kept assignments, in blocks of 40 rows, the last of which is not full."""
    model = {name: options.pop(name) for name in list(options) if name in LDA.model_fields}
    own = SMALL | {"assignments": "kept"} | model
    given = {"passes": 4, "block_rows": 40, "threads": 1, "seed": 3, "verbose": False, **options}
    return bl.Learner(LDA(**own), counts() if X is None else X, **given)


def counted(X: Any, topics: Any) -> Any:
    """Tokens of each word in each topic, without those that have none."""
    words = np.repeat(X.indices, X.data.astype(int))
    found, known = np.zeros((X.shape[1], TOPICS)), topics < TOPICS
    np.add.at(found, (words[known], topics[known].astype(int)), 1)
    return found


@pytest.fixture(params=["all topics", "lists"])
def sampler(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each of the two samplers, for few topics."""
    name: str = request.param
    monkeypatch.setattr(
        kept_topics, "MANY", dict.fromkeys(kept_topics.MANY, 1 if name == "lists" else TOPICS + 1)
    )
    return name


def test_counts_are_exact_after_every_block_and_lambda_is_their_mean(sampler: str) -> None:
    X, passes = counts(), []

    class Look(bl.Hook):
        def block(self, learner: Any, progress: Any) -> None:
            tensors = learner.state().tensors
            found = counted(X, tensors["assignments"][:, 0])
            np.testing.assert_array_equal(tensors["counts"], found)
            np.testing.assert_array_equal(tensors["totals"], found.sum(axis=0, keepdims=True))

        def pass_end(self, learner: Any, progress: Any) -> None:
            passes.append(learner.parameter("counts").astype(np.float64))

    lam = learner(hooks=[Look()], passes=5).fit().parameter("lambda")
    assert not passes[0].any(), "the first pass is one of cvb0"
    assert passes[1].sum() == X.sum()
    mean = np.zeros_like(passes[0])
    for t, found in enumerate(passes[1:], 1):
        mean += min(1.0, 3.0 / (2.0 + t)) * (found + 0.05 - mean)
    np.testing.assert_allclose(lam, mean, rtol=1e-5)


def test_the_mean_forgets_early_passes_where_none_came_before(sampler: str) -> None:
    passes: list[Any] = []

    class Look(bl.Hook):
        def pass_end(self, learner: Any, progress: Any) -> None:
            passes.append(learner.parameter("counts").astype(np.float64))

    lam = learner(hooks=[Look()], passes=5, warm_up=0, fresh_passes=0).fit().parameter("lambda")
    mean = np.zeros_like(passes[0])
    for t, found in enumerate(passes, 1):
        weight = 2.0 + 80.0 / (10.0 + t)
        mean += (weight + 1.0) / (weight + t) * (found + 0.05 - mean)
    np.testing.assert_allclose(lam, mean, rtol=1e-5)


def test_topics_of_skewed_data_do_not_collapse(sampler: str) -> None:
    """Words of three groups, of which documents have 75, 20 and 5 %.

    Chains that start afresh in each pass end with three copies of that mixture.
    """
    rng = np.random.default_rng(0)
    X = np.zeros((300, 15), np.float32)
    for row in X:
        for topic in rng.choice(3, 20, p=rng.dirichlet([0.75, 0.2, 0.05])):
            row[5 * topic + rng.integers(5)] += 1
    found = learner(sp.csr_array(X), passes=60).fit().parameter("lambda")
    groups = (found / found.sum(axis=0)).reshape(3, 5, 3).sum(axis=1)  # of each topic
    assert groups[0].max() > 0.9
    assert groups[1].max() > 0.5


def test_fresh_passes_come_before(sampler: str) -> None:
    """They have the bits of a run that keeps nothing. Then each token gets a topic."""
    before, after = (learner(fresh_passes=2, passes=passes).fit() for passes in (3, 5))
    fresh = learner(assignments="fresh", passes=3).fit()
    np.testing.assert_array_equal(before.parameter("lambda"), fresh.parameter("lambda"))
    assert not before.parameter("counts").any()
    assert "drawn afresh in all passes, 3: they" in before.model.notes[0]
    assert len(after.model.notes) == 1
    assert "are kept from pass 4 on, and each later pass makes 3" in after.model.notes[0]
    assert after.parameter("counts").sum() == counts().sum()
    total = counts().sum() + 0.05 * TOPICS * 20
    assert after.parameter("lambda").sum() == pytest.approx(total, rel=0.01)


def test_words_of_large_counts_need_no_table_in_memory(tmp_path: Path) -> None:
    """A block draws them often, but has few of the words."""
    X = sp.random_array((40, 90), density=0.02, rng=np.random.default_rng(0), format="csr")
    X.data = np.ceil(200.0 * X.data).astype(np.float32)
    found = [
        learner(X.astype(np.float32), block_rows=10, table_folder=folder).fit()
        for folder in (None, tmp_path)
    ]
    np.testing.assert_array_equal(*(one.parameter("lambda") for one in found))


def test_sweeps_of_a_pass_follow_from_the_tokens_of_a_word_in_a_topic(sampler: str) -> None:
    tokens, cells = int(counts().sum()), 20 * TOPICS
    assert tokens >= MANY_TOKENS * cells
    auto, three, one = (learner(kept_sweeps=n).fit() for n in ("auto", SWEEPS, 1))
    for name in ("assignments", "counts"):
        found = [each.state().tensors[name] for each in (auto, three, one)]
        np.testing.assert_array_equal(found[0], found[1])
        assert (found[0] != found[2]).any()
    note = "topics of tokens are kept from pass 2 on, and each later pass makes 3 sweeps"
    assert note in auto.model.notes[0]
    assert auto.model.notes == three.model.notes
    assert not one.model.notes
    few = counts()[:1]
    assert few.sum() < MANY_TOKENS * cells
    assert not learner(few).fit().model.notes


def test_threads_change_no_bits(sampler: str) -> None:
    one, three = (learner(threads=threads, fresh_passes=1).fit() for threads in (1, 3))
    for name, parameter in one.state().tensors.items():
        np.testing.assert_array_equal(parameter, three.state().tensors[name], name)


@pytest.mark.parametrize("seeds", [{}, {"first": ["3"]}], ids=["eta", "seeds"])
def test_both_samplers_find_the_same_topics(
    monkeypatch: pytest.MonkeyPatch, seeds: dict[str, list[str]]
) -> None:
    """Shares of topics, over passes; one reads counts, or phi where eta is a table."""
    means = []
    for lists in (False, True):
        monkeypatch.setattr(
            kept_topics, "MANY", dict.fromkeys(kept_topics.MANY, 1 if lists else TOPICS + 1)
        )
        trained = learner(passes=60, seeds=seeds, alpha=0.2).fit()
        assert trained.model.phases() == ([0, 1] if seeds else [0, 1, 2])
        lam = trained.parameter("lambda").astype(float)
        means.append(np.sort(lam.sum(axis=0) / lam.sum()))
    np.testing.assert_allclose(means[0], means[1], atol=0.1)


def test_a_model_without_warm_up_needs_no_optimizer(tmp_path: Path) -> None:
    trained = learner(warm_up=0).fit()
    assert trained.parameter("counts").sum() == counts().sum()
    four, ten = (learner(warm_up=0, sweeps=n, passes=1).fit().parameter("counts") for n in (3, 9))
    np.testing.assert_array_equal(four, ten)  # the first blocks are not settled further
    bl.save(trained, tmp_path / "m")
    np.testing.assert_array_equal(
        bl.load(tmp_path / "m").predict(counts()), trained.predict(counts())
    )


def test_blocks_of_kept_topics_count_as_steps() -> None:
    """They step nothing, but other documents, if the phase is the same, go on with small steps."""
    found = learner(passes=4).fit()  # the last two passes are of one phase
    assert found.state().position["optimizers"][0]["steps"] == 2 * found.train.blocks


def test_other_documents_are_drawn_afresh(tmp_path: Path) -> None:
    """A saved model has no assignments; training it further learns from the new rows alone."""
    trained = learner().fit()
    bl.save(trained, tmp_path / "m")
    loaded = bl.load(tmp_path / "m")
    further = loaded.fit(counts()[:30], passes=2)
    assert not further.model.states
    assert any("a part of those" in note for note in further.model.notes)
    assert (further.parameter("lambda") != trained.parameter("lambda")).any()


def test_topics_are_listed_and_what_is_saved_is_shown(tmp_path: Path) -> None:
    trained = learner().fit()
    bl.save(trained, tmp_path / "m")
    loaded = bl.load(tmp_path / "m")
    assert trained.topics(3) == loaded.topics(3)
    assert trained.model.learned_shapes == loaded.model.learned_shapes == {"lambda": (20, 3)}


def stream(_: int) -> Any:
    yield counts()


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"X": IterableSource(stream, block_rows=40)}, "each pass of a stream may have other"),
        ({"X": counts() * 0.5}, "counts must be whole numbers below 16,777,216"),
        ({"X": counts() * 2.0**24}, "counts must be whole numbers below 16,777,216"),
        ({"mixins": [CosineSimilarity(weight=1)]}, "terms of mixins act on sums"),
    ],
)
def test_data_without_lasting_tokens(
    options: dict[str, Any], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`kept` refuses them, `auto` draws afresh and says so."""
    monkeypatch.setattr(lda_settings, "MANY_PASSES", 2)
    with pytest.raises(ModelConfigError, match="assignments=kept: must be fresh or auto: " + why):
        learner(**options).plan()
    trained = learner(**options, assignments="auto", passes=2, sweeps=9).fit()
    assert any(why in note for note in trained.model.notes)
    assert not trained.model.states


@pytest.mark.parametrize(("many", "same"), [(4, "kept"), (5, "fresh")])
def test_auto_keeps_in_long_runs(many: int, same: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lda_settings, "MANY_PASSES", many)
    auto, named = (learner(assignments=each, passes=4).fit() for each in ("auto", same))
    np.testing.assert_array_equal(auto.parameter("lambda"), named.parameter("lambda"))

    untold = bl.Learner(LDA(**SMALL), block_rows=40, threads=1, seed=3, verbose=False)
    later = untold.fit(counts(), passes=4)
    np.testing.assert_array_equal(later.parameter("lambda"), named.parameter("lambda"))


def test_what_auto_means() -> None:
    """The run's length decides, unless priors are learned. A run that resumes stays as it is."""
    few, many = LDA().for_run(49), LDA().for_run(50)
    assert (few.assignments, few.warm_up, few.inner_iterations) == ("fresh", 1, None)
    assert (many.assignments, many.warm_up, many.inner_iterations) == ("auto", 0, 3)
    assert LDA(topics=20).for_run(50).warm_up == 1
    assert LDA(inner_iterations=7).for_run(50).inner_iterations == 7
    assert LDA(inference="cvb0").for_run(50).inner_iterations is None
    assert LDA(alpha="auto").for_run(10).assignments == "auto"
    assert LDA(assignments="kept").for_run(10).assignments == "kept"
    counted = {"fresh_counts": "auto"}
    assert LDA().for_run(100, {"assignments": "fresh"} | counted) == few
    iterations = {"inner_iterations": many.inner_iterations}
    assert LDA().for_run(10, {"assignments": "auto"} | counted | iterations) == many
    before = LDA(topics=20).for_run(100, {"assignments": "auto", "warm_up": 0, "fresh_passes": 8})
    begins = before.warm_up, before.fresh_passes, before.inner_iterations
    assert begins == (0, 8, None)  # a run of an earlier version
    assert LDA().for_run(10, {"assignments": "auto"}).fresh_counts == "drawn"  # by earlier versions


def test_runs_that_began_with_other_sweeps_keep_them() -> None:
    """Earlier versions wrote 9 where none were given; what is given must still be the same."""
    for assignments in ("fresh", "auto"):
        begun = {"assignments": assignments, "sweeps": 9}
        resumed = LDA().for_run(50, begun)
        assert (resumed.assignments, resumed.sweeps) == (assignments, 9)
        assert LDA(sweeps=4).for_run(50, begun).sweeps == 4
        assert LDA(sweeps="auto").for_run(50, begun).sweeps == "auto"
    assert LDA(assignments="kept").for_run(10, {"sweeps": 9}).sweeps == 9
    assert LDA(alpha="auto").for_run(10, {"sweeps": 9}).sweeps == 9


def test_a_run_as_an_earlier_version_recorded_it_keeps_topics_after_as_many_passes() -> None:
    """It says nothing of `fresh_counts`: drawn topics count, as `sweeps` is given."""
    recorded = LDA(warm_up=0, fresh_passes=5, sweeps=20, heat=4.0, kept_sweeps=3)
    assert recorded.for_run(10) == recorded
    assert (recorded.assignments, recorded.fresh_counts) == ("auto", "auto")


def test_a_run_of_the_command_stays_as_it_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More passes may follow, with the same configuration, and topics are still drawn afresh."""
    monkeypatch.setattr(lda_settings, "MANY_PASSES", 3)
    write_blocks(MatrixSource(counts(), block_rows=40), [tmp_path / "counts"])
    settings = {
        "model": {"kind": "lda", "topics": TOPICS},
        "data": {"train": {"kind": "blocks", "paths": [str(tmp_path / "counts")]}},
    }

    def train(name: str, passes: int) -> tuple[Any, Any]:
        given = {"learner": {"passes": passes, "threads": 1}, "out": str(tmp_path / name)}
        (tmp_path / "run.yaml").write_text(json.dumps(settings | given))
        with pytest.raises(SystemExit) as stop:
            main(["train", "--config", str(tmp_path / "run.yaml"), "--resume", "auto", "--quiet"])
        assert stop.value.code == 0
        found = bl.load(tmp_path / name)
        return found.model.assignments, found.parameter("lambda")

    assert train("few", 2)[0] == "fresh"
    assignments, lam = train("few", 3)
    assert assignments == "fresh"
    kept = train("many", 3)
    assert kept[0] == "auto"
    assert (kept[1] != lam).any()


def test_the_plan_has_the_state(tmp_path: Path) -> None:
    """Two bytes a token, in memory or in a file, with the same result."""
    tokens = int(counts().sum())
    there = learner()
    rows = {row.name: row for row in there.plan().rows}
    state = rows["assignments (row state)"]
    assert (state.nbytes, state.dtype, state.in_file) == (2 * tokens, "uint16", False)
    longest = np.sort(counts().sum(axis=1))[::-1][:40].sum()
    assert rows["assignments of a block"].nbytes == 2 * longest
    files = learner(row_folder=tmp_path)
    assert files.plan().row_files == {"assignments.uint16": 2 * tokens}
    files.fit()
    assert (tmp_path / "learner" / "assignments.uint16").stat().st_size == 2 * tokens
    np.testing.assert_array_equal(files.parameter("lambda"), there.fit().parameter("lambda"))
    files.close()
    assert not (tmp_path / "learner").exists()


@pytest.mark.parametrize(
    ("replicas", "blocks"),
    [
        ({"replicas": 3, "sync_every": 1, "sync_weight": 0.7}, [6, 9]),
        *rarely(({}, [2, 4, 8])),
    ],
    ids=["three", "one"],
)
def test_checkpoints_resume_to_the_same_bits(
    tmp_path: Path, replicas: dict[str, Any], blocks: list[int], sampler: str
) -> None:
    """In the pass of cvb0, in the first sweep and later; topics and counts, too."""
    check_stops(lambda hooks: learner(hooks=hooks, fresh_passes=1, **replicas), tmp_path, blocks)


def wide() -> sp.csr_array:
    """The same tokens among so many words that rows of those a block lacks rest."""
    return sp.csr_array(sp.hstack([counts(), sp.csr_array((counts().shape[0], 600))]))


def test_rows_rest_in_fresh_passes_alone() -> None:
    """These have the bits of a run that keeps nothing. In kept passes blocks wake no row."""
    woken = set()

    class Watched(StreamingAverage):
        @property
        def form(self) -> Any:
            return ()

        def begin(self, X: Any) -> None:
            woken.add(self.phase)
            super().begin(X)

    def trained(**options: Any) -> bl.Learner:
        steps = Watched(tau0=2.0, kappa=0.6)
        return learner(wide(), warm_up=0, optimizer=steps, **options).fit()

    kept = trained(fresh_passes=2)
    assert kept.model.column_sums.keys() == {"lambda"}
    assert kept.model.phases() == [0, 2, 3]
    assert woken == {0}
    before, fresh = trained(fresh_passes=2, passes=2), trained(assignments="fresh", passes=2)
    assert before.parameter("lambda").tobytes() == fresh.parameter("lambda").tobytes()


def test_threads_change_no_bits_of_rows_that_rest() -> None:
    one, three = (learner(wide(), threads=threads, fresh_passes=1).fit() for threads in (1, 3))
    for name, tensor in one.state().tensors.items():
        assert tensor.tobytes() == three.state().tensors[name].tobytes(), name


@pytest.mark.parametrize(
    "replicas",
    [{}, {"replicas": 2, "sync_every": 1, "sync_weight": 0.7}],
    ids=["one", "two"],
)
def test_runs_resume_where_rows_rest_and_when_they_wake(
    tmp_path: Path, replicas: dict[str, Any]
) -> None:
    """Within fresh passes, at the end of the last one, and in the first blocks of kept topics."""
    X = wide()
    shared = [2, 4, 6] if replicas else [2, 4, 5, 6, 7]
    check_stops(
        lambda hooks: learner(X, hooks=hooks, warm_up=0, fresh_passes=2, **replicas),
        tmp_path,
        shared,
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["all topics", "lists"])
def test_four_bytes_change_no_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """As for many topics, here for a few: in the plan, in files, in checkpoints."""
    monkeypatch.setattr(
        kept_topics, "MANY", dict.fromkeys(kept_topics.MANY, 1 if name == "lists" else TOPICS + 1)
    )
    two = learner().fit()
    for module in (kept_topics, sampling):
        monkeypatch.setattr(module, "type_of_topics", lambda _: np.uint32)
    four = learner(row_folder=tmp_path / "rows")
    assert four.plan().row_files == {"assignments.uint32": 4 * int(counts().sum())}
    four.fit()
    assert four.state().tensors["assignments"].dtype == np.uint32
    for array, tensor in two.state().tensors.items():
        np.testing.assert_array_equal(tensor, four.state().tensors[array], array)
    four.close()
    check_stops(lambda hooks: learner(hooks=hooks), tmp_path, [4])


def test_many_topics_have_to_be_kept() -> None:
    many = {"topics": 2**16 + 1, "alpha": 0.1}
    with pytest.raises(ValueError, match="topics=65,537: must be up to 65,536 with assignments=fr"):
        LDA(**many, assignments="fresh")
    LDA(**many, inference="cvb0")
    assert LDA(**many).for_run(1).assignments == "auto"
    with pytest.raises(ModelConfigError, match="must be up to 65,536 where assignments cannot be"):
        learner(IterableSource(stream, block_rows=40), **many | {"assignments": "auto"}).plan()


def test_inferences_without_assignments_refuse_to_keep_them() -> None:
    with pytest.raises(ValueError, match="assignments=kept: must be fresh with inference=vb"):
        LDA(inference="vb", assignments="kept")


def test_the_estimator_keeps_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lda_settings, "MANY_PASSES", 10)
    own = {"n_components": TOPICS, "max_iter": 10, "batch_size": 40, "random_state": 3}
    kept = bl.LatentDirichletAllocation(assignments="kept", **own).fit(counts())
    same = bl.LatentDirichletAllocation(assignments="auto", **own).fit(counts())
    fresh = bl.LatentDirichletAllocation(assignments="fresh", **own).fit(counts())
    np.testing.assert_array_equal(kept.components_, same.components_)
    same.partial_fit(counts())  # of as many passes, and of new documents, which keep none
    assert (kept.components_ != fresh.components_).any()
    total = counts().sum() + 0.05 * TOPICS * 20
    assert kept.components_.sum() == pytest.approx(total, rel=0.01)


def test_tokens_before_each_row() -> None:
    X = sp.csr_array(np.array([[0, 2, 1], [0, 0, 0], [4, 0, 0]], np.float32))
    source = learner(X, block_rows=2).train
    assert source is not None
    offsets, why = count_tokens(source, 2**60)
    assert offsets is not None
    assert offsets.tolist() == [0, 3, 3, 7]
    assert not why


def test_a_count_that_is_not_whole_is_named() -> None:
    X = sp.csr_array(np.array([[0, 2, 1], [0, 0, 0], [4, 0, 2.5], [1e8, 0, 0]], np.float32))
    for rows, place in ((4, "row 2, column 2 has 2.5"), (1, "row 2, column 2 has 2.5")):
        assert place in count_tokens(MatrixSource(X, block_rows=rows), 2**60)[1]
    assert "row 0, column 0 has 1e+08" in count_tokens(MatrixSource(X[3:], block_rows=1), 2**60)[1]


def test_counting_stops_at_the_most_tokens() -> None:
    class Watched(MatrixSource):
        def read(self, pass_: int, index: int, block: HostBlock) -> None:
            read.append(index)
            super().read(pass_, index, block)

    read: list[int] = []
    X = sp.csr_array(np.array([[0, 2, 1], [0, 0, 4], [4, 0, 0]], np.float32))
    source = Watched(X, block_rows=1)
    offsets, why = count_tokens(source, 6)
    assert offsets is None
    assert "more than 6 tokens" in why
    assert read == [0, 1]
    assert count_tokens(source, 11)[0] is not None
