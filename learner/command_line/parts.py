"""What each worker does of `learn predict`, `evaluate` and `recommend`: read, compute, write.

Arguments are those of the commands, so that they can be sent to a worker.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from .options import model_class

if TYPE_CHECKING:
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
    from ..runs.model_inputs import open_for

    place, part = out.of(crew)
    learner = trained.load(crew)
    source = open_for(learner, trained.run, data.path, text=data.text, separator=data.separator)
    rows = source.shape.total_rows if part[1] == 1 else None
    blocks = predict_blocks(learner, source, part)
    with local_name(place) as file:
        count = write_predictions(file, blocks, rows, prediction_names(learner))
    return _written(crew, place, count)


def evaluate(crew: "Crew", trained: Trained, data: Given) -> dict[str, float]:
    """Return the scores of all rows, which the workers share. Worker 0 ranks items, if any."""
    from ..runs.model_inputs import open_for
    from ..runs.rating_inputs import ranking_scores_of

    learner = trained.load(crew)
    held_out = open_for(
        learner,
        trained.run,
        data.path,
        data.targets,
        labelled=True,
        text=data.text,
        separator=data.separator,
    )
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

    def lists(self, crew: "Crew", trained: Trained, part: tuple[int, int]) -> "Lists":
        """Return the lists of a part of the users."""
        from ..recommendation.recommend import recommend
        from ..runs.rating_inputs import known_ids, new_users, seen_by_users

        learner, skip = trained.load(crew), self.skip_unknown
        items = users = None
        if self.items is not None:
            items = known_ids(learner, self.items, "item", skip_unknown=skip)
        left_out = not self.include_seen
        if self.data is not None:
            ids, rated = new_users(learner, trained.run, self.data, skip_unknown=skip)
            lists = recommend(
                learner, rated, self.top, exclude_seen=left_out, items=items, part=part
            )
            return replace(lists, row_ids=ids)
        if self.users is not None:
            users = known_ids(learner, self.users, "user", skip_unknown=skip)
        seen = seen_by_users(learner, trained.run, self.seen) if left_out else None
        return recommend(
            learner, users, self.top, exclude_seen=left_out, seen=seen, items=items, part=part
        )


def recommend(crew: "Crew", trained: Trained, wanted: Wanted, out: Output) -> list[str]:
    """Write the lists of this worker's part; return lines on the files of all workers."""
    from blocklearn.datasources.remote import local_name

    from ..recommendation.lists import write_lists

    place, part = out.of(crew)
    with local_name(place) as file:
        count = write_lists(file, wanted.lists(crew, trained, part))
    return _written(crew, place, count)


def _written(crew: "Crew", file: "Place", rows: int) -> list[str]:
    """Return a line on the file of each worker, when all have written theirs."""
    return [f"{name}: {count:,} rows" for name, count in crew.gather([str(file), rows])]
