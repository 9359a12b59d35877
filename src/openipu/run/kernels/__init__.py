"""C++ kernels: their records, the library of those that are there, and who compiles them."""

from openipu.run.kernels.kernel import Function, Kernel
from openipu.run.kernels.library import KernelLibrary, LoadedKernel, Run, UnusableLibraryError, load_kernel
from openipu.run.kernels.operands import (
    OperandError,
    address_of,
    address_of_lines,
    address_of_matrix,
    address_of_rows,
    address_or_none,
)
from openipu.run.kernels.provider import KernelProvider, find_provider

__all__ = [
    "Function",
    "Kernel",
    "KernelLibrary",
    "KernelProvider",
    "LoadedKernel",
    "OperandError",
    "Run",
    "UnusableLibraryError",
    "address_of",
    "address_of_lines",
    "address_of_matrix",
    "address_of_rows",
    "address_or_none",
    "find_provider",
    "load_kernel",
]
