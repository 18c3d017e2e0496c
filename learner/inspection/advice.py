"""Advice on data that would be slow or fail, and the remedy: one function per observation.

Each function takes the report of `inspection.data_report` and returns a sentence or None.
"""

from collections.abc import Callable, Mapping, Sequence
from math import log2
from typing import Any

from ..figures import size

Report = Mapping[str, Any]
SMALL_BLOCK, LARGE_BLOCK = 1 << 18, 1 << 28  # decoded bytes
SMALL_GROUP = 1 << 20  # decoded bytes of a Parquet row group
LONG_ROW = 0.2  # share of the non-zeros of a mean block
UNEVEN = 3.0  # the fullest block, in mean blocks
MOSTLY_ZERO, MOSTLY_FULL = 0.8, 0.5
BLOCK_BYTES = 1 << 24  # decoded size that a block should have
EXACT = 1 << 24  # whole numbers up to this one are exact in float32


def advise(report: Report) -> list[str]:
    """Return all advice on a report."""
    found = (check(report) for check in CHECKS)
    return [sentence for sentence in found if sentence is not None]


def advise_on_groups(report: Report) -> list[str]:
    """Return advice on the row groups of a Parquet file with any columns."""
    found = (small_groups(report), large_groups(report))
    return [sentence for sentence in found if sentence is not None]


def not_blocks(report: Report) -> str | None:
    """Advise to convert formats that are parsed or sorted before each run."""
    if report["kind"] in ("blocks", "parquet"):
        return None
    return (
        f"{report['what']} is parsed anew for every run: `learn convert` with the same "
        "options makes blocks, which need no parsing; "
        f"{rows_of_a_block(report):,} rows each are enough (--block-rows)."
    )


def small_blocks(report: Report) -> str | None:
    """Advise against blocks that cost more in handling than in work."""
    if report.get("blocks", 0) < 2 or report["block_decoded_bytes"]["mean"] >= SMALL_BLOCK:
        return None
    return (
        f"blocks of {size(int(report['block_decoded_bytes']['mean']))} on average are small: "
        f"convert with --block-rows {rows_of_a_block(report)}."
    )


def large_blocks(report: Report) -> str | None:
    """Advise against blocks so large that several fill the memory."""
    if report.get("blocks", 0) < 1 or report["block_decoded_bytes"]["largest"] <= LARGE_BLOCK:
        return None
    return (
        f"the largest block has {size(report['block_decoded_bytes']['largest'])}, and several are "
        f"in memory at a time: convert with --block-rows {rows_of_a_block(report)}."
    )


def uneven_blocks(report: Report) -> str | None:
    """Advise to even out blocks, because every buffer has the size of the fullest one."""
    nnz = report.get("block_nnz")
    if nnz is None or report["dense"] or nnz["largest"] <= UNEVEN * nnz["mean"]:
        return None
    return (
        f"the fullest block has {nnz['largest']:,} non-zeros, a mean one {nnz['mean']:,.0f}; every "
        "buffer has room for the fullest: mix the rows before converting, or use more rows per "
        "block."
    )


def one_orientation(report: Report) -> str | None:
    """Advise to store both orientations for models that solve for rows and columns."""
    if report.get("orientations") != 1 or report["dense"]:
        return None
    return (
        "it has one orientation, which is all that most models need; ALS also reads the columns: "
        "convert with --both-orientations."
    )


def one_long_row(report: Report) -> str | None:
    """Advise to divide a row that is as full as many others together."""
    if report["dense"] or not report["longest_rows"] or report["rows"] < 2:
        return None
    row, block = report["longest_rows"][0], report.get("block_rows", 1024)
    mean = report["nnz"] / report["rows"]
    if row["nnz"] <= LONG_ROW * mean * min(block, report["rows"]) or row["nnz"] <= 50 * mean:
        return None
    return (
        f"row {called(row)} has {row['nnz']:,} non-zeros, {row['nnz'] / mean:,.0f} times the mean; "
        "the thread that gets it works alone: divide it, or leave it out."
    )


