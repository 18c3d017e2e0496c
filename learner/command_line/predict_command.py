"""Apply a trained model to new data: `learn predict`.

Nothing heavy is imported before it runs.
"""

import math
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..storage.table_file import TABLES
from ..terminal import show_lines
from . import parts
from .options import (
    DATA,
    RESULTS,
    DeviceOption,
    FieldOption,
    ModelClassOption,
    OverwriteOption,
    ReplicasOption,
    RunArgument,
    TrainedSeparatorOption,
    check_apart,
    check_new,
    count_of,
    ending,
    file_option,
    listed,
    local,
    model_class,
)
from .parts import Given, Output, Trained
from .sharing import EngineOption, PartOption, WorkersOption, check_alone, part_of, show_shared

if TYPE_CHECKING:
    from ..learner import Learner
    from ..results.predictions import Predicted


def predict(
    run: RunArgument,
    data: Annotated[str | None, DATA] = None,
    pairs: Annotated[
        Path | None,
        file_option(
            "--pairs", "Predict the ratings of these pairs: a user and an item per record."
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
            help="Topics: write only those with this share of a row or more, such as 0.01, each in "
            "a row of its own.",
        ),
    ] = None,
    overwrite: OverwriteOption = False,
    separator: TrainedSeparatorOption = None,
    text: FieldOption = None,
    device: DeviceOption = "cpu",
    replicas: ReplicasOption = "1",
    part: PartOption = None,
    engine: EngineOption = None,
    workers: WorkersOption = None,
    model: ModelClassOption = None,
) -> None:
    """Apply a model to each row of a file.

    Without --out, print a readable line per row.

    LDA, NMF: the shares of topics or parts; --least leaves small ones out.

    ALS: the factors of each user (row), or with --pairs the rating of each pair.

    Several workers, or machines with --part, each write the rows of their part to a file.
    """
    own = part_of(part, engine, workers)
    _check_choices(data, pairs, out, least)
    trained = Trained(run, model, device, count_of(replicas))
    if data is not None and least is None and out is not None and out != "-":
        given, output = Given(data, text=text, separator=separator), Output(out, own, overwrite)
        work = partial(parts.predict, trained=trained, data=given, out=output)
        show_shared(work, own, engine, workers)
        return
    file = None if out is None else local(out)
    check_alone(own, workers, "--data and --out FILE, without --least")
    check_new(file, overwrite=overwrite)
    from ..results.persistence import load

    if pairs is not None:
        _predict_pairs(load(run, model_class(model)), run, pairs, file, separator)
        return
    assert data is not None
    from ..engines.crew import Crew
    from ..reports.lines import prediction_lines
    from ..results.predictions import json_lines, predict_blocks
    from ..results.topic_shares import topic_model

    learner = load(run, model_class(model), device=device, replicas=count_of(replicas))
    if least is not None:
        topic_model(learner)
    given = Given(data, text=text, separator=separator)
    with given.opened(Crew(), learner, run) as source:
        blocks = predict_blocks(learner, source)
        if least is not None:
            _show_topics(learner, blocks, least, file)
        else:
            show_lines(prediction_lines(learner, blocks) if out is None else json_lines(blocks))


def _check_choices(
    data: str | None, pairs: Path | None, out: str | None, least: float | None
) -> None:
    """Raise BadParameter for options of `predict` that do not go together."""
    if (data is None) == (pairs is None):
        raise typer.BadParameter("choose one of --data and --pairs")
    if pairs is not None and least is not None:
        raise typer.BadParameter("choose one of --pairs and --least")
    if least is not None and math.isnan(least):
        raise typer.BadParameter("must be a share from 0 to 1", param_hint="--least")
    endings = RESULTS if pairs is None and least is None else TABLES
    if out not in (None, "-") and ending(out) not in endings:
        raise typer.BadParameter(f"must end in {listed(endings)}, or be -", param_hint="--out")
    check_apart(out, data, pairs)


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
