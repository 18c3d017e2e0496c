"""Tables with a row for each column that occurs in a block, against tables of all columns."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from blocklearn.matcache import (
    Column,
    MatCache,
    Number,
    Row,
    Rows,
    ShapeError,
    Sparse,
    SparseInput,
    Table,
    from_array,
    from_sparse,
    local,
    local_table,
    named,
    rowsum,
    rowwise,
    sddmm,
)

COLUMNS = 900
KINDS = ["plain", "empty rows", "one huge row", "no entries", "one column", "last column"]


def matrix(kind: str, seed: int = 0) -> sp.csr_array:
    rng = np.random.default_rng(seed)
    table = (rng.random((24, COLUMNS)) < 0.01) * rng.uniform(0.5, 2.0, (24, COLUMNS))
    match kind:
        case "empty rows":
            table[::2] = 0
        case "one huge row":
            table[:], table[5, ::2] = 0, 1.5
        case "no entries":
            table[:] = 0
        case "one column":
            table[:], table[:, 7] = 0, 1.5
        case "last column":
            table[:, :-1] = 0
            table[3, -1] = 2.0
    return sp.csr_array(table.astype(np.float32))


@rowwise
def scaled(XT: Sparse, phi: Rows, table: Rows, factors: Column, one: Row) -> None:
    phi <<= factors * table / one


@rowwise
def added_back(XT: Sparse, table: Rows, phi: Rows, R: Table, rate: Number) -> None:
    table <<= table + rate * phi * (XT @ R)


@rowwise
def shares(X: Sparse, theta: Rows, phi: Table) -> tuple[Sparse, Rows]:
    ratio = X / sddmm(theta, phi, X)
    return ratio, theta * (ratio @ phi)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("k", [1, 40])
def test_programs_have_the_results_of_whole_tables(memory: MatCache, kind: str, k: int) -> None:
    rng, S = np.random.default_rng(1), matrix(kind)
    given = rng.uniform(0.5, 2.0, (COLUMNS, k)), rng.uniform(0.5, 2.0, (COLUMNS, 1))
    table, factors = (from_array(memory, a.astype(np.float32)) for a in given)
    theta = from_array(memory, rng.uniform(0.5, 2.0, (24, k)).astype(np.float32))
    one = from_array(memory, rng.uniform(1.0, 2.0, (1, k)).astype(np.float32))
    X = from_sparse(memory, S)
    few = local(X)
    assert few is not X and few.shape == (24, max(S.nnz, 1))
    phi = local_table(few, k, "phi")
    assert phi.shape == (few.shape[1], k)
    scaled(few.T, phi, table, factors, one)
    ratio, found = shares(few, theta, phi)
    phi64 = given[1] * given[0] / one.numpy()
    dense, theta64 = S.toarray().astype(float), theta.numpy().astype(float)
    ratio64 = np.where(dense > 0, dense / (theta64 @ phi64.T), 0.0)
    np.testing.assert_allclose(found.numpy(), theta64 * (ratio64 @ phi64), rtol=1e-4)
    np.testing.assert_allclose(rowsum(ratio).mat().numpy()[:, 0], ratio64.sum(1), rtol=1e-4)
    added_back(ratio.T, table, phi, theta, 0.5)
    expected = given[0] + 0.5 * phi64 * (ratio64.T @ theta64)
    np.testing.assert_allclose(table.numpy(), expected, rtol=1e-4)


def test_the_bits_are_those_of_whole_tables() -> None:
    rng, S = np.random.default_rng(2), matrix("plain")
    table, theta = (rng.uniform(0.5, 2.0, (n, 20)).astype(np.float32) for n in (COLUMNS, 24))
    found = []
    for threads in (1, 2, 8):
        with MatCache(threads=threads) as memory:
            X, lam = from_sparse(memory, S), from_array(memory, table)
            rows, one = from_array(memory, theta), from_array(memory, np.full((1, 20), 1.5))
            factors = from_array(memory, np.ones((COLUMNS, 1), np.float32))
            few, whole = local(X), named(memory, "whole", (COLUMNS, 20))
            phi = local_table(few, 20, "phi")
            scaled(few.T, phi, lam, factors, one)
            scaled(X.T, whole, lam, factors, one)
            found += [shares(few, rows, phi)[1].numpy(), shares(X, rows, whole)[1].numpy()]
    assert len({array.tobytes() for array in found}) == 1


def test_data_of_few_columns_are_left_as_they_are(memory: MatCache) -> None:
    X = from_sparse(memory, sp.csr_array(np.ones((24, 60), np.float32)))
    assert local(X) is X
    assert local_table(X, 4, "phi").shape == (60, 4)


def test_tables_grow_with_blocks(memory: MatCache) -> None:
    """A block with more non-zeros than any before needs more rows."""
    block = SparseInput(memory, "X", 24, COLUMNS, 20)
    ones = from_array(memory, np.ones((COLUMNS, 1), np.float32))
    one = from_array(memory, np.ones((1, 2), np.float32))
    table = from_array(memory, np.arange(2 * COLUMNS, dtype=np.float32).reshape(-1, 2))
    for kind in ("no entries", "last column", "plain", "one huge row"):
        S = matrix(kind)
        with MatCache(threads=1) as other:
            pattern = from_sparse(other, S).pattern
            turned = [array.copy() for array in pattern.transposed()]
        names = ("active", "starts", "t_rows", "t_pos")
        X = block.bind(
            indptr=S.indptr.astype(np.int64),
            indices=S.indices.astype(np.int32),
            values=S.data,
            active_count=len(turned[0]),
            **dict(zip(names, turned, strict=True)),
        )
        few = local(X)
        phi = local_table(few, 2, "phi")
        scaled(few.T, phi, table, ones, one)
        found = (few @ phi).mat().numpy()
        np.testing.assert_allclose(found, S @ table.numpy(), rtol=1e-5)
    assert few.shape[1] >= COLUMNS // 2


def test_a_whole_table_does_not_fit_numbered_columns(memory: MatCache) -> None:
    few = local(from_sparse(memory, matrix("plain")))
    whole = from_array(memory, np.ones((COLUMNS, 2), np.float32))
    with pytest.raises(ShapeError, match=f"{few.shape[1]} columns|{COLUMNS} x 2"):
        shares(few, from_array(memory, np.ones((24, 2), np.float32)), whole)
