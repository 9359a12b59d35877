"""Matrix products, convolutions, pooling."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch
import torch.nn.functional as F  # noqa: N812

from popxl import dtypes
from popxl._ir.operation import SHAPES, VALUES
from popxl.ops.utils import check_formats, check_tensor_ipu_and_tile_set, make_one, memory
from popxl.tensor import Tensor

PadType = Literal["not_set", "same_upper", "same_lower", "valid"]
_PADS = ("not_set", "same_upper", "same_lower", "valid")
_CONVOLUTIONS: dict[int, Callable[..., Any]] = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
_TRANSPOSED: dict[int, Callable[..., Any]] = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}
_AVERAGES: dict[int, Callable[..., Any]] = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}
_MAXIMA: dict[int, Callable[..., Any]] = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}


def matmul(
    lhs: Tensor,
    rhs: Tensor,
    available_memory_proportion: float | None = None,
    output_type: dtypes.dtype | None = None,
    partials_type: dtypes.dtype | None = None,
) -> Tensor:
    """The matrix product, with numpy's rules for more than two dimensions."""
    if partials_type not in (None, dtypes.float16, dtypes.float32):
        raise ValueError(f"Partial sums are float16 or float32, not {partials_type}.")
    check_formats("MatMul", lhs, rhs)
    check_tensor_ipu_and_tile_set(lhs=lhs, rhs=rhs)

    def run(x: Any, y: Any) -> Any:
        product = torch.matmul(x, y)
        return product if output_type is None else product.to(output_type._held)

    return make_one("MatMul", run, [lhs, rhs], rule=VALUES, attributes=memory(available_memory_proportion))


