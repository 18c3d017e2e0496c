"""Ratings from files: what is read, what is refused and where, what is held out."""

from __future__ import annotations

import csv
import gzip
import io
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from blocklearn.datasources import (
    DataError,
    FileData,
    HostBlock,
    Ids,
    MatrixSource,
    RatingsData,
    Reading,
    read_ratings,
    row_names,
    split_ratings,
)

HEADER = "user,item,rating\n"


def put(folder: Path, text: str | bytes, name: str = "r.csv") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def table(ratings: Any) -> dict[tuple[str, str], float]:
    """Ratings by user and item."""
    matrix = ratings.matrix
    return {
        (ratings.users[r], ratings.items[int(matrix.indices[p])]): float(matrix.data[p])
        for r in range(matrix.shape[0])
        for p in range(matrix.indptr[r], matrix.indptr[r + 1])
    }


# ---- reading -------------------------------------------------------------------------------------


def test_text(tmp_path: Path) -> None:
    ratings = read_ratings(put(tmp_path, HEADER + 'bob,y,0\nann,"x,1",4.5\n"an""n",é,-1\n'))
    assert list(ratings.users) == ['an"n', "ann", "bob"]
    assert list(ratings.items) == ["x,1", "y", "é"]
    assert table(ratings) == {('an"n', "é"): -1, ("ann", "x,1"): 4.5, ("bob", "y"): 0}
    assert ratings.matrix.dtype == np.float32 and ratings.times is None


NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n\0"), min_size=1)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rated=st.dictionaries(st.tuples(NAMES, NAMES), st.floats(-9, 9, width=16), min_size=1),
    suffix=st.sampled_from(["csv", "tsv", "csv.gz", "parquet", "npz"]),
)
def test_any_names_in_any_file(
    tmp_path: Path, rated: dict[tuple[str, str], float], suffix: str
) -> None:
    path = tmp_path / f"r.{suffix}"
    users, items = ([pair[i] for pair in rated] for i in range(2))
    values = list(rated.values())
    if suffix == "parquet":
        parquet.write_table(pa.table({"user": users, "item": items, "rating": values}), str(path))
    elif suffix == "npz":
        np.savez(path, user=np.array(users), item=np.array(items), rating=np.array(values))
    else:
        text = io.StringIO()
        writer = csv.writer(text, delimiter="\t" if suffix == "tsv" else ",")
        writer.writerows([("user", "item", "rating"), *zip(users, items, values, strict=True)])
        data = text.getvalue().encode()
        path.write_bytes(gzip.compress(data) if suffix.endswith("gz") else data)
    ratings = read_ratings(path)
    assert table(ratings) == rated
    whole = all(name.isdecimal() and name.isascii() for name in users)
    assert list(ratings.users) == sorted(set(users)) or whole


def test_whole_numbers_are_in_the_order_of_numbers(tmp_path: Path) -> None:
    users, items, values = [10, 9, 100], [7, 7, -2], [1.0, 2.0, 3.0]
    lines = "".join(f"{u},{i},{v}\n" for u, i, v in zip(users, items, values, strict=True))
    rows = pa.table({"user": users, "item": items, "rating": values})
    parquet.write_table(rows, str(tmp_path / "r.parquet"))
    np.savez(tmp_path / "r.npz", user=np.array(users), item=np.array(items), rating=values)
    for path in (put(tmp_path, HEADER + lines), tmp_path / "r.parquet", tmp_path / "r.npz"):
        ratings = read_ratings(path)
        assert list(ratings.users) == ["9", "10", "100"]
        assert list(ratings.items) == ["-2", "7"]
    ratings = read_ratings(put(tmp_path, HEADER + lines + "09,7,4\n"))
    assert list(ratings.users) == ["09", "10", "100", "9"]


