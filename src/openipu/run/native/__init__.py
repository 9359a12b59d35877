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
from openipu.run.native.cut import PART_NODES
from openipu.run.native.function import NativeFunction
from openipu.run.native.inference_kernels import load_kernels, write_kernel_job
from openipu.run.native.repeats import find_repeats
from openipu.run.native.shared_kernels import prepare_kernels, take_over_kernels
from openipu.run.native.signature import Signature

__all__ = [
    "PART_NODES",
    "NativeBuild",
    "NativeFunction",
    "NativeJob",
    "NativeProgram",
    "NotCompiledError",
    "Signature",
    "explain_unsupported",
    "find_native",
    "find_repeats",
    "load_kernels",
    "make_native_key",
    "prepare_kernels",
    "take_over_kernels",
    "write_kernel_job",
]
