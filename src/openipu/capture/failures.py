"""The errors of capture: each names the user's line, quotes it, and says what to write instead.

In: what is wrong and what to do. Out: an exception to raise. The first sentences hold the phrases that PopTorch users
search for.
"""

from __future__ import annotations

from typing import Any

import torch

from openipu.capture.lines import find_user_line, quote_line
from openipu.capture.record.torch_private import DynamicOutputShapeException
from openipu.errors import CaptureError
from openipu.graph import SourceLine


class DynamicShapeError(CaptureError, DynamicOutputShapeException):
    """The shape of a result depends on data. Also torch's own class, for those who catch that."""

    def __init__(self, message: str, func: Any = None) -> None:
        Exception.__init__(self, message)
        self.func = func

    def __str__(self) -> str:
        return str(self.args[0])


def locate(message: str, line: SourceLine | None = None) -> str:
    """The message with the user's line behind it."""
    where = line or find_user_line()
    return message + (quote_line(where) if where is not None else "")


def refuse_host_read(call: str) -> CaptureError:
    """`call` wants the value of a tensor."""
    return CaptureError(
        locate(
            f"A static graph cannot read values (aten::item): {call} needs that of an IPU tensor, and there are none "
            "while the graph is being built. "
            "Choose with torch.where() instead of a Python branch, or return the tensor and read it after the call."
        )
    )


def refuse_move_to_host(call: str) -> CaptureError:
    """A tensor is moved off the IPU."""
    return CaptureError(
        locate(
            f"Illegal move to CPU (via `{call}`) when using the dispatcher. "
            "Instead, return this output as an IPU tensor."
        )
    )


def refuse_stray_tensor(tensor: torch.Tensor, operation: object) -> CaptureError:
    """A tensor of the host meets tensors of the IPU."""
    dtype = str(tensor.dtype).removeprefix("torch.")
    return CaptureError(
        locate(
            f"Expected an IPU tensor but got tensor(device={tensor.device.type}, shape={list(tensor.shape)}, "
            f"dtype={_SCALAR_NAMES.get(dtype, dtype)}).\n"
            'If its value is a constant, say so by tensor.to("ipu"). '
            f"The tensor is an operand of {operation}; if it is to change between calls, register it as a buffer. "
            "PopTorch 2 took such tensors as constants: so does OPENIPU_HOST_TENSORS=constants."
        )
    )


def refuse_dynamic_shape(operation: object) -> DynamicShapeError:
    """An op makes a tensor of unknown size."""
    return DynamicShapeError(
        locate(
            f"{operation} makes a tensor whose shape depends on data, which a static graph cannot hold. "
            "Keep the full shape and mask it instead, for example with torch.where(mask, x, 0) or x * mask."
        ),
        operation,
    )


def refuse_unsupported(operation: Any) -> CaptureError:
    """An op that cannot be traced."""
    return CaptureError(
        locate(
            f"Unsupported ops found in compiled model: [{operation._schema.name}]. Not all operations are supported "
            "yet: torch cannot tell the shape of its result without data. Replace it by other ops, or move it out of "
            "forward."
        )
    )


def refuse_set_memory() -> CaptureError:
    """`set_()` makes a tensor out of another's memory; `copy.copy(tensor)` does so too."""
    return CaptureError(
        locate(
            "set_() and copy.copy() of an IPU tensor reach for its memory, which a static graph has no name for. "
            "Use tensor.view_as(tensor) to share values, or tensor.clone() to copy them."
        )
    )


def refuse_growth(shape: list[int], larger: list[int]) -> CaptureError:
    """`resize_()`, or an `out=` that is too small, where the old memory has more than one name."""
    return CaptureError(
        locate(
            f"A tensor of shape {shape} is resized to {larger}, and what holds it, an input, a weight, a buffer or a "
            f"view, cannot grow with it in a static graph. Make a tensor of shape {larger} for the result."
        )
    )


def refuse_strided_view(shape: list[int], strides: list[int], line: SourceLine | None) -> CaptureError:
    """`as_strided` of memory that has gaps."""
    return CaptureError(
        locate(
            f"as_strided() reaches beyond a tensor of shape {shape} and strides {strides}, or into gaps between its "
            "elements: a static graph has no name for what lies there. Call contiguous() on the tensor first.",
            line,
        )
    )


def refuse_generator() -> CaptureError:
    """A random op is given its own generator."""
    return CaptureError(
        locate(
            "torch.Generator objects cannot be used on the IPU: its random numbers have one seed for the program. "
            "Remove generator= and set the random seed in the options."
        )
    )


_SCALAR_NAMES = {
    "int64": "Long",
    "int32": "Int",
    "int16": "Short",
    "int8": "Char",
    "uint8": "Byte",
    "bool": "Bool",
    "float32": "Float",
    "float64": "Double",
    "float16": "Half",
    "bfloat16": "BFloat16",
}
