"""Commands that show, score or export a trained model: `learn topics`, `learn evaluate`, ...

Nothing heavy is imported before one runs.
"""

import math
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from ..terminal import say, show_lines, show_text
from . import parts
from .options import (
    RESULTS,
    DataOption,
    DeviceOption,
    FieldOption,
    JsonOption,
    ModelClassOption,
    OverwriteOption,
    ReplicasOption,
    RunArgument,
    TrainedSeparatorOption,
    check_new,
    count_of,
    file_option,
    listed,
    model_class,
)
from .parts import Given, Trained
from .sharing import EngineOption, WorkersOption, shared


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
) -> None:
    """Print the first words of each topic."""
    from ..reports.lines import topic_lines, topics_json
    from ..results.persistence import load

    learner = load(run, model_class(model))
    if json:
        show_text(topics_json(learner, top, relevance))
    else:
        show_lines(topic_lines(learner, top, relevance))


def factors(
    run: RunArgument,
    state: Annotated[
        str, typer.Argument(metavar="STATE", help="Name of the state: users or items of ALS.")
    ],
    out: Annotated[Path, file_option("--out", ".parquet, .csv, .tsv or .npy file to write to.")],
    overwrite: OverwriteOption = False,
    model: ModelClassOption = None,
) -> None:
    """Write factors of users or items, or states of rows."""
    if out.suffix not in RESULTS:
        raise typer.BadParameter(f"must end in {listed(RESULTS)}", param_hint="--out")
    check_new(out, overwrite=overwrite)
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
        file_option(
            "--to",
            ".npz: everything; .parquet, .csv, .tsv: a row per word, item or user; .npy: an "
            "array; .vec, .bin: word2vec's text and bytes; no ending: a folder of .parquet files.",
        ),
    ],
    tensor: Annotated[
        str | None, typer.Option("--tensor", metavar="NAME", help="One tensor of the model [all].")
    ] = None,
    overwrite: OverwriteOption = False,
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
        Path | None, file_option("--targets", "Targets of rows: .npy, .npz or .mtx.")
    ] = None,
    json: JsonOption = False,
    separator: TrainedSeparatorOption = None,
    text: FieldOption = None,
    device: DeviceOption = "cpu",
    replicas: ReplicasOption = "1",
    engine: EngineOption = None,
    workers: WorkersOption = None,
    model: ModelClassOption = None,
) -> None:
    """Score a model on data that it was not trained on.

    Several workers share the blocks; the scores are those of one.
    """
    from blocklearn.datasources import DataError

    from ..reports.lines import score_lines

    trained, given = (
        Trained(run, model, device, count_of(replicas)),
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
