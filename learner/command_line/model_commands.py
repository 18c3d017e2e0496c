"""Commands that use a trained model: `learn predict`, `learn recommend`, ...

Nothing heavy is imported before one runs.

Longer than 300 lines: options of commands are declared one by one.
"""

import math
import os
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ..storage.table_file import TABLES
from ..terminal import say, show_lines, show_text
from . import parts
from .options import ModelClassOption, VerboseOption, model_class
from .parts import Given, Output, Trained, Wanted, ending, local
from .sharing import (
    Engine,
    EngineOption,
    Part,
    PartOption,
    WorkersOption,
    check_alone,
    part_of,
    shared,
)

if TYPE_CHECKING:
    from blocklearn.datasources.remote import Place

    from ..engines.crew import Crew
    from ..learner import Learner
    from ..recommendation.factors import Side
    from ..recommendation.lists import Lists
    from ..results.predictions import Predicted

RESULTS = (*TABLES, ".npy")
"""Endings of files of results."""

RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run or model.")]
TopOption = Annotated[int, typer.Option("--top", min=1, help="Length of the lists.")]
ListsOption = Annotated[
    str | None,
    typer.Option(
        "--out",
        metavar="FILE",
        help="Write lists to a .parquet, .csv or .tsv file, here or in a store (s3://...).",
    ),
]
OverwriteOption = Annotated[bool, typer.Option("--overwrite", help="Replace old files.")]
DeviceOption = Annotated[
    str, typer.Option("--device", help="Where to compute: cpu, cuda, cuda:N, auto.")
]
SkipOption = Annotated[
    bool,
    typer.Option("--skip-unknown", help="Leave out users and items that the model does not know."),
]
ReplicasOption = Annotated[
    str,
    typer.Option(
        "--replicas",
        metavar="N",
        help="Copies of the model, which share the blocks; auto, with --device cuda: one for each "
        "GPU.",
    ),
]
SeparatorOption = Annotated[
    str | None,
    typer.Option(
        "--separator", metavar="CHAR", help="Between fields of tables [as in the training data]."
    ),
]
FieldOption = Annotated[
    str | None,
    typer.Option(
        "--text",
        metavar="FIELD",
        help="JSON lines, tables: field with the text [as in the training data].",
    ),
]
DATA = typer.Option(
    "--data",
    metavar="PATH",
    help="Data of the kind that the run was trained on (table, ratings, ...); else files of "
    "any format that `learn convert` reads, or a block dataset.",
)
DataOption = Annotated[str, DATA]


def topics(
    run: RunArgument,
    top: Annotated[int, typer.Option("--top", min=1, help="Words per topic.")] = 10,
    relevance: Annotated[
        float,
        typer.Option(
            "--relevance",
            min=0.0,
            max=1.0,
            help="1: most probable words first; less, such as 0.6, favours words that other topics "
            "rarely have.",
        ),
    ] = 1.0,
    json: Annotated[bool, typer.Option("--json", help="With probabilities, as JSON.")] = False,
    model: ModelClassOption = None,
    verbose: VerboseOption = False,
) -> None:
    """Print the first words of each topic."""
    from ..reports.lines import topic_lines, topics_json
    from ..results.persistence import load

    learner = load(run, model_class(model))
    if json:
        show_text(topics_json(learner, top, relevance))
    else:
        show_lines(topic_lines(learner, top, relevance))


def predict(
    run: RunArgument,
    data: Annotated[str | None, DATA] = None,
    pairs: Annotated[
        Path | None,
        typer.Option(
            "--pairs",
            metavar="FILE",
            help="Users and items, a pair per record: predict ratings of pairs, not rows.",
        ),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(
            "--out",
            metavar="FILE",
            help=".parquet, .csv, .tsv or .npy file, here or in a store (s3://...); or - for JSON "
            "lines.",
        ),
    ] = None,
    least: Annotated[
        float | None,
        typer.Option(
            "--least",
            min=0.0,
            max=1.0,
            metavar="SHARE",
            help="Topics: only those with this share of a row or more, such as 0.01; a table has a "
            "row for each.",
        ),
    ] = None,
    overwrite: OverwriteOption = False,
    separator: SeparatorOption = None,
    text: FieldOption = None,
    device: DeviceOption = "cpu",
    replicas: ReplicasOption = "1",
    part: PartOption = None,
    engine: EngineOption = None,
    workers: WorkersOption = None,
    model: ModelClassOption = None,
    verbose: VerboseOption = False,
) -> None:
    """Apply a model to each row of a file.

    Without --out, print a readable line per row.

    LDA, NMF: the shares of topics or parts; --least leaves small ones out.

    ALS: the factors of each row, a user; or, with --pairs, the rating of each pair.

    Several workers, or machines with --part, each write the rows of their part to a file.
    """
    own = part_of(part, engine, workers)
    if (data is None) == (pairs is None):
        raise typer.BadParameter("choose one of --data and --pairs")
    if pairs is not None and least is not None:
        raise typer.BadParameter("choose one of --pairs and --least")
    if least is not None and math.isnan(least):
        raise typer.BadParameter("must be a share from 0 to 1", param_hint="--least")
    endings = RESULTS if pairs is None and least is None else TABLES
    if out not in (None, "-") and ending(out) not in endings:
        raise typer.BadParameter(f"must end in {_listed(endings)}, or be -", param_hint="--out")
    _check_apart(out, data, pairs)
    trained = Trained(run, model, device, _count(replicas))
    if data is not None and least is None and out is not None and out != "-":
        given, output = Given(data, text=text, separator=separator), Output(out, own, overwrite)
        work = partial(parts.predict, trained=trained, data=given, out=output)
        _show_shared(work, own, engine, workers)
        return
    file = None if out is None else local(out)
    check_alone(own, workers, "--data and --out FILE, without --least")
    _check_new(file, overwrite=overwrite)
    from ..results.persistence import load

    if pairs is not None:
        _predict_pairs(load(run, model_class(model)), run, pairs, file, separator)
        return
    assert data is not None
    from ..reports.lines import prediction_lines
    from ..results.predictions import json_lines, predict_blocks
    from ..results.topic_shares import topic_model
    from ..runs.model_inputs import open_for

    learner = load(run, model_class(model), device=device, replicas=_count(replicas))
    if least is not None:
        topic_model(learner)
    source = open_for(learner, run, data, text=text, separator=separator)
    blocks = predict_blocks(learner, source)
    if least is not None:
        _show_topics(learner, blocks, least, file)
    else:
        show_lines(prediction_lines(learner, blocks) if out is None else json_lines(blocks))


