"""C++ kernels of our own: compiled in a process of its own, kept in the user's cache."""

from openipu.run.native.build import (
    NativeBuild,
    NativeJob,
    NativeProgram,
    NotCompiledError,
    find_native,
    make_native_key,
)
from openipu.run.native.inference_kernels import load_kernels, write_kernel_job
from openipu.run.native.shared_kernels import prepare_kernels, take_over_kernels

__all__ = [
    "NativeBuild",
    "NativeJob",
    "NativeProgram",
    "NotCompiledError",
    "find_native",
    "load_kernels",
    "make_native_key",
    "prepare_kernels",
    "take_over_kernels",
    "write_kernel_job",
]
