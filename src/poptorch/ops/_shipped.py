"""Custom ops that came with PopTorch itself, or that many public programs carry along as the same C++ code.

In: the operands and attributes of a call of `custom_op`. Out: the same as ops of PyTorch, with gradients, cost rules
and all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from openipu.capture import carry_parameter, is_capturing
from poptorch.errors import createPoptorchError
from poptorch.ops._detection import suppress_overlaps

ShippedOp = Callable[[Sequence[torch.Tensor], Mapping[str, Any]], list[torch.Tensor]]
_CTC_REDUCTIONS = {"Sum": "sum", "Mean": "mean", "NoReduction": "none"}


def gather_last_dimension(inputs: Sequence[torch.Tensor], attributes: Mapping[str, Any]) -> list[torch.Tensor]:
    """`FastGatherLastDim`: out[..., i] = data[..., index[..., i]]. DeBERTa of Optimum is built on it."""
    data, index = inputs
    if data.shape[:-1] != index.shape[:-1] or data.dim() != index.dim():
        raise createPoptorchError(
            f"FastGatherLastDim gathers along the last dimension only: data {tuple(data.shape)} and index "
            f"{tuple(index.shape)} must have the same sizes before it. Use torch.gather, or expand the index."
        )
    return [torch.gather(data, -1, index.long())]


class _Moved(torch.autograd.Function):
    """The same values, spread anew over the tiles; so is the gradient."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, moves: int, backward_moves: int) -> torch.Tensor:
        ctx.backward_moves = backward_moves
        return _move(tensor, moves)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        return _move(gradients[0], ctx.backward_moves), None, None


def _move(tensor: torch.Tensor, moves: int) -> torch.Tensor:
    """A copy where the tensor lies, if there are no moves; else each one brings all of it to other tiles."""
    if not moves:
        return tensor.clone()
    for _ in range(moves):
        tensor = tensor.clone(memory_format=torch.contiguous_format)
    return tensor


def spread_evenly(inputs: Sequence[torch.Tensor], attributes: Mapping[str, Any]) -> list[torch.Tensor]:
    """`RemapCE`: an identity that lays a tensor out evenly, `grain_size` elements to a piece. Transformers call it
    before ops that would find their operand on a few tiles.

    Newer ones give the sizes as `fwd_grain_size` and `bwd_grain_size`; `…_clone_layout` copies on the spot, and
    `…_after_matmul` regroups what a product left before it is spread.
    """
    if len(inputs) != 1:
        raise createPoptorchError(f"RemapCE takes one tensor, not {len(inputs)}.")
    for name in ("grain_size", "fwd_grain_size", "bwd_grain_size"):
        if name in attributes and int(attributes[name]) < 1:
            raise createPoptorchError(f"RemapCE needs a {name} of at least 1, not {attributes[name]}.")
    moves, backward_moves = (
        0 if attributes.get(f"{way}_clone_layout") else 1 + bool(attributes.get(f"{way}_after_matmul"))
        for way in ("fwd", "bwd")
    )
    return [_Moved.apply(inputs[0], moves, backward_moves)]  # type: ignore[no-untyped-call]


def copy_tensor(inputs: Sequence[torch.Tensor], attributes: Mapping[str, Any]) -> list[torch.Tensor]:
    """`CopyTensor`: a copy that lies linearly over the tiles, ten elements to a piece at least; its gradient passes
    through. YOLO v4 calls it where two heads read the same tensor."""
    _check_count("CopyTensor", inputs, 1)
    return [inputs[0].clone(memory_format=torch.contiguous_format)]


def move_average(inputs: Sequence[torch.Tensor], attributes: Mapping[str, Any]) -> list[torch.Tensor]:
    """`ExpMovAvg`: the second operand becomes factor * itself + (1 - factor) * the first. DINO's teacher follows its
    student by it, once a weight update: all micro-batches before it see the old one, and the first operand as it was
    for them. The factor is that of the last micro-batch."""
    _check_count("ExpMovAvg", inputs, 3)
    followed, average, factor = inputs
    if is_capturing():
        return [carry_parameter(average, lambda: average * factor + followed * (1 - factor))]
    with torch.no_grad():
        average.mul_(factor).add_(followed * (1 - factor))
        return [average.clone()]


def connectionist_loss(inputs: Sequence[torch.Tensor], attributes: Mapping[str, Any]) -> list[torch.Tensor]:
    """`Ctc`, an op of PopART's own that Conformer calls by name: the loss of logarithms of probabilities [time, batch,
    classes], and its gradient for them, which PopART's op gives as well."""
    _check_count("Ctc", inputs, 4)
    logarithms, labels, lengths, label_lengths = inputs
    reduction = attributes.get("reduction", "Mean")
    if reduction not in _CTC_REDUCTIONS:
        raise createPoptorchError(f"Ctc has the reductions {', '.join(_CTC_REDUCTIONS)}, not {reduction!r}.")
    loss = torch.nn.functional.ctc_loss(
        logarithms.float(),
        labels.long(),
        lengths.long(),
        label_lengths.long(),
        blank=int(attributes.get("blank", 0)),
        reduction=_CTC_REDUCTIONS[reduction],
        zero_infinity=bool(attributes.get("zeroInfinity", 0)),
    )
    (gradient,) = torch.autograd.grad(loss.sum(), logarithms, retain_graph=True) if logarithms.requires_grad else [None]
    return [loss.to(logarithms.dtype), torch.zeros_like(logarithms) if gradient is None else gradient]


def _check_count(name: str, inputs: Sequence[torch.Tensor], count: int) -> None:
    if len(inputs) != count:
        raise createPoptorchError(f"{name} takes {count} tensors, not {len(inputs)}.")


SHIPPED: dict[tuple[str, str, int], ShippedOp] = {
    ("FastGatherLastDim", "poptorch.custom_ops", 1): gather_last_dimension,
    ("RemapCE", "ai.graphcore", 1): spread_evenly,
    ("CopyTensor", "ai.graphcore", 1): copy_tensor,
    ("Ctc", "ai.graphcore", 1): connectionist_loss,
    ("ExpMovAvg", "com.acme", 1): move_average,
    ("Nms", "ai.graphcore", 1): suppress_overlaps,
}
