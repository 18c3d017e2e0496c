"""LDA that draws topics of long documents afresh, in all passes or before it keeps them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import blocklearn as bl
from blocklearn.datasources import (
    BlockSource,
    DataSource,
    IterableSource,
    MatrixSource,
    RowFilter,
    write_blocks,
)
from blocklearn.learner.command_line.cli import main
from blocklearn.learner.configuration.config import RunConfig
from blocklearn.learner.runs.inputs import of_length, sized
from blocklearn.models import LDA
from blocklearn.models.lda import long_documents
from blocklearn.models.lda.limits import FEW
from blocklearn.models.lda.long_documents import (
    ENOUGH,
    FEWEST,
    FIRST,
    FRESH_OF_LONG,
    FRESH_OF_MEDIUM,
    HEAT,
    KEPT_SWEEPS,
    LONG,
    MEDIUM,
    PASSES_OF_LONG,
    PASSES_OF_MEDIUM,
    SHORT,
)
from blocklearn.models.lda.settings import MANY_PASSES, WARM
from tests.support.often import first_often
from tests.support.stops import check_stops
from tests.support.workers import results


def documents(tokens: float) -> sp.csr_array:
    """30 documents of 20 words, with about so many tokens each, and exactly so many on average."""
    rng = np.random.default_rng(0)
    X = rng.multinomial(int(tokens), rng.dirichlet(np.full(20, 0.3), 30)).astype(np.float32)
    X[0, 0], X[1, 0] = X[0, 0] + 5, max(X[1, 0] - 5, 0)
    X[2, X[2].argmax()] += 30 * tokens - X.sum()
    return sp.csr_array(X)


def trained(tokens: float, passes: int, **options: Any) -> bl.Learner:
    """A learner in blocks of 10 documents, trained."""
    model = {name: options.pop(name) for name in list(options) if name in LDA.model_fields}
    own: dict[str, Any] = {"topics": 3, "assignments": "kept", "fresh_passes": 2} | model
    given = {"block_rows": 10, "threads": 1, "seed": 3, "verbose": False, **options}
    return bl.Learner(LDA(**own), documents(tokens), passes=passes, **given).fit()


def test_the_first_pass_has_more_sweeps_and_more_alpha() -> None:
    auto = trained(LONG, 1)
    like = trained(LONG, 1, assignments="fresh", warm_up=0, alpha=HEAT * 0.05, sweeps=FEWEST)
    np.testing.assert_array_equal(auto.parameter("lambda"), like.parameter("lambda"))
    assert "a pass that draws topics afresh makes 20 sweeps, and alpha is 4" in auto.model.notes[0]


@pytest.mark.parametrize(
    ("options", "left"),
    first_often(
        [
            ({"fresh_passes": 4}, [1, 0.75, 0.5, 0.25, 0.25, 0.25]),
            ({"assignments": "auto"}, [1, 0.5, 0.25, 0.125, 0.0625, 0.03125]),
            ({"assignments": "fresh", "warm_up": 2}, [0, 0, 1, 0.5, 0.25, 0.125]),
        ],
        1,
    ),
    ids=["kept later", "never kept", "after cvb0"],
)
def test_alpha_falls_from_pass_to_pass(options: dict[str, Any], left: list[float]) -> None:
    found = []

    class Look(bl.Hook):
        def pass_end(self, learner: Any, progress: Any) -> None:
            found.append(float(learner.model.times_alpha.numpy()[0, 0]))

    trained(LONG, 6, hooks=[Look()], **options)
    assert found == pytest.approx([HEAT**power for power in left])


def test_runs_that_keep_nothing_have_more_sweeps_and_more_alpha() -> None:
    auto = trained(LONG, 3, assignments="auto")
    given = trained(LONG, 3, assignments="fresh", warm_up=0, sweeps=FEWEST, heat=HEAT)
    np.testing.assert_array_equal(auto.parameter("lambda"), given.parameter("lambda"))
    model = auto.model
    assert (model.assignments, model.warm_up) == ("fresh", 0)
    assert (model.sweeps, model.heat) == (FEWEST, HEAT)
    assert auto.model.notes == given.model.notes
    assert "a pass that draws topics afresh makes 20 sweeps, and alpha is 4" in auto.model.notes[0]

    later = bl.Learner(LDA(topics=3), block_rows=10, threads=1, seed=3, verbose=False)
    later.fit(documents(LONG), passes=3)
    np.testing.assert_array_equal(later.parameter("lambda"), auto.parameter("lambda"))


def test_runs_of_some_passes_keep_topics() -> None:
    """With fewer passes that draw them afresh, and more sweeps; what is given stays."""
    auto = trained(LONG, PASSES_OF_LONG, assignments="auto", fresh_passes=FRESH_OF_LONG)
    like = {
        "warm_up": 0,
        "inner_iterations": None,
        "fresh_passes": FRESH_OF_LONG,
        "kept_sweeps": KEPT_SWEEPS,
        "sweeps": FEWEST,
        "heat": HEAT,
        "fresh_counts": "drawn",
    }
    given = trained(LONG, PASSES_OF_LONG, **like)
    assert (auto.model.assignments, auto.model.kept_sweeps) == ("auto", KEPT_SWEEPS)
    np.testing.assert_array_equal(auto.parameter("lambda"), given.parameter("lambda"))
    np.testing.assert_array_equal(auto.parameter("counts"), given.parameter("counts"))

    source = MatrixSource(documents(LONG))
    chosen = LDA().for_run(PASSES_OF_LONG).for_data(source, PASSES_OF_LONG)
    assert chosen == LDA(**like).for_run(50)
    assert chosen.for_run(PASSES_OF_LONG) == chosen
    own = LDA(assignments="auto", fresh_passes=1, warm_up=1).for_run(PASSES_OF_LONG)
    kept = own.for_data(source, PASSES_OF_LONG)
    assert (kept.assignments, kept.warm_up, kept.fresh_passes) == ("auto", 1, 1)
    fresh = LDA(assignments="fresh")
    assert fresh.for_data(source, PASSES_OF_LONG) == fresh.for_data(source, PASSES_OF_LONG - 1)


def test_long_runs_begin_with_cvb0_unless_documents_are_long() -> None:
    def begins(tokens: float, **given: Any) -> tuple[int, int]:
        source = MatrixSource(documents(tokens))
        model = LDA(**{"topics": WARM} | given).for_run(MANY_PASSES).for_data(source, MANY_PASSES)
        assert model.for_run(MANY_PASSES) == model
        return model.warm_up, model.fresh_passes

    assert begins(LONG - 1) == (1, FIRST - 1)
    assert begins(LONG) == (0, FIRST)
    assert begins(LONG, warm_up=1, fresh_passes=2) == (1, 2)
    assert begins(LONG - 1, topics=WARM + 1) == begins(LONG, topics=WARM + 1) == (0, FIRST)
    assert begins(LONG, topics=FEW + 1) == (0, 0)


def test_runs_of_more_passes_keep_topics_of_documents_of_medium_length() -> None:
    """After a pass of cvb0 and fresh ones. Many topics, and those of short ones, are not kept."""

    def chosen(passes: int, tokens: float = MEDIUM, **given: Any) -> LDA:
        return LDA(**given).for_run(passes).for_data(MatrixSource(documents(tokens)), passes)

    found = chosen(PASSES_OF_MEDIUM)
    fields = found.assignments, found.warm_up, found.fresh_passes, found.kept_sweeps
    assert fields == ("auto", 1, FRESH_OF_MEDIUM, KEPT_SWEEPS)
    assert (found.sweeps, found.heat) == (SHORT, 1.0)
    assert chosen(PASSES_OF_MEDIUM - 1).assignments == "fresh"
    assert chosen(PASSES_OF_MEDIUM, MEDIUM - 1).assignments == "fresh"
    assert chosen(PASSES_OF_MEDIUM, LONG - 1).assignments == "auto"
    assert chosen(PASSES_OF_MEDIUM, topics=FEW + 1).assignments == "fresh"
    assert chosen(PASSES_OF_MEDIUM, assignments="fresh").assignments == "fresh"


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize(
    ("tokens", "counts"), [(ENOUGH, "expected"), (LONG - 1, "expected"), (ENOUGH - 1, "drawn")]
)
def test_expected_topics_count_in_documents_of_medium_length(
    kept: bool, tokens: float, counts: str
) -> None:
    """Whether topics are kept later, and tell the lengths, or never are."""
    options = {"assignments": "kept" if kept else "fresh", "warm_up": 0}
    auto = trained(tokens, 2, **options)
    found = {
        each: trained(tokens, 2, fresh_counts=each, **options).parameter("lambda")
        for each in ("drawn", "expected")
    }
    np.testing.assert_array_equal(auto.parameter("lambda"), found[counts])
    assert (found["drawn"] != found["expected"]).any()
    for lam in found.values():  # each token counts once
        np.testing.assert_allclose(lam.sum(axis=1), found["drawn"].sum(axis=1), rtol=1e-5)


def test_a_document_of_stored_zeros_changes_no_expected_topics() -> None:
    X = documents(MEDIUM)
    X.data[X.indptr[4] : X.indptr[5]] = 0
    empty = sp.csr_array(X.toarray())
    found = [
        bl.Learner(
            LDA(topics=3, assignments="fresh", warm_up=0, fresh_counts="expected", sweeps=3),
            each, block_rows=10, passes=1, threads=1, verbose=False,
        ).fit().parameter("lambda")
        for each in (X, empty)
    ]  # fmt: skip
    assert np.isfinite(found[0]).all()
    np.testing.assert_array_equal(*found)


def test_drawn_topics_count_if_sweeps_are_given_or_topics_are_many() -> None:
    for kept in ("kept", "fresh"):
        options = {"assignments": kept, "warm_up": 0}
        auto, drawn = (
            trained(ENOUGH, 2, sweeps=3, fresh_counts=each, **options) for each in ("auto", "drawn")
        )
        np.testing.assert_array_equal(auto.parameter("lambda"), drawn.parameter("lambda"))
    assert long_documents.counts_of(ENOUGH, FEW) == "expected"
    assert long_documents.counts_of(ENOUGH, FEW + 1) == "drawn"


def test_rows_stay_with_their_replicas_if_the_data_decide_to_keep_topics() -> None:
    """Of one process, or of two workers."""
    like = {"fresh_passes": FRESH_OF_LONG, "kept_sweeps": KEPT_SWEEPS, "sweeps": FEWEST}
    like |= {"warm_up": 0}
    given = trained(LONG, PASSES_OF_LONG, heat=HEAT, replicas=2, **like).parameter("lambda")

    def auto(**options: Any) -> Any:
        own = {"assignments": "auto", "fresh_passes": FRESH_OF_LONG, **options}
        return trained(LONG, PASSES_OF_LONG, **own).parameter("lambda")

    for found in [auto(replicas=2), *results(2, lambda own: auto(engine=own))]:
        np.testing.assert_array_equal(found, given)


def test_what_a_run_records_is_not_decided_again() -> None:
    source = MatrixSource(documents(LONG))
    for passes in (PASSES_OF_LONG - 1, PASSES_OF_LONG):
        chosen = LDA().for_run(passes).for_data(source, passes)
        read = LDA(**chosen.model_dump())
        assert read.for_run(passes).for_data(source, passes) == chosen
        assert "topics=3" in repr(LDA(topics=3).for_run(passes).for_data(source, passes))


def test_a_state_without_topics_of_tokens_is_refused() -> None:
    """Such a state is of a run that drew all topics afresh: their counts would be lost."""
    states = []

    class Keep(bl.Hook):
        def pass_end(self, learner: Any, progress: Any) -> None:
            states.append(learner.state())

    trained(LONG, 1, assignments="fresh", hooks=[Keep()])
    model = LDA(topics=3, assignments="kept", fresh_passes=2)
    learner = bl.Learner(model, documents(LONG), passes=4, block_rows=10, verbose=False)
    learner.restore(states[0])
    with pytest.raises(bl.matcache.ShapeError, match="has no 'assignments'.*assignments=fresh"):
        learner.fit()


def test_tokens_that_cannot_be_numbered_are_drawn_afresh_as_in_shorter_runs() -> None:
    X = documents(2 * LONG) * 0.5
    given: dict[str, Any] = {"block_rows": 10, "threads": 1, "seed": 3, "verbose": False}
    auto, fresh = (
        bl.Learner(LDA(topics=3, assignments=each), X, passes=PASSES_OF_LONG, **given).fit()
        for each in ("auto", "fresh")
    )
    np.testing.assert_array_equal(auto.parameter("lambda"), fresh.parameter("lambda"))
    assert "counts must be whole numbers" in auto.model.notes[0]


def test_runs_go_on_as_they_began() -> None:
    """Also with more passes, and if an earlier version drew topics of long documents afresh."""
    source = MatrixSource(documents(LONG))
    chosen = LDA().for_run(PASSES_OF_LONG).for_data(source, PASSES_OF_LONG)
    assert LDA().for_run(60, chosen.model_dump()) == chosen
    fresh = {"assignments": "fresh", "warm_up": 0, "sweeps": FEWEST, "heat": HEAT}
    resumed = LDA().for_run(PASSES_OF_LONG, fresh)
    assert {name: getattr(resumed, name) for name in fresh} == fresh


def test_more_alpha_goes_with_many_topics_of_a_token() -> None:
    heated = trained(LONG, 1, assignments="fresh", warm_up=0, heat=4.0, same=2, sweeps=3)
    like = trained(LONG, 1, assignments="fresh", warm_up=0, alpha=0.2, same=2, sweeps=3)
    np.testing.assert_array_equal(heated.parameter("lambda"), like.parameter("lambda"))


class Unmeasured:
    """A source that does not know the sum of its values."""

    def __init__(self, source: DataSource) -> None:
        self.shape, self.blocks, self.names = source.shape, source.blocks, source.names
        self.fingerprint, self.read = source.fingerprint, source.read


def sources(folder: Path) -> Iterator[tuple[DataSource, bool]]:
    """Sources of long documents, and whether they tell so."""
    matrix = MatrixSource(documents(LONG), block_rows=10)
    write_blocks(matrix, [folder / "blocks"])
    blocks = BlockSource([folder / "blocks"])
    stream = IterableSource(lambda pass_: [documents(LONG)], block_rows=10)
    yield from [(matrix, True), (blocks, True), (Unmeasured(matrix), False), (stream, False)]
    for source, tells in [(blocks, True), (Unmeasured(matrix), False)]:
        for held in (True, False):
            yield RowFilter(source, 0.4, 0, held=held), tells


def test_sources_tell_the_lengths_of_documents(tmp_path: Path) -> None:
    """If not, all are taken for short ones."""
    for source, tells in sources(tmp_path):
        found = LDA().for_run(9).for_data(source, 9)
        wanted = (FEWEST, HEAT, 0) if tells else (SHORT, 1.0, 1)
        assert (found.sweeps, found.heat, found.warm_up) == wanted, source
        assert found.assignments == "fresh"
        some = LDA().for_run(PASSES_OF_LONG).for_data(source, PASSES_OF_LONG)
        assert some.assignments == ("auto" if tells else "fresh"), source


def test_what_is_given_stays() -> None:
    long, short = documents(LONG), documents(LONG - 1)
    fields: list[dict[str, Any]] = [
        {"sweeps": 9}, {"heat": 2.0}, {"warm_up": 1}, {"same": 2}, {"term_weights": "idf"},
        {"assignments": "kept"}, {"inference": "cvb0"}, {},
    ]  # fmt: skip
    for given in fields:
        model = LDA(**given).for_run(9)
        for X in (long, short):
            found = model.for_data(MatrixSource(X), 9)
            assert all(getattr(found, name) == value for name, value in given.items())
            decided = given.keys() <= {"heat", "warm_up"}
            assert (found == model) != decided


def test_parts_of_the_data_decide_nothing() -> None:
    """Later parts may have other documents, and every part is a pass."""
    stream = bl.LatentDirichletAllocation(3, random_state=3).partial_fit(documents(LONG))
    model = bl.models.LDA(topics=3, assignments="fresh", warm_up=0, sweeps=SHORT)
    like = bl.Learner(model, documents(LONG), passes=1, seed=3, verbose=False).fit()
    np.testing.assert_array_equal(stream.components_.T, like.parameter("lambda"))


@pytest.mark.parametrize("some", first_often([2, PASSES_OF_LONG]), ids=["kept", "afresh"])
def test_a_run_of_the_command_records_what_was_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, some: int
) -> None:
    """And resumes with it, also with more passes."""
    monkeypatch.setattr(long_documents, "PASSES_OF_LONG", some)
    monkeypatch.setattr(long_documents, "FRESH_OF_LONG", 1)
    write_blocks(MatrixSource(documents(LONG), block_rows=10), [tmp_path / "counts"])
    train = {"kind": "blocks", "paths": [str(tmp_path / "counts")]}
    data = {"train": train, "eval": {"kind": "holdout", "share": 0.3}}

    def run(name: str, passes: int, **model: Any) -> bl.Learner:
        settings = {
            "model": {"kind": "lda", "topics": 3} | model,
            "data": data,
            "learner": {"passes": passes, "threads": 1},
            "out": str(tmp_path / name),
        }
        (tmp_path / "run.yaml").write_text(json.dumps(settings))
        with pytest.raises(SystemExit) as stop:
            main(["train", "--config", str(tmp_path / "run.yaml"), "--resume", "auto", "--quiet"])
        assert stop.value.code == 0
        return bl.load(tmp_path / name)

    run("stops", 2)
    chosen = run("stops", 3)
    like: dict[str, Any] = {"assignments": "fresh"}
    if some == 2:
        like = {"assignments": "kept", "fresh_passes": 1, "kept_sweeps": KEPT_SWEEPS}
    like |= {"warm_up": 0, "sweeps": FEWEST, "heat": HEAT, "fresh_counts": "drawn"}
    given = run("whole", 3, **like)
    fields = given.model.model_dump()
    assert chosen.model.model_dump() == fields | ({"assignments": "auto"} if some == 2 else {})
    np.testing.assert_array_equal(chosen.parameter("lambda"), given.parameter("lambda"))


def test_a_run_that_had_no_choice_of_its_data_resumes_as_it_was(tmp_path: Path) -> None:
    """An earlier version recorded `sweeps: auto`, and swept long documents as short ones."""
    folder = tmp_path / "run"
    config = {
        "model": {"kind": "lda", "topics": 3},
        "data": {"train": {"kind": "python-docs"}},
        "learner": {"passes": PASSES_OF_LONG},
        "out": str(folder),
    }
    begun = {"model": {"assignments": "fresh", "warm_up": 1, "sweeps": "auto"}}
    source = MatrixSource(documents(LONG), block_rows=10)
    run = of_length(RunConfig.model_validate(config), begun)
    assert sized(run, source, begun).model == run.model
    assert run.model.sweeps == "auto"
    chosen = sized(run, source).model
    assert (chosen.sweeps, chosen.assignments) == (FEWEST, "auto")


@pytest.mark.parametrize(
    ("tokens", "same", "options"),
    first_often(
        [
            (LONG - 1, SHORT, {}),
            (LONG - 1, SHORT, {"assignments": "auto"}),
            (LONG, SHORT, {"warm_up": 0, "fresh_passes": 0}),
        ],
        1,
    ),
    ids=["shorter", "shorter and never kept", "kept from the start"],
)
def test_others_are_swept_as_before(tokens: float, same: int, options: dict[str, Any]) -> None:
    like = {"sweeps": same, "fresh_counts": "expected"}
    auto, given = (trained(tokens, 3, **options, **each) for each in ({}, like))
    np.testing.assert_array_equal(auto.parameter("lambda"), given.parameter("lambda"))
    assert not any("afresh makes" in note for note in auto.model.notes)


def test_given_sweeps_stay() -> None:
    """So does alpha."""
    given = trained(LONG, 1, sweeps=4)
    like = trained(LONG, 1, assignments="fresh", warm_up=0, sweeps=4)
    np.testing.assert_array_equal(given.parameter("lambda"), like.parameter("lambda"))


@pytest.mark.parametrize(
    ("assignments", "replicas", "blocks"), [("auto", 1, [2, 4, 8]), ("kept", 3, [3, 6, 9])]
)
def test_checkpoints_resume_to_the_same_bits(
    tmp_path: Path, replicas: int, blocks: list[int], assignments: Any
) -> None:
    """In the first and the second pass, and when topics are kept."""

    def learner(hooks: Any) -> bl.Learner:
        model = LDA(topics=3, assignments=assignments, fresh_passes=2)
        return bl.Learner(
            model, documents(LONG), passes=4, block_rows=10, threads=1, seed=3, hooks=hooks,
            verbose=False, replicas=replicas, sync_every=1,
        )  # fmt: skip

    check_stops(learner, tmp_path, blocks)
