"""PopLibs' products with sparse matrices. Unofficial.

In: `poplar` graphs, tensors and sequences, and matrices of non-zero values on the host. Out: steps at the end of the
sequence, and new tensors. Results are those of the dense product, and so is the price: what sparsity would save is not
counted here.
"""

from poplar import Graph
from popsparse import _flat, dynamic, static_  # noqa: F401 (C++ calls _flat)
from popsparse._formats import COOMatrix, CSCMatrix, CSRMatrix
from popsparse._params import PlanningCache


def addCodelets(graph: Graph) -> None:
    """Nothing to add: library functions are there as they are."""


__all__ = ["COOMatrix", "CSCMatrix", "CSRMatrix", "PlanningCache", "addCodelets", "dynamic", "static_"]
