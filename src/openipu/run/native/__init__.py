"""Native code for the compiled tier: drafts through AOTInductor, in a process of its own, kept in the user's cache."""

from openipu.run.native.build import (
    NativeBuild,
    NativeJob,
    NativeProgram,
    NotCompiledError,
    explain_unsupported,
    find_native,
    make_native_key,
)
from openipu.run.native.convolution_kernels import load_kernels, write_kernel_job
from openipu.run.native.function import NativeFunction
from openipu.run.native.rounding_kernel import prepare_rounding, take_over_rounding
from openipu.run.native.signature import Signature

__all__ = [
    "NativeBuild",
    "NativeFunction",
    "NativeJob",
    "NativeProgram",
    "NotCompiledError",
    "Signature",
    "explain_unsupported",
    "find_native",
    "load_kernels",
    "make_native_key",
    "prepare_rounding",
    "take_over_rounding",
    "write_kernel_job",
]
