"""Functions that users call inside `forward`. Outside of a capture they are plain PyTorch."""

from poptorch.ops import _torch_ops as _torch_ops
from poptorch.ops._control import cond, for_loop
from poptorch.ops._cpu import CPU
from poptorch.ops._custom import custom_op
from poptorch.ops._decoder import ctc_beam_search_decoder
from poptorch.ops._marks import (
    identity_loss,
    isRunningOnIpu,
    nop,
    recomputationCheckpoint,
    serializedMatMul,
    set_available_memory,
    set_overlap_for_input,
    set_overlap_for_output,
)
from poptorch.ops._points import fps, nearest
from poptorch.ops._printing import ipu_print_tensor
from poptorch.ops._scopes import Attribute, MultiConv, NameScope
from poptorch.ops._slices import dynamic_slice, dynamic_update

__all__ = [
    "CPU",
    "Attribute",
    "MultiConv",
    "NameScope",
    "cond",
    "ctc_beam_search_decoder",
    "custom_op",
    "dynamic_slice",
    "dynamic_update",
    "for_loop",
    "fps",
    "identity_loss",
    "ipu_print_tensor",
    "isRunningOnIpu",
    "nearest",
    "nop",
    "recomputationCheckpoint",
    "serializedMatMul",
    "set_available_memory",
    "set_overlap_for_input",
    "set_overlap_for_output",
]
