"""Other programs open the files of block datasets."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.block_datasets import folders, labelled, write

CODECS = ("raw", "lz4")


def dataset(tmp_path: Path, codec: Any, *, dense: bool) -> tuple[list[str], Any]:
    data = labelled(23, 1, dense=dense)
    paths = folders(tmp_path, 2)
    write(data, paths, codec=codec, names=[f"c{i}" for i in range(data.X.shape[1])])
    return [str(path / f"rows-{i}-of-2.arrow") for i, path in enumerate(paths)], data


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("dense", [False, True])
def test_pandas(tmp_path: Path, codec: Any, dense: bool) -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    files, data = dataset(tmp_path, codec, dense=dense)
    frame = pandas.concat([pandas.read_feather(file) for file in files]).set_index("row")
    frame = frame.sort_index()
    assert frame.index.tolist() == list(range(23))
    np.testing.assert_array_equal(frame["target"], data.targets[:, 0])
    np.testing.assert_array_equal(frame["weight"], data.weights)
    if dense:
        np.testing.assert_array_equal(np.stack(frame["features"]), data.X)
    else:
        np.testing.assert_array_equal(np.concatenate(list(frame["indices"])), data.X.indices)
        np.testing.assert_array_equal(np.concatenate(list(frame["values"])), data.X.data)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("dense", [False, True])
def test_polars(tmp_path: Path, codec: Any, dense: bool) -> None:
    polars = pytest.importorskip("polars", reason="polars is not installed")
    files, data = dataset(tmp_path, codec, dense=dense)
    frame = polars.concat([polars.read_ipc(file) for file in files]).sort("row")
    assert frame["row"].to_list() == list(range(23))
    np.testing.assert_array_equal(frame["target"].to_numpy(), data.targets[:, 0])
    if dense:
        np.testing.assert_array_equal(frame["features"].to_numpy(), data.X)
    else:
        np.testing.assert_array_equal(frame["indices"].explode().drop_nulls(), data.X.indices)
        lengths = frame["values"].list.len().to_numpy()
        np.testing.assert_array_equal(lengths, np.diff(data.X.indptr))


@pytest.mark.parametrize("codec", CODECS)
def test_duckdb(tmp_path: Path, codec: Any) -> None:
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
    from pyarrow import dataset as datasets

    files, data = dataset(tmp_path, codec, dense=False)
    rows = datasets.dataset(files, format="ipc")
    connection = duckdb.connect()
    connection.register("rows", rows)
    query = "select indices[1], sum(target), count(*) from rows where row >= 4 group by 1"
    found = {first: (total, count) for first, total, count in connection.sql(query).fetchall()}
    firsts = [data.X[[row]].indices[:1] for row in range(4, 23)]
    for first, (total, count) in found.items():
        mine = [4 + i for i, x in enumerate(firsts) if (x[0] if len(x) else None) == first]
        assert count == len(mine)
        assert total == pytest.approx(float(data.targets[mine, 0].sum()), rel=1e-5)


def test_names(tmp_path: Path) -> None:
    polars = pytest.importorskip("polars", reason="polars is not installed")
    dataset(tmp_path, "raw", dense=False)
    names = polars.read_ipc(tmp_path / "disk0" / "data" / "columns-names.arrow")
    assert names["name"].to_list() == [f"c{i}" for i in range(11)]
