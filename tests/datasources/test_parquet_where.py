"""`where` of Parquet data: the rows that Python's own comparisons select, and few others read."""

import operator
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from blocklearn.datasources import DataError, ParquetSource, Reading, Sparse
from blocklearn.datasources.parquet.kind import ParquetData
from tests.support.parquet_files import csr_columns, random_csr, read_block, whole_pass, write

OPERATIONS = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "in": lambda value, found: value in found,
    "not in": lambda value, found: value not in found,
}
DAYS = [date(2024, 1, 1) + timedelta(days) for days in range(8)]
KINDS: dict[str, tuple[Any, list[Any]]] = {
    "int8": (pa.int8(), [-3, -1, 0, 1, 2, 5]),
    "int64": (pa.int64(), [-(2**40), -1, 0, 2, 2**53 + 1]),
    "uint32": (pa.uint32(), [0, 1, 7, 2**32 - 1]),
    "float16": (pa.float16(), [-1.5, 0.0, 2.0]),
    "float32": (pa.float32(), [-1.5, -0.0, 0.0, 2.0, float("inf"), float("nan")]),
    "float64": (pa.float64(), [-1.5, -0.0, 0.0, 0.1, 2.0, float("nan")]),
    "decimal": (pa.decimal128(9, 2), [Decimal("-1.50"), Decimal(0), Decimal("12.25")]),
    "text": (pa.string(), ["", "de", "e", "fr", "é" * 50, "z"]),
    "category": (pa.dictionary(pa.int8(), pa.string()), ["de", "fr", "z"]),
    "flag": (pa.bool_(), [False, True]),
    "day": (pa.date32(), DAYS),
    "stamp": (pa.timestamp("ms"), [datetime(2024, 1, 1, hour) for hour in range(8)]),
}


def plain(value: Any) -> Any:
    """A value as a configuration has it."""
    return float(value) if isinstance(value, Decimal) else value


@settings(max_examples=40, deadline=None,
          suppress_health_check=[HealthCheck.function_scoped_fixture])  # fmt: skip
@given(data=st.data(), rows=st.integers(1, 60), group=st.integers(1, 20), files=st.integers(1, 2),
       ordered=st.booleans(), statistics=st.booleans())  # fmt: skip
def test_rows_that_satisfy_all_conditions(tmp_path, data, rows, group, files, ordered, statistics):
    columns: dict[str, Any] = {"x": np.arange(float(rows))}
    wanted, where = np.ones(rows, np.bool_), []
    for kind in data.draw(st.lists(st.sampled_from(sorted(KINDS)), max_size=2, unique=True)):
        arrow, pool = KINDS[kind]
        cells = data.draw(st.lists(st.sampled_from([*pool, None]), min_size=rows, max_size=rows))
        if ordered:
            cells.sort(key=lambda cell: pool.index(cell) if cell in pool else -1)
        columns[kind] = pa.array(cells, arrow)
        operation = data.draw(st.sampled_from(sorted(OPERATIONS)))
        values = [value for value in pool if value == value]
        if "in" in operation:
            value = data.draw(st.lists(st.sampled_from(values), max_size=3))
            where.append((kind, operation, [plain(one) for one in value]))
        else:
            value = data.draw(st.sampled_from(values))
            where.append((kind, operation, plain(value)))
        compare = OPERATIONS[operation]
        wanted &= [cell is not None and compare(cell, value) for cell in cells]
    folder = write(tmp_path / str(len(list(tmp_path.iterdir()))), columns, files, group,
                   write_statistics=statistics)  # fmt: skip
    if not wanted.any():
        with pytest.raises(DataError, match="no row satisfies this"):
            ParquetSource(folder, ["x"], where=where)
        return
    source = ParquetSource(folder, ["x"], where=where, block_rows=7)
    ids, found, _, _ = whole_pass(source)
    np.testing.assert_array_equal(found[:, 0], np.flatnonzero(wanted))
    np.testing.assert_array_equal(ids, np.arange(wanted.sum()))
    assert source.shape.total_rows == wanted.sum()


@pytest.mark.parametrize("condition, groups", [
    (("n", ">=", 70), 3), (("n", ">", 69), 3), (("n", "<", 10), 1), (("n", "<=", 10), 2),
    (("n", "==", 33), 1), (("n", "in", [5, 95]), 2), (("n", "not in", [5]), 10),
    (("t", "in", ["b1", "b99"]), 1), (("d", ">=", "2024-03-31"), 1), (("f", "<", 0.5), 1),
    (("s", "<", "2024-01-01 10:00"), 1),
])  # fmt: skip
def test_row_groups_that_statistics_exclude_are_not_read(tmp_path, condition, groups):
    n = np.arange(100)
    columns = {
        "n": n,
        "f": n / 1.0,
        "t": [f"{'abcdefghij'[i // 10]}{i % 10}" for i in range(100)],
        "d": [date(2024, 1, 1) + timedelta(int(i)) for i in n],
        "s": pa.array([datetime(2024, 1, 1) + timedelta(hours=int(i)) for i in n]),
    }
    source = ParquetSource(write(tmp_path, columns, 1, 10), ["n"], where=[condition], block_rows=4)
    assert len(source.row_groups) == groups
    assert source.notes[0].endswith(f"exclude {100 - 10 * groups} others unread")
    assert 0 < source.shape.total_rows <= 10 * groups
    assert source.files[0][1] == 100