def factors(
    run: RunArgument,
    state: Annotated[str, typer.Argument(metavar="STATE", help="Such as users or items, of ALS.")],
    out: Annotated[
        Path,
        typer.Option(
            "--out", metavar="FILE", help=".parquet, .csv, .tsv or .npy file to write to."
        ),
    ],
    overwrite: OverwriteOption = False,
    model: ModelClassOption = None,
    verbose: VerboseOption = False,
) -> None:
    """Write factors of users or items, or states of rows."""
    if out.suffix not in RESULTS:
        raise typer.BadParameter(f"must end in {_listed(RESULTS)}", param_hint="--out")
    _check_new(out, overwrite=overwrite)
    from ..results.persistence import load
    from ..results.predictions import count, state_blocks, write_predictions

    learner = load(run, model_class(model))
    rows = count(learner, state)
    write_predictions(out, state_blocks(learner, state), rows)
    show_lines([f"{out}: {rows:,} rows"])


def export(
    run: RunArgument,
    to: Annotated[
        Path,
        typer.Option(
            "--to",
            metavar="FILE",
            help=".npz: everything; .parquet, .csv, .tsv: a row per word, item or user; .npy: an "
            "array; .vec, .bin: word2vec's text and bytes; no ending: a folder of .parquet files.",
        ),
    ],
    tensor: Annotated[
        str | None, typer.Option("--tensor", metavar="NAME", help="One tensor of the model [all].")
    ] = None,
    overwrite: OverwriteOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Write a model's numbers and names for other programs."""
    from ..storage.export import check, check_free
    from ..storage.export import export as write
    from ..storage.model_folder import load

    saved = load(run, mapped=True)
    try:
        check(saved, to, tensor)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    if not overwrite:
        check_free(saved, to, tensor)
    show_lines(write(saved, to, tensor))


def evaluate(
    run: RunArgument,
    data: DataOption,
    targets: Annotated[
        Path | None,
        typer.Option("--targets", metavar="FILE", help="Targets of rows: .npy, .npz or .mtx."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="As one JSON object.")] = False,
    separator: SeparatorOption = None,
    text: FieldOption = None,
    device: DeviceOption = "cpu",
    replicas: ReplicasOption = "1",
    engine: EngineOption = None,
    workers: WorkersOption = None,
    model: ModelClassOption = None,
    verbose: VerboseOption = False,
) -> None:
    """Score a model on data that it was not trained on.

    Several workers share the blocks; the scores are those of one.
    """
    from blocklearn.datasources import DataError

    from ..reports.lines import score_lines

    trained, given = (
        Trained(run, model, device, _count(replicas)),
        Given(data, targets, text, separator),
    )
    scores, crew = shared(partial(parts.evaluate, trained=trained, data=given), engine, workers)
    if not crew.leads:
        return
    known = {name: value for name, value in scores.items() if not math.isnan(value)}
    missing = ", ".join(name for name in scores if name not in known)
    if not known:
        raise DataError(f"{data}: nothing to score: no row or token counts for {missing}.")
    if missing:
        say(f"{data}: no value for {missing}: no row or token counts for it")
    show_lines(score_lines(scores if json else known, json))


def recommend(
    run: RunArgument,
    users: Annotated[
        Path | None, typer.Option("--users", metavar="FILE", help="Ids, one a line [all users].")
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            "--data", metavar="FILE", help="Ratings by new users, to make lists for these."
        ),
    ] = None,
    top: TopOption = 10,
    items: Annotated[
        Path | None,
        typer.Option("--items", metavar="FILE", help="Ids of items that may be listed [all]."),
    ] = None,
    seen: Annotated[
        Path | None,
        typer.Option("--seen", metavar="FILE", help="Ratings to leave out [training data]."),
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
    verbose: VerboseOption = False,
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
    _check_table(out)
    _check_apart(out, users, data, items, seen)
    trained = Trained(run, model, device)
    wanted = Wanted(users, data, top, items, seen, include_seen, skip_unknown)
    if out is not None:
        output = Output(out, own, overwrite)
        work = partial(parts.recommend, trained=trained, wanted=wanted, out=output)
        _show_shared(work, own, engine, workers)
        return

    from ..engines.crew import Crew

    check_alone(own, workers, "--out FILE")
    _show_lists(wanted.lists(Crew(), trained, (0, 1)), None, json)


def similar(
    run: RunArgument,
    items: Annotated[
        Path | None, typer.Option("--items", metavar="FILE", help="Ids of items, one a line.")
    ] = None,
    users: Annotated[
        Path | None, typer.Option("--users", metavar="FILE", help="Ids of users, one a line.")
    ] = None,
    words: Annotated[
        Path | None, typer.Option("--words", metavar="FILE", help="Words, one a line.")
    ] = None,
    top: TopOption = 10,
    skip_unknown: SkipOption = False,
    out: ListsOption = None,
    overwrite: OverwriteOption = False,
    json: Annotated[bool, typer.Option("--json", help="A JSON object per line.")] = False,
    device: DeviceOption = "cpu",
    model: ModelClassOption = None,
    verbose: VerboseOption = False,
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

    _check_table(out)
    _check_apart(out, path)
    place = None if out is None else Output(out, overwrite=overwrite).of(Crew())[0]
    from ..recommendation import recommend as recommending
    from ..results.persistence import load
    from ..runs.rating_inputs import known_ids

    learner = load(run, model_class(model), device=device)
    ids = known_ids(learner, path, side, skip_unknown=skip_unknown)
    _show_lists(recommending.similar(learner, side, ids, top), place, json)


def _predict_pairs(
    learner: "Learner", run: Path, file: Path, out: Path | None, separator: str | None
) -> None:
    from ..recommendation.pairs import predict_pairs
    from ..runs.rating_inputs import pairs_in

    found = predict_pairs(learner, *pairs_in(run, file, separator))
    if out is None or str(out) == "-":
        show_lines(found.lines() if out is None else found.json_lines())
        return
    found.write(out)
    show_lines([f"{out}: {len(found.values):,} rows"])


def _show_topics(
    learner: "Learner", blocks: "Iterable[Predicted]", least: float, out: Path | None
) -> None:
    from ..reports.lines import topic_names, topic_share_lines
    from ..results.topic_shares import topic_json_lines, write_topics

    if out is None:
        show_lines(topic_share_lines(learner, blocks, least))
        return
    names = topic_names(learner)
    if str(out) == "-":
        show_lines(topic_json_lines(learner, blocks, least, names))
        return
    show_lines([f"{out}: {write_topics(out, learner, blocks, least, names):,} rows"])


def _count(replicas: str) -> int | Literal["auto"]:
    if replicas == "auto":
        return "auto"
    if not replicas.isdecimal() or int(replicas) < 1:
        raise typer.BadParameter("must be a number above 0, or auto", param_hint="--replicas")
    return int(replicas)


def _check_table(out: str | None) -> None:
    if out is not None and ending(out) not in TABLES:
        raise typer.BadParameter(f"must end in {_listed(TABLES)}", param_hint="--out")


def _listed(endings: Sequence[str]) -> str:
    return f"{', '.join(endings[:-1])} or {endings[-1]}"


def _show_shared(
    work: "Callable[[Crew], list[str]]",
    part: Part | None,
    engine: Engine | None,
    workers: int | None,
) -> None:
    """Write the part of `--part`, or let all workers write theirs; print a line on each file."""
    from ..engines.crew import Crew

    if part is not None:
        show_lines(work(Crew()))
        return
    lines, crew = shared(work, engine, workers)
    if crew.leads:
        show_lines(lines)


def _check_apart(out: Path | str | None, *read: Path | str | None) -> None:
    """Raise BadParameter if the results would replace a file that the command reads."""
    for each in read:
        there = out is not None and each is not None and Path(out).exists() and Path(each).exists()
        if there and os.path.samefile(str(out), str(each)):
            raise typer.BadParameter(f"{out}: would replace what is read", param_hint="--out")


def _check_new(out: Path | None, *, overwrite: bool) -> None:
    """Refuse a file that exists, before any work is done for it. "-" is standard output."""
    from ..files.existing import check_new

    if out is not None and str(out) != "-" and not overwrite:
        check_new([out])


def _show_lists(lists: "Lists", out: "Place | None", json: bool) -> None:
    from blocklearn.datasources.remote import local_name

    from ..recommendation.lists import write_lists

    if out is None:
        show_lines(lists.json_lines() if json else lists.lines())
        return
    with local_name(out) as file:
        count = write_lists(file, lists)
    show_lines([f"{out}: {count:,} rows"])
