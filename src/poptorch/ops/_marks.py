"""Ops that change no value and say something about one: what to train on, what to keep, how to compute.

In: tensors of `forward`. Out: the same values. Outside of a capture they are plain PyTorch.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils import _pytree as pytree

from openipu.capture import is_capturing, mark_loss, mark_stream, mark_tensor
from poptorch._args_parser import prepare_types
from poptorch.enums import MatMulSerializationMode, OverlapMode
from poptorch.errors import createPoptorchError
from poptorch.ops._checks import require_tensor

_REDUCTIONS = ("sum", "mean", "none")


def isRunningOnIpu() -> bool:
    """True only while `forward` is being captured for an IPU."""
    return is_capturing()


def identity_loss(x: torch.Tensor, reduction: str) -> torch.Tensor:
    """Mark `x`, reduced by "sum", "mean" or "none", as the loss that training starts from."""
    assert reduction in _REDUCTIONS, "Unsupported reduction type!"
    return mark_loss(x, reduction)


def nop(tensor: torch.Tensor) -> torch.Tensor:
    """The same values under a new name."""
    require_tensor(tensor, "nop must take a torch.tensor argument.")
    return tensor.clone()


def recomputationCheckpoint(*tensors: Any) -> Any:
    """Keep these values for backward where activations are otherwise made again.

    One tensor comes back as one, one list or tuple as the same kind, several tensors as a tuple.
    """
    if len(tensors) == 1 and isinstance(tensors[0], list | tuple):
        checkpoints = recomputationCheckpoint(*tensors[0])
        return type(tensors[0])(checkpoints if isinstance(checkpoints, tuple) else (checkpoints,))
    if not all(isinstance(tensor, torch.Tensor) for tensor in tensors):
        raise ValueError("All inputs must be tensors: pass tensors, or one list or tuple of them.")
    kept = tuple(mark_tensor(tensor, {"checkpoint": True}) for tensor in tensors)
    return kept[0] if len(kept) == 1 else kept


def set_available_memory(tensor: torch.Tensor, available_memory_proportion: float) -> torch.Tensor:
    """Let the op that made `tensor` use at most this share of a tile's memory for temporary data."""
    require_tensor(tensor, "You may only set available memory for torch.tensor values.")
    proportion = float(available_memory_proportion)
    if not 0 <= proportion <= 1:
        raise createPoptorchError(
            f"The proportion of available memory must lie between 0 and 1, not {available_memory_proportion!r}."
        )
    return mark_tensor(tensor, {"available_memory_proportion": proportion})


def serializedMatMul(
    lhs: torch.Tensor,
    rhs: torch.Tensor,
    mode: MatMulSerializationMode,
    factor: int = 0,
    keep_precision: bool = False,
) -> torch.Tensor:
    """`lhs @ rhs`, planned as `factor` smaller products, one after the other, to save memory."""
    assert isinstance(keep_precision, bool), "keep_precision must be a bool"
    assert isinstance(factor, int), "factor must be an int"
    assert isinstance(mode, MatMulSerializationMode), "mode must be a poptorch.MatMulSerializationMode"
    product = torch.matmul(lhs, rhs)
    if mode is MatMulSerializationMode.Disabled or not is_capturing():
        return product
    sizes = {
        MatMulSerializationMode.InputChannels: lhs.shape[-2] if lhs.dim() > 1 else 1,
        MatMulSerializationMode.ReducingDim: lhs.shape[-1],
        MatMulSerializationMode.OutputChannels: rhs.shape[-1] if rhs.dim() > 1 else 1,
    }
    if factor and sizes[mode] % factor:
        raise createPoptorchError(
            f"The factor of serializedMatMul ({factor}) must divide the dimension to serialize on: {mode.value} has "
            f"size {sizes[mode]}."
        )
    attributes: dict[str, Any] = {"serialization": (mode.value, factor)}
    if keep_precision:
        attributes["keep_precision"] = True
    return mark_tensor(product, attributes)


def set_overlap_for_input(input_tensors: Any, mode: OverlapMode) -> Any:
    """Read these inputs, in any nesting, while the IPU computes. Use what comes back in place of them."""
    return _mark_streams(input_tensors, mode, is_input=True)


def set_overlap_for_output(output_tensors: Any, mode: OverlapMode) -> Any:
    """Write these outputs, in any nesting, while the IPU computes. Return what comes back in place of them."""
    return _mark_streams(output_tensors, mode, is_input=False)


def _mark_streams(tensors: Any, mode: OverlapMode, is_input: bool) -> Any:
    def mark(tensor: Any) -> torch.Tensor:
        kind = "inputs" if is_input else "outputs"
        require_tensor(tensor, f"You may only set overlap for torch.tensor {kind}.")
        return mark_stream(tensor, mode.value, is_input=is_input)

    prepare_types(tensors)
    return pytree.tree_map(mark, tensors)
