"""Commands that list items or users: `learn recommend`, `learn similar`.

Nothing heavy is imported before one runs.
"""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..terminal import show_lines
from . import parts
from .options import (
    DeviceOption,
    ListsOption,
    ModelClassOption,
    OverwriteOption,
    RunArgument,
    SkipOption,
    TopOption,
    check_apart,
    check_table,
    file_option,
    model_class,
)
from .parts import Output, Trained, Wanted
from .sharing import EngineOption, PartOption, WorkersOption, check_alone, part_of, show_shared

if TYPE_CHECKING:
    from blocklearn.datasources.remote import Place

    from ..recommendation.factors import Side
    from ..recommendation.lists import Lists


def recommend(
    run: RunArgument,
    users: Annotated[Path | None, file_option("--users", "Ids, one a line [all users].")] = None,
    data: Annotated[
        Path | None, file_option("--data", "Ratings by new users; make lists for these users.")
    ] = None,
    top: TopOption = 10,
    items: Annotated[
        Path | None, file_option("--items", "Ids of items that may be listed [all].")
    ] = None,
    seen: Annotated[
        Path | None, file_option("--seen", "Ratings to leave out [training data].")
    ] = None,
    include_seen: Annotated[
        bool, typer.Option("--include-seen", help="List what users have seen, too.")
    ] = False,
    skip_unknown: SkipOption = False,
    out: ListsOption = None,
    overwrite: OverwriteOption = False,
    json: Annotated[bool, typer.Option("--json", help="A JSON object per user.")] = False,
    device: DeviceOption = "cpu",
    part: PartOption = None,
    engine: EngineOption = None,
    workers: WorkersOption = None,
    model: ModelClassOption = None,
) -> None:
    """List the best items for each user.

    Without --out, print a line per user.

    Several workers, or machines with --part, each write the lists of their part to a file.
    """
    if seen is not None and include_seen:
        raise typer.BadParameter("choose one of --seen and --include-seen")
    if data is not None and (users is not None or seen is not None):
        raise typer.BadParameter("--data has its own users: leave out --users and --seen")
    own = part_of(part, engine, workers)
    check_table(out)
    check_apart(out, users, data, items, seen)
    trained = Trained(run, model, device)
    wanted = Wanted(users, data, top, items, seen, include_seen, skip_unknown)
    if out is not None:
        output = Output(out, own, overwrite)
        work = partial(parts.recommend, trained=trained, wanted=wanted, out=output)
        show_shared(work, own, engine, workers)
        return

    from ..engines.crew import Crew

    check_alone(own, workers, "--out FILE")
    with wanted.lists(Crew(), trained, (0, 1)) as lists:
        _show_lists(lists, None, json)


def similar(
    run: RunArgument,
    items: Annotated[Path | None, file_option("--items", "Ids of items, one a line.")] = None,
    users: Annotated[Path | None, file_option("--users", "Ids of users, one a line.")] = None,
    words: Annotated[Path | None, file_option("--words", "Words, one a line.")] = None,
    top: TopOption = 10,
    skip_unknown: SkipOption = False,
    out: ListsOption = None,
    overwrite: OverwriteOption = False,
    json: Annotated[bool, typer.Option("--json", help="A JSON object per line.")] = False,
    device: DeviceOption = "cpu",
    model: ModelClassOption = None,
) -> None:
    """List the items, users or words most like given ones.

    Without --out, print a line for each.
    """
    files: dict[Side, Path | None] = {"item": items, "user": users, "word": words}
    given = [(side, path) for side, path in files.items() if path is not None]
    if len(given) != 1:
        raise typer.BadParameter("choose one of --items, --users and --words")
    ((side, path),) = given
    from ..engines.crew import Crew

    check_table(out)
    check_apart(out, path)
    place = None if out is None else Output(out, overwrite=overwrite).of(Crew())[0]
    from ..recommendation import recommend as recommending
    from ..results.persistence import load
    from ..runs.rating_inputs import known_ids

    learner = load(run, model_class(model), device=device)
    ids = known_ids(learner, path, side, skip_unknown=skip_unknown)
    _show_lists(recommending.similar(learner, side, ids, top), place, json)


def _show_lists(lists: "Lists", out: "Place | None", json: bool) -> None:
    from blocklearn.datasources.remote import local_name

    from ..recommendation.lists import write_lists

    if out is None:
        show_lines(lists.json_lines() if json else lists.lines())
        return
    with local_name(out) as file:
        count = write_lists(file, lists)
    show_lines([f"{out}: {count:,} rows"])