def test_nulls_and_roles_beside_conditions(tmp_path):
    """Nulls in rows that are left out do not matter; ids, sums and places are of the others."""
    X = random_csr(60, 40)
    n = np.arange(60)
    y = pa.array([None if i in (3, 41) else float(i) for i in n])
    columns = {**csr_columns(X), "y": y, "n": n, "id": [f"r{i}" for i in n]}
    folder = write(tmp_path, columns, 2, 8)
    how: dict[str, Any] = {"targets": ["y"], "ids": "id", "block_rows": 5}
    feature = Sparse("i", "v", 40)
    source = ParquetSource(folder, feature, where=[("n", "in", [9, 20, 21, 59])], **how)
    ids, found, targets, _ = whole_pass(source)
    np.testing.assert_array_equal(found, X.toarray()[[9, 20, 21, 59]])
    assert targets[:, 0].tolist() == [9, 20, 21, 59]
    assert list(source.row_names) == ["r9", "r20", "r21", "r59"]
    assert source.label_sums() == (4.0, [109.0])
    odd = [("n", ">=", 33), ("n", "!=", 34)]
    with pytest.raises(DataError, match="column 'y' is null"):
        whole_pass(ParquetSource(folder, feature, where=odd, **how))
    dropped = ParquetSource(folder, feature, where=odd, nulls="drop_row", **how)
    left = [i for i in range(33, 60) if i not in (34, 41)]
    assert whole_pass(dropped)[2][:, 0].tolist() == left
    assert "1 of 26 rows have a null in 'y', which are left out" in dropped.notes
    zero = ParquetSource(folder, feature, where=odd, nulls="zero", **how)
    assert zero.shape.total_rows == 26
    broken = pa.array([None if i == 50 else float(i) for i in n])
    faulty = write(tmp_path / "faulty", {"x": broken, "n": n}, 1, 30)
    with pytest.raises(DataError, match=r"row group 1, row 20 \(row 50 of the file\).*'x' is null"):
        read_block(ParquetSource(faulty, ["x"], where=[("n", ">", 45)], block_rows=60), 0)


def test_fingerprints_and_settings(tmp_path):
    days = [date(2024, 1, 1) + timedelta(i) for i in range(20)]
    folder = write(tmp_path, {"x": np.arange(20.0), "day": days})
    sources = [
        ParquetSource(folder, ["x"], where=where)
        for where in ([], [("day", ">=", "2024-01-11")], [("day", ">", "2024-01-11")])
    ]
    assert len({source.fingerprint for source in sources}) == 3
    for value in ("2024-01-11", date(2024, 1, 11)):
        settings = {"path": str(folder), "features": ["x"], "where": [["day", ">=", value]]}
        data = ParquetData.model_validate(settings)
        again = ParquetData.model_validate_json(data.model_dump_json())
        for made in (data, again):
            source = made.open_source(Reading(block_rows=4))
            assert source.fingerprint == sources[1].fingerprint
            assert source.shape.total_rows == 10
    assert data.elsewhere("new.parquet", labelled=True).where == []


@pytest.mark.parametrize("where, message", [
    ([("day", ">=")], r"must be \[column, operation, value\]"),
    (["day >= 5"], r"must be \[column, operation, value\]"),
    ([("n", "=>", 5)], "the operation must be one of ==, !=, <"),
    ([("n", "in", 5)], "'in' must be followed by a list of values"),
    ([("n", "<", [5])], "'<' must be followed by one value, not a list"),
    ([("n", "==", None)], "None: must be a number, a text, a date or a boolean"),
    ([("n", "<", float("nan"))], "nan: must be a number"),
    ([("m", "<", 5)], "no column 'm'; it has .* `where` names it"),
    ([("n", "<", "5")], r"part-00.parquet: where: \['n', '<', '5'\]: column 'n' is of type int64, "
                        "but '5' is not a value of this type"),
    ([("n", "<", True)], "True is not a value of this type"),
    ([("n", "<", 2.5)], "2.5 is not a value of this type"),
    ([("t", "==", 5)], "column 't' is of type string, but 5 is not a value"),
    ([("d", "==", "yesterday")], "type date32.*'yesterday' is not a value of this type"),
    ([("l", "==", 5)], "column 'l' is of type list<.*but must be a number, a text, a date"),
    ([("n", ">", 99)], r"where: \[\['n', '>', 99\]\]: no row satisfies this"),
    ([("n", ">", 1), ("t", "==", "q")], "no row satisfies this"),
])  # fmt: skip
def test_conditions_that_cannot_be(tmp_path: Path, where: Any, message: str) -> None:
    columns = {"x": [1.0] * 3, "n": [1, 2, 3], "t": ["a", "r", "z"], "l": [[1]] * 3,
               "d": [date(2024, 1, 1)] * 3}  # fmt: skip
    with pytest.raises(DataError, match=f"(?s){message}"):
        ParquetSource(write(tmp_path, columns), ["x"], where=where)