def small_groups(report: Report) -> str | None:
    """Advise against small row groups, Parquet's unit of reading."""
    groups = report.get("row_group_bytes")
    if groups is None or groups["count"] < 2 or groups["mean"] >= SMALL_GROUP:
        return None
    return (
        f"row groups of {size(int(groups['mean']))} on average are small, and each is read on its "
        "own: write the files with row_group_size=100_000 or more, or convert them."
    )


def large_groups(report: Report) -> str | None:
    """Advise against row groups so large that one fills the memory."""
    groups = report.get("row_group_bytes")
    if groups is None or groups["largest"] <= LARGE_BLOCK:
        return None
    return (
        f"the largest row group has {size(groups['largest'])}, and a row group is decoded whole: "
        "write the files with a smaller row_group_size."
    )


def zeros_in_dense_rows(report: Report) -> str | None:
    """Advise to store tables of many zeros as sparse."""
    values = report["values"]
    if not report["dense"] or values["zeros"] <= MOSTLY_ZERO * values["count"]:
        return None
    return (
        f"{values['zeros'] / values['count']:.0%} of the numbers are 0, and each costs as much as "
        "any other: convert with --sparse."
    )


def full_sparse_rows(report: Report) -> str | None:
    """Advise to store full rows as dense."""
    if report["dense"] or report["nnz"] <= MOSTLY_FULL * report["rows"] * report["columns"]:
        return None
    return (
        f"{report['nnz'] / (report['rows'] * report['columns']):.0%} of all places are filled; a "
        "dense table (.npy, CSV) is read and multiplied faster."
    )


def negative_numbers(report: Report) -> str | None:
    """Warn of negative numbers, which models of counts refuse."""
    if not report["values"]["negatives"]:
        return None
    return (
        f"{report['values']['negatives']:,} numbers are negative: good for linear models, but LDA "
        "and NMF take counts."
    )


def rounded_numbers(report: Report) -> str | None:
    """Warn of whole numbers that float32 does not tell from their neighbours."""
    found = [("values", report["values"])]
    found += [(f"target {t['name'] or i}", t) for i, t in enumerate(report.get("targets", []))]
    for name, each in found:
        most = max(abs(each.get("least") or 0.0), abs(each.get("largest") or 0.0))
        if each.get("whole") and most > EXACT:
            return (
                f"{name}: whole numbers up to {most:,.0f} are rounded to float32, which tells only "
                f"those up to {EXACT:,} from their neighbours: subtract a constant, or leave out "
                "columns of ids."
            )
    return None


def empty_columns(report: Report) -> str | None:
    """Warn of empty columns, which have parameters nevertheless."""
    empty = report["empty_columns"]
    if report["dense"] or not empty or empty <= report["columns"] // 2:
        return None
    return (
        f"{empty:,} of {report['columns']:,} columns are empty, but have parameters; renumber the "
        "columns, or use fewer --hash-bits."
    )


CHECKS: Sequence[Callable[[Report], str | None]] = (
    not_blocks,
    small_blocks,
    large_blocks,
    uneven_blocks,
    one_orientation,
    one_long_row,
    small_groups,
    large_groups,
    zeros_in_dense_rows,
    full_sparse_rows,
    negative_numbers,
    rounded_numbers,
    empty_columns,
)


def rows_of_a_block(report: Report) -> int:
    """Return a number of rows that makes blocks of about 16 MB: a power of two, 64 to 65,536.

    >>> rows_of_a_block({"rows": 10**6, "nnz": 10**8, "dense": False, "columns": 50_000})
    16384
    """
    width = 4 * report["columns"] if report["dense"] else 8 * report["nnz"] / report["rows"] + 8
    return int(2 ** round(min(16, max(6, log2(BLOCK_BYTES / width)))))


def called(row: Mapping[str, Any]) -> str:
    """Return the name of a row or column, or its number."""
    return str(row["number"]) if row["name"] is None else repr(row["name"])
