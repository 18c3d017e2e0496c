"""A sparse matrix that notebooks describe."""

from scipy.sparse import csr_array

from blocklearn.card import card


class SparseMatrix(csr_array):  # type: ignore[misc]  # SciPy has no types
    """A SciPy CSR array with HTML for notebooks: shape, stored entries, memory.

    >>> SparseMatrix([[0, 2], [0, 0]])._repr_html_().count("2 x 2")
    1
    """

    def _repr_html_(self) -> str:
        rows, columns = self.shape
        share = self.nnz / (rows * columns) if rows and columns else 0.0
        nbytes = self.data.nbytes + self.indices.nbytes + self.indptr.nbytes
        facts = {
            "shape": f"{rows:,} x {columns:,}",
            "stored entries": f"{self.nnz:,}, {share:.2%} of all",
            "dtype": self.dtype,
            "memory": f"{nbytes:,} bytes",
        }
        return card("Sparse matrix", facts)
