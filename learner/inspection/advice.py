"""Advice on data that would be slow or fail, with the remedy.

Each function takes the report of `inspection.data_report`, and yields a sentence per observation.
"""

from collections.abc import Iterator, Mapping
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
    return [*on_blocks(report), *on_groups(report), *on_numbers(report)]


def on_blocks(report: Report) -> Iterator[str]:
    """Yield advice on the rows of a block."""
    if report["kind"] not in ("blocks", "parquet"):  # parsed or sorted before each run
        yield (
            f"{report['what']} is parsed anew for every run: `learn convert` with the same "
            "options makes blocks, which need no parsing; "
            f"{rows_of_a_block(report):,} rows each are enough (--block-rows)."
        )
    blocks, decoded = report.get("blocks", 0), report.get("block_decoded_bytes", {})
    if blocks > 1 and decoded["mean"] < SMALL_BLOCK:  # handling costs more than work
        yield (
            f"blocks of {size(int(decoded['mean']))} on average are small: convert with "
            f"--block-rows {rows_of_a_block(report)}."
        )
    if blocks and decoded["largest"] > LARGE_BLOCK:
        yield (
            f"the largest block has {size(decoded['largest'])}, and several are in memory at a "
            f"time: convert with --block-rows {rows_of_a_block(report)}."
        )
    if report["dense"]:
        return
    nnz, longest = report.get("block_nnz"), report["longest_rows"]
    if nnz is not None and nnz["largest"] > UNEVEN * nnz["mean"]:
        yield (
            f"the fullest block has {nnz['largest']:,} non-zeros, a mean one {nnz['mean']:,.0f}; "
            "every buffer has room for the fullest: mix the rows before converting, or use more "
            "rows per block."
        )
    if report.get("orientations") == 1:
        yield (
            "it has one orientation, which is all that most models need; ALS also reads the "
            "columns: convert with --both-orientations."
        )
    if not longest or report["rows"] < 2:
        return
    row, mean = longest[0], report["nnz"] / report["rows"]
    of_block = mean * min(report.get("block_rows", 1024), report["rows"])
    if row["nnz"] > max(LONG_ROW * of_block, 50 * mean):
        yield (
            f"row {called(row)} has {row['nnz']:,} non-zeros, {row['nnz'] / mean:,.0f} times the "
            "mean; the thread that gets it works alone: divide it, or leave it out."
        )


def on_groups(report: Report) -> Iterator[str]:
    """Yield advice on the row groups of a Parquet file, its units of reading."""
    groups = report.get("row_group_bytes")
    if groups is None:
        return
    if groups["count"] > 1 and groups["mean"] < SMALL_GROUP:
        yield (
            f"row groups of {size(int(groups['mean']))} on average are small, and each is read on "
            "its own: write the files with row_group_size=100_000 or more, or convert them."
        )
    if groups["largest"] > LARGE_BLOCK:
        yield (
            f"the largest row group has {size(groups['largest'])}, and a row group is decoded "
            "whole: write the files with a smaller row_group_size."
        )


def on_numbers(report: Report) -> Iterator[str]:
    """Yield advice on the numbers, and on how they are stored."""
    values, places = report["values"], report["rows"] * report["columns"]
    if report["dense"] and values["zeros"] > MOSTLY_ZERO * values["count"]:
        yield (
            f"{values['zeros'] / values['count']:.0%} of the numbers are 0, and each costs as much "
            "as any other: convert with --sparse."
        )
    if not report["dense"] and report["nnz"] > MOSTLY_FULL * places:
        yield (
            f"{report['nnz'] / places:.0%} of all places are filled; a dense table (.npy, CSV) is "
            "read and multiplied faster."
        )
    if values["negatives"]:
        yield (
            f"{values['negatives']:,} numbers are negative: good for linear models, but LDA and "
            "NMF take counts."
        )
    yield from on_rounding(report)
    empty, columns = report["empty_columns"], report["columns"]
    if not report["dense"] and empty and empty > columns // 2:
        yield (
            f"{empty:,} of {columns:,} columns are empty, but have parameters; renumber the "
            "columns, or use fewer --hash-bits."
        )


def on_rounding(report: Report) -> Iterator[str]:
    """Yield advice on the first whole numbers that float32 does not tell from their neighbours."""
    found = [("values", report["values"])]
    found += [(f"target {t['name'] or i}", t) for i, t in enumerate(report.get("targets", []))]
    for name, each in found:
        most = max(abs(each.get("least") or 0.0), abs(each.get("largest") or 0.0))
        if each.get("whole") and most > EXACT:
            yield (
                f"{name}: whole numbers up to {most:,.0f} are rounded to float32, which tells only "
                f"those up to {EXACT:,} from their neighbours: subtract a constant, or leave out "
                "columns of ids."
            )
            return


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
