"""Dense products and factors by BLAS and LAPACK, with bits that threads do not change."""
