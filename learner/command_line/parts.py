"""What each worker does of `learn predict`, `evaluate` and `recommend`: read, compute, write.

Arguments are those of the commands, so that they can be sent to a worker.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from .options import model_class

if TYPE_CHECKING:
    from blocklearn.datasources import DataSource
    from blocklearn.datasources.remote import Place

    from ..engines.crew import Crew
    from ..learner import Learner
    from ..recommendation.lists import Lists


@dataclass(frozen=True)
class Trained:
    """Where the model of a command is, and on what it computes."""

    run: Path
    model: str | None
    device: str = "cpu"
    replicas: int | Literal["auto"] = 1

    def load(self, crew: "Crew") -> "Learner":
        """Return the model, with the threads of this worker."""
        from ..results.persistence import load

        return load(
            self.run,
            model_class(self.model),
            threads=crew.exchange.threads(None),
            device=self.device,
            replicas=self.replicas,
        )


@dataclass(frozen=True)
class Given:
    """New data of a command."""

    path: str
    targets: Path | None = None
    text: str | None = None
    separator: str | None = None

    def opened(
        self, crew: "Crew", learner: "Learner", run: Path, *, labelled: bool = False
    ) -> AbstractContextManager["DataSource"]:
        """Return the data for the model of `run`, to open with `with`: see `read_once`."""
        from ..runs.model_inputs import open_for
        from ..runs.read_once import read_once

        opened = partial(
            open_for,
            learner,
            run,
            self.path,
            self.targets,
            labelled=labelled,
            text=self.text,
            separator=self.separator,
        )
        return read_once(crew, run, self.path, opened)


@dataclass(frozen=True)
class Output:
    """Where the rows of a part are written.

    path: a file, or the URL of one in a store.
    part: the number of the part, and of all; None: those of the worker.
    """

    path: str
    part: tuple[int, int] | None = None
    overwrite: bool = False

    def of(self, crew: "Crew") -> "tuple[Place, tuple[int, int]]":
        """Return the file and the part of this worker.

        Raises RunFolderError if the file exists.
        """
        from blocklearn.datasources.remote import PATIENCE, place_of

        from ..files.existing import check_new
        from ..results.predictions import part_of

        part = self.part or (crew.rank, crew.size)
        file = part_of(place_of(self.path, PATIENCE), part)
        if not self.overwrite:
            check_new([file])
        return file, part


def predict(crew: "Crew", trained: Trained, data: Given, out: Output) -> list[str]:
    """Write the predictions of this worker's part; return lines on the files of all workers."""
    from blocklearn.datasources.remote import local_name

    from ..results.predictions import predict_blocks, prediction_names, write_predictions

    place, part = out.of(crew)
    learner = trained.load(crew)
    with data.opened(crew, learner, trained.run) as source:
        rows = source.shape.total_rows if part[1] == 1 else None
        blocks = predict_blocks(learner, source, part)
        with local_name(place) as file:
            count = write_predictions(file, blocks, rows, prediction_names(learner))
        return _written(crew, place, count)


def evaluate(crew: "Crew", trained: Trained, data: Given) -> dict[str, float]:
    """Return the scores of all rows, which the workers share. Worker 0 ranks items, if any."""
    from ..runs.rating_inputs import ranking_scores_of

    learner = trained.load(crew)
    with data.opened(crew, learner, trained.run, labelled=True) as held_out:
        scores = learner.evaluate(held_out, crew=crew)
        return scores | (ranking_scores_of(learner, trained.run, held_out) if crew.leads else {})


@dataclass(frozen=True)
class Wanted:
    """For whom items are listed, and which: see the options of `learn recommend`."""

    users: Path | None
    data: Path | None
    top: int
    items: Path | None
    seen: Path | None
    include_seen: bool
    skip_unknown: bool

    @contextmanager
    def lists(self, crew: "Crew", trained: Trained, part: tuple[int, int]) -> Iterator["Lists"]:
        """Yield the lists of a part of the users; they are made while they are read."""
        from ..recommendation.recommend import recommend
        from ..runs.rating_inputs import known_numbers, new_users, part_of_users, seen_by_users
        from ..runs.read_once import read_once

        learner, run, skip = trained.load(crew), trained.run, self.skip_unknown
        items = known_numbers(crew, learner, self.items, "item", skip_unknown=skip)
        made = partial(
            recommend, learner, n=self.top, exclude_seen=not self.include_seen, items=items
        )
        if self.data is not None:
            path = self.data
            with read_once(
                crew, run, str(path), lambda _: new_users(learner, run, path, skip_unknown=skip)
            ) as rated:
                ids, rows = part_of_users(rated, part)
                yield replace(made(rows), row_ids=ids)
            return
        users = known_numbers(crew, learner, self.users, "user", skip_unknown=skip)
        if self.include_seen:
            yield made(users, part=part)
            return
        what = "the training data" if self.seen is None else str(self.seen)
        with read_once(crew, run, what, lambda _: seen_by_users(learner, run, self.seen)) as seen:
            yield made(users, seen=seen, part=part)


def recommend(crew: "Crew", trained: Trained, wanted: Wanted, out: Output) -> list[str]:
    """Write the lists of this worker's part; return lines on the files of all workers."""
    from blocklearn.datasources.remote import local_name

    from ..recommendation.lists import write_lists

    place, part = out.of(crew)
    with wanted.lists(crew, trained, part) as lists:
        with local_name(place) as file:
            count = write_lists(file, lists)
        return _written(crew, place, count)


def _written(crew: "Crew", file: "Place", rows: int) -> list[str]:
    """Return a line on the file of each worker, when all have written theirs."""
    return [f"{name}: {count:,} rows" for name, count in crew.gather([str(file), rows])]
