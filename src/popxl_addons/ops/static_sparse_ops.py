"""Products with a sparse matrix whose entries are known."""

from __future__ import annotations

from typing import Any

import numpy as np

import popxl

__all__ = ["dense_const_sparse_matmul", "random_sparse"]


def random_sparse(dense: np.ndarray[Any, Any], density: float = 0.5) -> np.ndarray[Any, Any]:
    """Set elements of the array to zero by chance, so that about ``density`` of them stay; at least one does."""
    dropped = np.random.random(dense.shape) >= density
    if dropped.all():
        dropped.reshape(-1)[0] = False
    dense[dropped] = 0
    return dense


def dense_const_sparse_matmul(lhs: popxl.Tensor, rhs: Any, output_cols: int) -> popxl.Tensor:
    """``lhs @ rhs`` for a matrix in CSR form (``data``, ``indices``, ``indptr``), at the price of the dense product."""
    if lhs.dtype not in (popxl.float16, popxl.float32):
        raise RuntimeError(f"products are for float16 and float32, not {lhs.dtype}")
    rows = len(rhs.indptr) - 1
    dense = np.zeros((rows, output_cols), np.float32)
    row_of = np.repeat(np.arange(rows), np.diff(rhs.indptr))
    dense[row_of, np.asarray(rhs.indices)] = rhs.data
    return lhs @ popxl.constant(dense, lhs.dtype)