def test_names_of_columns(tmp_path: Path) -> None:
    path = put(tmp_path, "1::::9\n", "r.txt")
    with pytest.raises(DataError, match="no column 'user'.*If its first line is a record"):
        read_ratings(path)
    path = put(tmp_path, "user;item;rating\na;b;3\n")
    with pytest.raises(DataError, match="first line is not split: .*separator: ';'"):
        read_ratings(path)
    assert read_ratings(path, separator=";").users == ["a"]
    path = put(tmp_path, "1|a|3.5|9\n2|a|4|8\n", "r.txt")
    names = ["u", "i", "r", "t"]
    ratings = read_ratings(
        path, columns=names, separator="|", user="u", item="i", rating="r", timestamp="t"
    )
    assert table(ratings) == {("1", "a"): 3.5, ("2", "a"): 4}
    assert ratings.times is not None and ratings.times.tolist() == [9, 8]
    path = put(tmp_path, "item,when,user,x\na,2024-05-02,1,\na,2024-05-01,2,\n")
    ratings = read_ratings(path, rating=None, timestamp="when")
    assert ratings.times is not None and ratings.times[0] - ratings.times[1] == 86_400 * 10**9
    assert ratings.matrix.data.tolist() == [1, 1]
    assert table(read_ratings(put(tmp_path, "user,item\na,b\n"))) == {("a", "b"): 1}


def test_matrices_have_numbers_for_ids(tmp_path: Path) -> None:
    matrix = sp.coo_array(([3.0, 0.0], ([0, 2], [1, 1])), shape=(4, 3))
    sp.save_npz(tmp_path / "r.npz", matrix)
    put(tmp_path, "%%MatrixMarket matrix coordinate real general\n4 3 2\n1 2 3\n3 2 0\n", "r.mtx")
    for name in ("r.npz", "r.mtx"):
        ratings = read_ratings(tmp_path / name)
        assert list(ratings.users) == ["0", "1", "2", "3"] and len(ratings.items) == 3
        assert table(ratings) == {("0", "1"): 3, ("2", "1"): 0}
    twice = sp.coo_array(([3.0, 1.0], ([2, 2], [1, 1])), shape=(4, 3))
    sp.save_npz(tmp_path / "t.npz", twice)
    with pytest.raises(DataError, match="t.npz: entry 1: user '2' and item '1' are a pair again"):
        read_ratings(tmp_path / "t.npz")
    rows = sp.csr_array(np.ones((2, 3)))
    for name, array in [("indices", [0, 1, 2, 0, 1, 3]), ("indptr", [0, 100, 6])]:
        broken = rows.copy()
        setattr(broken, name, np.array(array, np.int32))
        sp.save_npz(tmp_path / "b.npz", broken)
        with pytest.raises(DataError, match="b.npz: not a valid matrix of users x items"):
            read_ratings(tmp_path / "b.npz")


def test_ids_that_a_model_knows(tmp_path: Path) -> None:
    path = put(tmp_path, HEADER + "a,x,1\nb,y,2\nc,x,3\na,z,4\n")
    ratings = read_ratings(path, users=["c", "a", "q"], items=Ids(["z", "x"]))
    assert ratings.matrix.toarray().tolist() == [[0, 3], [4, 1], [0, 0]]
    assert ratings.dropped == 1 and list(ratings.users) == ["c", "a", "q"]
    none = read_ratings(path, users=["q"], items=["x"])
    assert none.matrix.nnz == 0 and none.dropped == 4


# ---- duplicates ----------------------------------------------------------------------------------

TWICE = "user,item,rating,t\na,b,3,5\nc,d,1,1\n\na,b,2,4\nc,d,4,2\nc,d,6,3\n"


@pytest.mark.parametrize(
    "how, ab, cd", [("last", 2, 6), ("sum", 5, 11), ("mean", 2.5, pytest.approx(11 / 3))]
)
def test_duplicates(tmp_path: Path, how: Any, ab: float, cd: float) -> None:
    path = put(tmp_path, TWICE)
    assert table(read_ratings(path, duplicates=how)) == {("a", "b"): ab, ("c", "d"): cd}
    timed = read_ratings(path, duplicates=how, timestamp="t")
    assert table(timed) == {("a", "b"): 3 if how == "last" else ab, ("c", "d"): cd}
    assert timed.times is not None and timed.times.tolist() == [5, 3]


def test_duplicates_are_an_error_that_names_both_lines(tmp_path: Path) -> None:
    path = put(tmp_path, TWICE)
    with pytest.raises(DataError) as error:
        read_ratings(path)
    assert str(error.value) == (
        f"{path}:5: user 'a' and item 'b' are a pair again, after {path}:2. Pairs with several "
        "records: 2. Choose how to merge them with duplicates: last, sum or mean."
    )