def find_pads(
    sizes: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
    pad_type: PadType,
) -> list[tuple[int, int]]:
    """What is added before and behind each spatial dimension."""
    if pad_type not in _PADS:
        raise ValueError(f"`pad_type` is not_set, same_upper, same_lower or valid, not {pad_type!r}.")
    count = len(sizes)
    if pad_type == "valid":
        return [(0, 0)] * count
    if pad_type == "not_set":
        pads = list(padding) or [0] * (2 * count)
        return [(pads[place], pads[count + place]) for place in range(count)]
    found = []
    for size, width, hop, spread in zip(sizes, kernel, stride, dilation, strict=True):
        whole = max(0, (-(-size // hop) - 1) * hop + (width - 1) * spread + 1 - size)
        small, large = whole // 2, whole - whole // 2
        found.append((small, large) if pad_type == "same_upper" else (large, small))
    return found


def _first(proportions: list[float] | None) -> dict[str, Any]:
    return memory(proportions[0] if proportions else None)


def _add_pads(x: Any, pads: list[tuple[int, int]], value: float = 0.0) -> tuple[Any, list[int]]:
    """The tensor, and the pads that the op itself has to add: those that are the same on both sides."""
    if all(before == behind for before, behind in pads):
        return x, [before for before, _ in pads]
    return F.pad(x, [entry for pair in reversed(pads) for entry in pair], value=value), [0] * len(pads)


def conv(
    t: Tensor,
    weight: Tensor,
    stride: Sequence[int] = (1, 1),
    padding: Sequence[int] = (0, 0, 0, 0),
    dilation: Sequence[int] = (1, 1),
    groups: int = 1,
    pad_type: PadType = "not_set",
    available_memory_proportions: list[float] | None = None,
    partials_types: list[str] | None = None,
    enable_conv_dithering: list[int] | None = None,
) -> Tensor:
    """A convolution of channels-first data. `padding`: before each dimension, then behind each."""
    check_formats("Conv", t, weight)
    check_tensor_ipu_and_tile_set(t=t, weight=weight)
    pads = find_pads(t.shape[2:], weight.shape[2:], stride, dilation, padding, pad_type)

    def run(x: Any, kernel: Any) -> Any:
        padded, own = _add_pads(x, pads)
        return _CONVOLUTIONS[x.dim() - 2](padded, kernel, None, list(stride), own, list(dilation), groups)

    return make_one("Conv", run, [t, weight], rule=VALUES, attributes=_first(available_memory_proportions))


def conv_transpose(
    t: Tensor,
    weight: Tensor,
    stride: Sequence[int] = (1, 1),
    padding: Sequence[int] = (0, 0, 0, 0),
    dilation: Sequence[int] = (1, 1),
    groups: int = 1,
    pad_type: PadType = "not_set",
    output_padding: Sequence[int] = (),
    output_shape: Sequence[int] = (),
    available_memory_proportions: list[float] | None = None,
    partials_types: list[str] | None = None,
    enable_conv_dithering: list[int] | None = None,
) -> Tensor:
    """The transpose of a convolution. `output_shape`, where given, decides the pads."""
    check_formats("ConvTranspose", t, weight)
    check_tensor_ipu_and_tile_set(t=t, weight=weight)
    spatial = t.rank - 2
    extra = list(output_padding) or [0] * spatial
    sizes, kernel = t.shape[2:], weight.shape[2:]
    reach = [
        (size - 1) * hop + (width - 1) * spread + 1
        for size, hop, width, spread in zip(sizes, stride, kernel, dilation, strict=True)
    ]
    if output_shape or pad_type.startswith("same"):
        wanted = list(output_shape)[-spatial:] or [size * hop for size, hop in zip(sizes, stride, strict=True)]
        whole = [max(0, far + more - want) for far, more, want in zip(reach, extra, wanted, strict=True)]
        pads = [(total - total // 2, total // 2) for total in whole]
        if pad_type == "same_upper":
            pads = [(second, first) for first, second in pads]
    else:
        pads = find_pads(sizes, kernel, stride, dilation, padding, pad_type)

    def run(x: Any, filters: Any) -> Any:
        made = _TRANSPOSED[x.dim() - 2](
            x, filters, None, list(stride), [0] * spatial, [0] * spatial, groups, list(dilation)
        )
        made = F.pad(made, [entry for more in reversed(extra) for entry in (0, more)]) if any(extra) else made
        for place, (before, behind) in enumerate(pads):
            made = made.narrow(2 + place, before, made.shape[2 + place] - before - behind)
        return made

    return make_one("ConvTranspose", run, [t, weight], rule=VALUES, attributes=_first(available_memory_proportions))


def _check_pool(name: str, dilation: Any, in_dilations: Any, out_pads: Any) -> None:
    for title, value, usual in (("in_dilations", in_dilations, 1), ("out_pads", out_pads, 0)):
        if value and any(entry != usual for entry in value):
            raise NotImplementedError(f"{name} with {title}={tuple(value)} is not there yet.")
    if name == "average_pool" and dilation and any(entry != 1 for entry in dilation):
        raise NotImplementedError(f"{name} with dilation={tuple(dilation)} is not there yet.")


def average_pool(
    t: Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int] | None = None,
    padding: Sequence[int] | None = None,
    out_pads: Sequence[int] | None = None,
    dilation: Sequence[int] | None = None,
    in_dilations: Sequence[int] | None = None,
    auto_pad: PadType = "not_set",
    ceil_mode: bool = False,
) -> Tensor:
    """Means of windows; what is padded does not count."""
    _check_pool("average_pool", dilation, in_dilations, out_pads)
    hops = list(stride or [1] * len(kernel_size))
    ones = [1] * len(kernel_size)
    pads = find_pads(t.shape[2:], kernel_size, hops, ones, padding or (), auto_pad)

    def run(x: Any) -> Any:
        pool = _AVERAGES[x.dim() - 2]
        if all(before == behind for before, behind in pads):
            own = [before for before, _ in pads]
            return pool(x, list(kernel_size), hops, own, ceil_mode, False)
        padded, _ = _add_pads(x, pads)
        counts, _ = _add_pads(torch.ones(t.shape, dtype=x.dtype), pads)
        total = pool(padded, list(kernel_size), hops, 0, ceil_mode)
        return total / pool(counts, list(kernel_size), hops, 0, ceil_mode)

    return make_one("AveragePool", run, [t], rule=SHAPES)


def max_pool(
    t: Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int] | None = None,
    padding: Sequence[int] | None = None,
    out_pads: Sequence[int] | None = None,
    dilation: Sequence[int] | None = None,
    in_dilations: Sequence[int] | None = None,
    auto_pad: PadType = "not_set",
    ceil_mode: bool = False,
    storage_order: Literal["row", "column"] = "row",
) -> Tensor:
    """The largest element of windows."""
    _check_pool("max_pool", dilation, in_dilations, out_pads)
    hops = list(stride or [1] * len(kernel_size))
    spread = list(dilation or [1] * len(kernel_size))
    pads = find_pads(t.shape[2:], kernel_size, hops, spread, padding or (), auto_pad)

    def run(x: Any) -> Any:
        padded, own = _add_pads(x, pads, float("-inf"))
        return _MAXIMA[x.dim() - 2](padded, list(kernel_size), hops, own, spread, ceil_mode)

    return make_one("MaxPool", run, [t], rule=VALUES)
