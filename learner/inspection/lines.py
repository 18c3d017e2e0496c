"""Turn a report of `inspection.inspect` into text."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..figures import number, size
from ..storage.model_folder import LOST
from .advice import called
from .table_report import table_pairs

Report = Mapping[str, Any]


def lines(report: Report, name: str) -> Iterator[str]:
    """Yield the lines of a report on `name`."""
    if report["kind"] == "model":
        yield f"{name}: a model"
        yield from table(model_pairs(report))
    elif report["kind"] == "run":
        yield f"{name}: a run"
        yield from table([*run_pairs(report), *(model_pairs(report) if report["model"] else ())])
    elif report["kind"] == "table":
        yield f"{name}: {report['what']}"
        yield from table(table_pairs(dict(report)))
        yield from (f"- {sentence}" for sentence in report["slow"])
        yield f"- `learn init MODEL {name}` writes a configuration for it"
    else:
        yield f"{name}: {report['what']}"
        yield from table([*data_pairs(report), *block_pairs(report)])
        for note in report["notes"]:
            yield f"note: {note}"
        for sentence in report["slow"]:
            yield f"- {sentence}"


def table(pairs: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Yield lines of a name and its text, aligned."""
    width = max(len(name) for name, _ in pairs)
    for name, words in pairs:
        yield f"  {name.ljust(width)}  {words}"


def data_pairs(report: Report) -> list[tuple[str, str]]:
    """Return names and texts on the rows of data."""
    rows, columns, nnz = report["rows"], report["columns"], report["nnz"]
    files = f", {report['files']} files" if report["files"] > 1 else ""
    names = "with names" if report["named_columns"] else "without names"
    kind = "dense" if report["dense"] else "sparse"
    found = [
        ("size", size(report["bytes"]) + files),
        ("rows", f"{rows:,}, {report['empty_rows']:,} of them empty"),
        ("columns", f"{columns:,} {names}{empty(report)}"),
        ("non-zeros", f"{nnz:,}: {number(nnz / rows)} a row, {nnz / rows / columns:.3g} of all "
                      f"places; stored as {kind}"),
        ("values", numbers(report["values"])),
        ("longest rows", top(report["longest_rows"], report["share_of_longest_rows"])),
    ]  # fmt: skip
    if report["fullest_columns"]:
        share = report["share_of_fullest_columns"]
        found.append(("fullest columns", top(report["fullest_columns"], share)))
    for target in report["targets"][:MOST_TARGETS]:
        called_so = "target" if target["name"] is None else f"target {target['name']}"
        found.append((called_so, numbers(target)))
    if len(report["targets"]) > MOST_TARGETS:
        found.append(("targets", f"{len(report['targets']):,} in all"))
    if report["weights"] is not None:
        found.append(("weights", numbers(report["weights"])))
    return found


MOST_TARGETS = 8


def block_pairs(report: Report) -> list[tuple[str, str]]:
    """Return names and texts on blocks and row groups."""
    found = []
    if "blocks" in report:
        both = "both orientations" if report["orientations"] == 2 else "one orientation"
        found += [
            ("blocks", f"{report['blocks']:,} of {report['block_rows']:,} rows, {both}"),
            ("bytes a block", bytes_of(report["block_bytes"]) + f" stored ({report['codec']}), "
                              + bytes_of(report["block_decoded_bytes"]) + " in memory"),
            ("stripes", str(report["stripes"])),
            ("made from", report["origin"]),
        ]  # fmt: skip
    if "row_groups" in report:
        groups = report["row_groups"]
        found += [
            ("row groups", f"{groups['count']:,} of {groups['least']:,} to {groups['largest']:,} "
                           f"rows, {bytes_of(report['row_group_bytes'])} in memory"),
        ]  # fmt: skip
    return found


def model_pairs(report: Report) -> list[tuple[str, str]]:
    """Return names and texts on a model."""
    arrays = (
        f"{name} {' x '.join(map(str, shape))}{row_words(report['ranges'].get(name), shape)}"
        for name, shape in report["arrays"].items()
    )
    settings = (f"{name}={value}" for name, value in report["config"].items() if value is not None)
    scores = (
        f"{name} {f'{value:,}' if isinstance(value, int) else number(value)}"
        for name, value in report["metrics"].items()
        if isinstance(value, int | float) and "/" not in name
    )
    lost = report["metrics"].get(LOST)
    return [
        ("model", f"{report['model']}, made {report['created']}, {size(report['bytes'])}"),
        ("arrays", ", ".join(arrays)),
        ("settings", ", ".join(settings)),
        ("at the end", ", ".join(scores)),
        *([] if lost is None else [("lost best model", lost)]),
    ]


def row_words(found: Mapping[str, float] | None, shape: Sequence[int]) -> str:
    """Return the range of an array of one row in brackets, or nothing."""
    if found is None:
        return ""
    if shape[1] == 1:
        return f" ({number(found['sum'])})"
    return f" ({number(found['least'])} to {number(found['largest'])}, sum {number(found['sum'])})"


def run_pairs(report: Report) -> list[tuple[str, str]]:
    """Return names and texts on a run."""
    state = "finished: its model is here" if report["model"] else "no model yet: --resume auto"
    return [
        ("started", f"{report['started']} on {report['host']}"),
        ("state", state),
        ("configuration", report["config_file"]),
        ("checkpoints", ", ".join(report["checkpoints"]) or "none"),
        ("evaluations", f"{report['evaluations']:,}"),
    ]


def numbers(found: Report) -> str:
    """Return `whole numbers from 1 to 30, 2 of them 0`."""
    if not found["count"]:
        return "none"
    ends = found["least"], found["largest"]
    if found["whole"]:
        text = "whole numbers from {:,.0f} to {:,.0f}".format(*ends)
    else:
        text = "numbers from {} to {}".format(*map(number, ends))
    for what in ("zeros", "negatives"):
        if found[what]:
            text += f", {found[what] / found['count']:.3g} of them {WORDS[what]}"
    return text


WORDS = {"zeros": "0", "negatives": "negative"}


def top(found: Sequence[Report], share: float) -> str:
    """Return `'the' (90), 'of' (70); the first 1 % have 12 % of all`."""
    named = ", ".join(f"{called(item)} ({item['nnz']:,})" for item in found)
    return f"{named}; the first 1 % have {share:.1%} of all"


def empty(report: Report) -> str:
    """Return `, 3 of them empty`."""
    return "" if report["empty_columns"] is None else f", {report['empty_columns']:,} of them empty"


def bytes_of(found: Report) -> str:
    """Return `1.2 MB to 3.4 MB`, or one of them if they are the same."""
    least, largest = size(found["least"]), size(found["largest"])
    return least if least == largest else f"{least} to {largest}"