@settings(max_examples=40)
@given(
    records=st.lists(
        st.tuples(st.integers(0, 5), st.integers(0, 4), st.integers(-3, 3)), min_size=1
    )
)
def test_sums_and_order_are_those_of_a_dictionary(
    tmp_path_factory: pytest.TempPathFactory, records: list[tuple[int, int, int]]
) -> None:
    path = tmp_path_factory.mktemp("r") / "r.npz"
    users, items, values = (np.array(column) for column in zip(*records, strict=True))
    np.savez(path, user=users, item=items, rating=values)
    sums: dict[tuple[str, str], float] = {}
    for user, item, value in records:
        sums[str(user), str(item)] = sums.get((str(user), str(item)), 0) + value
    ratings = read_ratings(path, duplicates="sum")
    assert table(ratings) == sums
    for row in range(ratings.matrix.shape[0]):
        part = ratings.matrix.indices[slice(*ratings.matrix.indptr[row : row + 2])]
        assert (np.diff(part) > 0).all()


# ---- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, message",
    [
        (HEADER + "a,b,3\n\na,c\n", "r.csv:4: 2 fields, but the file has 3 columns"),
        (HEADER + "a,b,3\na,c,2,1\n", "r.csv:3: 4 fields"),
        (HEADER + "a,b,3\na,c,x\n", "r.csv:3: the rating 'x' is not a number"),
        (HEADER + "a,b,3\na,c,\n", "r.csv:3: .* set `rating` to another column"),
        (HEADER + "a,b,3\n\n\na,c,nan\n", "r.csv:5: the rating nan: must be finite"),
        (HEADER + "a,b,-inf\n", "r.csv:2: the rating -inf: must be finite"),
        (HEADER + "a,b,1e39\n", "r.csv:2: the rating inf: must be finite"),
        (HEADER + "a,b,3\na,,2\n", "r.csv:3: the item '' is empty"),
        (HEADER + ",b,3\n", "r.csv:2: the user '' is empty"),
        (HEADER + 'a,"b\nc",3\n', r"r.csv:2: the item 'b\\nc' has a line break"),
        (HEADER + 'a,"b,3\nc,d,4\n', "r.csv:2: 2 fields"),
        (HEADER.encode() + b"a,b,1\na,\xe9,3\n", "r.csv:3: a byte is not UTF-8"),
        ("", "r.csv: the file has no records"),
        (HEADER, "r.csv: the file has no records"),
        ("a,b,3\n", r"no column 'user'; its columns are 'a', 'b', '3'. In .* `user: NAME` says"),
        ("user,item,stars\na,b,3\n", "no column 'rating'.*or counts each record as 1: null"),
        ("user,item,rating,user\na,b,3,c\n", "two columns 'user'"),
    ],
)
def test_faults_of_text(tmp_path: Path, text: str | bytes, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_ratings(put(tmp_path, text))
    packed = put(
        tmp_path, gzip.compress(text if isinstance(text, bytes) else text.encode()), "p.csv.gz"
    )
    with pytest.raises(DataError, match=message.replace("r.csv", "p.csv.gz")):
        read_ratings(packed)


@pytest.mark.parametrize("when, message", [("soon", "such as 'soon'"), ("", "such as ''"),
                                           ("nan", "not a finite number")])  # fmt: skip
def test_faults_of_times(tmp_path: Path, when: str, message: str) -> None:
    path = put(tmp_path, f"user,item,rating,t\na,b,3,{when}\n")
    with pytest.raises(DataError, match=message):
        read_ratings(path, timestamp="t")


@pytest.mark.parametrize("name", ["r.csv.gz", "r.parquet", "r.npz", "r.mtx"])
def test_damaged_files(tmp_path: Path, name: str) -> None:
    for data in (b"", b"rubbish", b"\x1f\x8brubbish", b"PK\x03\x04rubbish"):
        with pytest.raises(DataError, match=name):
            read_ratings(put(tmp_path, data, name))


@pytest.mark.parametrize("roles", [{"timestamp": "item"}, {"user": "item"}, {"rating": "user"}])
def test_a_column_cannot_be_two_things(tmp_path: Path, roles: dict[str, str]) -> None:
    with pytest.raises(DataError, match="'(user|item)' cannot be two of user, item, rating and"):
        read_ratings(put(tmp_path, HEADER + "1,2,3\n"), **roles)


def test_files_without_ratings(tmp_path: Path) -> None:
    none = np.zeros(0, np.int64)
    np.savez(tmp_path / "a.npz", user=none, item=none, rating=none)
    sp.save_npz(tmp_path / "m.npz", sp.csr_array((3, 4)))
    parquet.write_table(
        pa.table({"user": none, "item": none, "rating": none}), tmp_path / "p.parquet"
    )
    for name in ("a.npz", "m.npz", "p.parquet"):
        with pytest.raises(DataError, match=f"{name}: the file has no records"):
            read_ratings(tmp_path / name)


def test_files_that_are_not_there_or_unknown(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="file does not exist"):
        read_ratings(tmp_path / "r.csv")
    with pytest.raises(DataError, match="unknown kind"):
        read_ratings(put(tmp_path, "", "r.json"))


@pytest.mark.parametrize(
    "columns, message",
    [
        ({"user": ["a", None]}, "record 1: the user is missing"),
        ({"item": [1.5, 2.0]}, "'item' is of type double, but ids"),
        ({"rating": [1.0, None]}, "record 1: the rating nan"),
        ({"rating": ["x", "y"]}, "'rating' is of type string, but ratings must be numbers"),
        ({"rating": [1.0, float("inf")]}, "record 1: the rating inf"),
    ],
)
def test_faults_of_parquet(tmp_path: Path, columns: dict[str, Any], message: str) -> None:
    whole = {"user": ["a", "b"], "item": [1, 2], "rating": [1.0, 2.0]} | columns
    parquet.write_table(pa.table(whole), str(tmp_path / "r.parquet"))
    with pytest.raises(DataError, match=message):
        read_ratings(tmp_path / "r.parquet")


def test_parquet_in_many_parts(tmp_path: Path) -> None:
    """Dictionaries of several row groups become one; ids may be dictionaries already."""
    users = [f"u{i % 40}" for i in range(400)]
    rows = pa.table(
        {
            "user": pa.array(users).dictionary_encode(),
            "item": pa.array(np.arange(400) // 40, pa.int16()),
            "rating": pa.array(np.arange(400), pa.int64()),
        }
    )
    parquet.write_table(rows, str(tmp_path / "r.parquet"), row_group_size=37)
    found = table(read_ratings(tmp_path / "r.parquet"))
    assert found == {(users[i], str(i // 40)): i for i in range(400)}


# ---- held out ------------------------------------------------------------------------------------


def random_ratings(folder: Path, *, seed: int = 0, times: bool = True) -> Any:
    rng = np.random.default_rng(seed)
    matrix = sp.random_array((60, 40), density=0.2, rng=rng, format="coo")
    rows, columns = matrix.coords
    arrays = {"user": rows, "item": columns, "rating": matrix.data}
    np.savez(folder / "r.npz", **arrays, t=rng.integers(0, 300, rows.size))
    return read_ratings(folder / "r.npz", timestamp="t" if times else None)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.99])
def test_entries_are_held_out(tmp_path: Path, share: float) -> None:
    ratings = random_ratings(tmp_path)
    train, held = split_ratings(ratings, share, 3)
    assert table(train) | table(held) == table(ratings)
    assert not table(train).keys() & table(held).keys()
    assert train.matrix.shape == held.matrix.shape == ratings.matrix.shape
    assert (np.diff(train.matrix.indptr)[np.diff(ratings.matrix.indptr) > 0] > 0).all()
    if share < 0.9:
        assert held.matrix.nnz / ratings.matrix.nnz == pytest.approx(share, abs=0.06)
    assert table(split_ratings(ratings, share, 4)[1]) != table(held)


def test_an_entry_stays_on_its_side(tmp_path: Path) -> None:
    ratings = random_ratings(tmp_path)
    held = table(split_ratings(ratings, 0.2, 3)[1]).keys()
    kept = np.random.default_rng(1).random(ratings.matrix.nnz) < 0.8
    fewer = ratings.only(kept)
    assert table(split_ratings(fewer, 0.2, 3)[1]).keys() == held & table(fewer).keys()


def test_the_newest_are_held_out(tmp_path: Path) -> None:
    ratings = random_ratings(tmp_path)
    train, held = split_ratings(ratings, 0.25, 0, "time")
    assert train.times is not None and held.times is not None
    assert train.times.max() < held.times.min()
    assert 0.2 < held.matrix.nnz / ratings.matrix.nnz <= 0.25
    with pytest.raises(DataError, match="name their column: timestamp"):
        split_ratings(random_ratings(tmp_path, times=False), 0.25, 0, "time")


def test_what_cannot_be_held_out(tmp_path: Path) -> None:
    ratings = random_ratings(tmp_path)
    for by in ("rows", "contents"):
        with pytest.raises(DataError, match="whole users cannot be held out"):
            split_ratings(ratings, 0.1, 0, by)  # type: ignore[arg-type]
    one = ratings.only(np.arange(ratings.matrix.nnz) == 0)
    for by, message in (("entries", "no user has two ratings"), ("time", "of 1 ratings leaves")):
        with pytest.raises(DataError, match=message):
            split_ratings(one, 0.9, 0, by)  # type: ignore[arg-type]
    texts = FileData(path=put(tmp_path, "some words\n", "d.txt"))
    with pytest.raises(DataError, match="by: time is for ratings"):
        texts.hold_out(0.5, Reading(), Reading(), "time")


# ---- as configured data --------------------------------------------------------------------------


def test_kind(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = put(tmp_path, HEADER + "".join(f"u{i % 9},i{i % 7},{i}\n" for i in range(60)))
    data = RatingsData(path=path, duplicates="mean")
    assert list(data.files()) == [path]
    source = data.open_source(Reading(block_rows=4))
    assert isinstance(source, MatrixSource)
    assert (source.shape.total_rows, source.shape.columns) == (9, 7)
    assert list(row_names(source) or ()) == [f"u{i}" for i in range(9)]
    train, held = data.hold_out(0.3, Reading(block_rows=4), Reading(block_rows=4))
    assert train.names == held.names and row_names(train) == row_names(held)
    blocks = [HostBlock(part.shape) for part in (train, held)]
    for part, block in zip((train, held), blocks, strict=True):
        part.read(0, 0, block)
    assert blocks[0].nnz > blocks[1].nnz > 0

    other = RatingsData(path=put(tmp_path, HEADER + "u3,i2,1\nzz,i2,1\n", "other.csv"))
    like = other.open_source(Reading(), like=source)
    assert (like.shape.total_rows, like.shape.columns) == (9, 7)
    assert "1 of 2 ratings are of users or items that the model does not know" in caplog.text


def test_ids() -> None:
    ids = Ids(["b", "a", "é"])
    assert list(ids) == ids[0:3] == ["b", "a", "é"] and ids[-1] == "é"
    assert ids == ["b", "a", "é"] and ids != ["b"] and ids == Ids(ids) and ids != 3
    assert list(ids.take(np.array([2, 0]))) == ["é", "b"]
    assert ids.numbers(["é", "", "b"]).tolist() == [2, -1, 0]
    assert "b" in ids and ids.index("a") == 1
    with pytest.raises(IndexError):
        ids[3]
    assert repr(Ids.numbered(1000)) == "Ids('0', '1', '2', ...; 1,000)"


def test_text_that_is_no_unicode_is_refused(tmp_path: Path) -> None:
    users = np.array(["ann", "bob"])
    users.view(np.uint32)[0] = 0x110000
    np.savez(tmp_path / "r.npz", user=users, item=np.array([1, 2]), rating=np.ones(2))
    with pytest.raises(DataError, match=r"r\.npz: the array 'user' has text that is not Unicode"):
        read_ratings(tmp_path / "r.npz")


def test_a_header_that_announces_too_many_users_is_refused(tmp_path: Path) -> None:
    head = "%%MatrixMarket matrix coordinate real general"
    (tmp_path / "r.mtx").write_text(f"{head}\n2147483646 3 1\n5 2 1.0\n")
    with pytest.raises(DataError, match=r"r\.mtx: announces 2,147,483,646 rows for 1 entries"):
        read_ratings(tmp_path / "r.mtx")
    (tmp_path / "r.mtx").write_text(f"{head}\n3 2147483646 1\n2 5 1.0\n")
    with pytest.raises(DataError, match=r"r\.mtx: announces 2,147,483,646 items for 1 entries"):
        read_ratings(tmp_path / "r.mtx")


def test_a_parquet_file_with_a_name_that_is_no_unicode_is_refused(tmp_path: Path) -> None:
    table = pa.table({"user": ["a"], "item": ["b"], "rating": [1.0]})
    parquet.write_table(table, tmp_path / "r.parquet", store_schema=False)
    data = (tmp_path / "r.parquet").read_bytes()
    damaged = data.replace(b"rating", b"\xffating")
    assert damaged != data
    (tmp_path / "r.parquet").write_bytes(damaged)
    with pytest.raises(DataError, match=r"r\.parquet: cannot be read as Parquet"):
        read_ratings(tmp_path / "r.parquet")
