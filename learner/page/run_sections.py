"""Sections of every run: scores, speed, time, memory, settings."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..choosing.parts import held_out
from ..configuration.leaves import flat
from ..drawing.charts import Bar, Curve, bars, legend, line_chart, strip, strips
from ..drawing.markup import Markup, tag
from ..figures import duration, number, overall, size
from ..inspection.run_record import RunRecord
from ..storage.model_folder import LOST
from ..watch.events import scores_of
from .frame import figure, figures, section, table, tiles

SHOWN = 1e-6  # seconds; less is an error of rounding
PARTS = {"compute": 1, "read": 2, "copy": 3, "merge": 4, "other": 5}
"""Parts of the time, with their colours."""
ARRAYS = 12  # arrays of the plan with a bar of their own
WAITING = 0.25  # share of the time from which a part gets a remark
RANKING = ("ndcg@", "precision@", "recall@", "map@", "mrr@", "auc@")
REMARKS = {
    "read": "The model waited for data: a faster disk, more readers, learn convert, or smaller "
    "blocks may help.",
    "copy": "Much time went into bringing blocks to the model.",
    "merge": "Much time went into merging replicas: a higher learner.sync_every merges less often.",
    "other": "Replicas waited for each other, or for Python between two blocks: larger blocks may "
    "help.",
}


def headline(run: RunRecord) -> Markup:
    """Return the few most wanted numbers."""
    last, passes = run.last, run.settings.get("learner", {}).get("passes", "?")
    state = "finished" if run.finished else "not finished" if run.events else "not begun"
    entries = [("state", state), (f"passes of {passes}", f"{last.get('pass', 0):,}")]
    entries += [(name, number(value)) for name, value in list(overall(run.scores).items())[:2]]
    if last:
        entries.append(("training time", duration(last["seconds"])))
    if run.rows_per_s:
        entries.append(("rows/s", f"{run.rows_per_s:,.0f}"))
    if run.events:
        entries.append(("most memory", size(max(event["host_bytes"] for event in run.events))))
    return tiles(entries)


def warnings(run: RunRecord) -> Iterator[Markup]:
    """Yield warnings that a reader must not miss."""
    if LOST in run.model:
        text = f"The best model is lost; this is the last one. The best had {run.model[LOST]}"
        yield tag("p", text, class_="hint")


def score_sections(run: RunRecord, against: RunRecord | None = None) -> Iterator[Markup]:
    """Yield curves of held-out and training scores; ranking scores by themselves.

    against: a run whose held-out scores are drawn, too.
    """
    events = run.of("eval") or run.of("train")
    names = overall(dict.fromkeys((n for event in events for n in scores_of(event)), 0.0))
    charts = {name: list(_score(run, name, against)) for name in names}
    ranking = [part for name in names if name.startswith(RANKING) for part in charts[name]]
    others = [part for name in names if not name.startswith(RANKING) for part in charts[name]]
    if others:
        yield section("Scores", figures(others), note="by passes")
    if ranking:
        note = "of lists of items for a sample of users, by passes"
        yield section("Ranking", figures(ranking), note=note)


def _score(run: RunRecord, name: str, against: RunRecord | None) -> Iterator[Markup]:
    curves = [] if against is None else list(_curve(against, name, "eval", against.name, 5))
    curves += _curve(run, name, "train", "rows to be trained on", 2)
    curves += _curve(run, name, "eval", "held out", 1)
    if curves:
        chart = line_chart(curves, x_label="passes")
        texts = {curve.name: number(curve.y[-1]) for curve in curves}
        colors = {curve.name: curve.color for curve in curves}
        yield figure(name, number(curves[-1].y[-1]), chart, legend(texts, colors))


def _curve(run: RunRecord, name: str, kind: str, title: str, color: int) -> Iterator[Curve]:
    """Yield the curve of a score over the passes, if the run has it."""
    blocks = max((event["batch"] for event in run.events), default=1) or 1
    known = [event for event in run.of(kind) if event.get(name) is not None]
    if kind == "train":  # the score of the untrained model would flatten the rest
        known = known[1:]
    if known:
        x = [event["pass"] - 1 + event["batch"] / blocks for event in known]
        yield Curve(title, x, [float(event[name]) for event in known], color)


def speed_section(run: RunRecord) -> Iterator[Markup]:
    """Yield rows per second and the fill of the queue, over the training time."""
    train = [event for event in run.of("train") if event["rows_per_s"] is not None]
    if not train:
        return
    x = [event["seconds"] for event in train]
    charts = []
    for title, name, unit in [
        ("rows/s", "rows_per_s", 1.0),
        ("gflops", "gflops", 1.0),
        ("data, MB/s", "gb_per_s", 1000.0),
    ]:
        y = [float(event[name] or 0.0) * unit for event in train]
        chart = line_chart([Curve(title, x, y, steps=True)], x_label="seconds", zero=True)
        mean = float(np.average(y, weights=np.diff([0.0, *x])))
        charts.append(
            figure(title, f"mean {round(mean):,}" if mean > 99 else f"mean {mean:.3g}", chart)
        )
    yield section("Speed", figures(charts), note="over the training time")


def time_section(run: RunRecord) -> Iterator[Markup]:
    """Yield where the time went, in total and over training."""
    train = run.of("train")
    ends = [event["seconds"] for event in train]
    if not ends or ends[-1] <= 0:
        return
    parts = {name: [event[f"{name}_s"] for event in train] for name in PARTS if name != "other"}
    starts = [0.0, *ends[:-1]]
    parts["other"] = [
        max(0.0, end - start - sum(values[i] for values in parts.values()))
        for i, (start, end) in enumerate(zip(starts, ends, strict=True))
    ]
    sums = {name: sum(values) for name, values in parts.items()}
    whole = sum(sums.values()) or 1.0
    texts = {n: f"{duration(s)}, {s / whole:.0%}" for n, s in sums.items() if s > SHOWN}
    yield section(
        "Where the time went",
        figures(
            [
                tag("figure", strip(sums, PARTS), legend(texts, PARTS), class_="wide"),
                figure("shares as training went on", "", strips(ends, parts, PARTS, "seconds")),
                *_queue(train),
            ]
        ),
        *(tag("p", REMARKS[n], class_="hint") for n in REMARKS if sums[n] > WAITING * whole),
        note="without evaluations; where the queue is near 0 %, the model waits for data",
    )


def _queue(train: Sequence[Mapping[str, Any]]) -> Iterator[Markup]:
    known = [event for event in train if event["queue"] is not None]
    if known:
        y = [100 * event["queue"] for event in known]
        curve = Curve("queue", [event["seconds"] for event in known], y, 2, steps=True)
        chart = line_chart([curve], x_label="seconds", zero=True, top=100)
        yield figure("reader's queue, % full", f"last {y[-1]:.0f}%", chart)


def memory_section(run: RunRecord) -> Iterator[Markup]:
    """Yield the plan, array by array, and the memory that was used."""
    charts = []
    if run.plan:
        held = [
            (f"{row.copies} x {row.name}" if row.copies > 1 else row.name, row.held)
            for row in run.plan.rows
        ]
        rows = bars(list(_arrays(held)))
        charts.append(figure("planned", size(run.plan.total), rows, class_="double"))
        there = [(row.name, row.nbytes) for row in run.plan.rows if row.device]
        if there:
            rows = bars(list(_arrays(there)))
            title = "planned on the device of each replica"
            charts.append(figure(title, size(run.plan.on_device), rows, class_="double"))
    events = [event for event in run.of("train") if event["host_bytes"]]
    if events:
        x = [event["seconds"] for event in events]
        curves = [
            Curve("process", x, [event["host_bytes"] / 1e6 for event in events], 1),
            Curve("arrays of training", x, [event["cache_bytes"] / 1e6 for event in events], 3),
        ]
        colors = {curve.name: curve.color for curve in curves}
        latest = {curve.name: size(round(curve.y[-1] * 1e6)) for curve in curves}
        chart = line_chart(curves, x_label="seconds", zero=True)
        charts.append(figure("taken, MB", "", chart, legend(latest, colors)))
        charts += _disk_chart(events)
    if charts:
        yield section("Memory", figures(charts))


def _disk_chart(events: Sequence[Mapping[str, Any]]) -> list[Markup]:
    """Return the chart of bytes that were read from disks and written; none where unknown."""
    known = [event for event in events if event.get("disk_read_bytes") is not None]
    if not known:
        return []
    x, last = [event["seconds"] for event in known], known[-1]
    named = {"read": "disk_read_bytes", "written": "disk_written_bytes"}
    curves = [
        Curve(name, x, [event[field] / 1e6 for event in known], color)
        for (name, field), color in zip(named.items(), (1, 3), strict=True)
    ]
    colors = {curve.name: curve.color for curve in curves}
    latest = {name: size(last[field]) for name, field in named.items()}
    told = f"{last['page_waits']:,} pages were waited for"
    if asked := last.get("table_pages"):
        share = last["table_page_hits"] / asked
        told += f"; {share:.0%} of {asked:,} pages of tables were in memory when asked for"
    if (waited := last.get("table_wait_s")) is not None:
        told += f"; training waited {waited:,.1f} s for them"
    chart = line_chart(curves, x_label="seconds", zero=True)
    return [figure("disks, MB", told, chart, legend(latest, colors))]


def _arrays(named: list[tuple[str, int]]) -> Iterator[Bar]:
    """Yield arrays by their bytes, the largest first."""
    held = sorted((item for item in named if item[1]), key=lambda item: -item[1])
    for name, nbytes in held[:ARRAYS]:
        yield Bar(name, nbytes, size(nbytes))
    rest = sum(nbytes for _, nbytes in held[ARRAYS:])
    if rest:
        yield Bar(f"{len(held) - ARRAYS} smaller arrays", rest, size(rest))


def choice_section(run: RunRecord) -> Iterator[Markup]:
    """Yield the settings that were tried before training, and which were chosen."""
    if not run.tried:
        return
    chosen, metric, rows = run.tried["settings"], run.tried["metric"], []
    for tried in run.tried["tried"]:
        each = dict(tried)
        score = each.pop("score")
        settings = [f"{name} {value:g}" for name, value in each.items() if value is not None]
        told = "-" if score is None else number(score)
        rows.append((", ".join(settings), told, "chosen" if each == chosen else ""))
    judges = held_out(run.tried.get("parts", 1))  # earlier versions had one
    note = f"by trainings of {run.tried['passes']} passes, judged on {judges}"
    yield section("Chosen settings", table(["settings", metric, ""], rows), note=note)


def settings_section(run: RunRecord) -> Markup:
    """Return all settings, and where and when the run started."""
    mark = run.mark
    where = [
        ("started", str(mark.get("started", "?"))),
        ("host", str(mark.get("host", "?"))),
        ("command", " ".join(map(str, mark.get("command", [])))),
        ("in", str(mark.get("folder", "?"))),
        ("blocklearn", str(mark.get("blocklearn", "?"))),
        ("last event", str(run.last.get("ts", "-"))),
    ]
    settings = [(name, shown(value)) for name, value in flat(run.settings)]
    return section(
        "Settings",
        tag("div", table([], where), class_="pairs"),
        tag(
            "details",
            tag("summary", f"all {len(settings)} settings"),
            tag("div", table(["setting", "value"], settings), class_="pairs"),
        ),
    )


def shown(value: Any) -> str:
    """Return a setting as YAML."""
    return value if isinstance(value, str) else json.dumps(value)


def subtitle(run: RunRecord) -> str:
    """Return `lda on python-docs`, as far as the settings tell."""
    model: Mapping[str, Any] = run.settings.get("model", {})
    data: Mapping[str, Any] = run.settings.get("data", {}).get("train", {})
    name = data.get("path") or data.get("kind") or "?"
    return f"{model.get('kind', 'a model')} on {name}"
