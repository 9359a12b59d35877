"""What kernels take for granted about shapes, beyond what meta kernels check.

In: a call's arguments by name. Out: a refusal where they do not fit each other. A kernel of backward trusts that
gradients and saved results have the shapes that forward returned: here, forward is inferred again and compared.
Some kernels also trust sizes that are passed beside the tensor they describe.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from openipu.admission.geometry import Geometry, infer_results
from openipu.admission.recurrent import RECURRENT_RULES
from openipu.admission.refusal import refuse
from openipu.graph.serial.values import shorten

aten = torch.ops.aten

Arguments = Mapping[str, Any]
Problem = tuple[str, str] | None  # argument, what is wrong with it


@dataclass(frozen=True, slots=True)
class _Forward:
    """The op that a backward op differentiates."""

    operator: Any
    takes: tuple[Any, ...]  # names of backward's arguments; what is not a name is passed on as it is
    returns: tuple[str, ...]  # backward's arguments that have the shapes of forward's results


_POOL = ("self", "kernel_size", "stride", "padding", "ceil_mode", "count_include_pad", "divisor_override")
_CONVOLUTION = ("stride", "padding", "dilation", "transposed", "output_padding", "groups")
_GRID = ("input", "grid", "interpolation_mode", "padding_mode", "align_corners")
_ATTENTION = ("query", "key", "value", "dropout_p", "is_causal")
_LOSS = ("self", "target", "weight", "reduction", "ignore_index")
_GRADIENT = ("grad_output",)

_FORWARDS: Mapping[str, _Forward] = {
    "convolution_backward": _Forward(aten.convolution.default, ("input", "weight", None, *_CONVOLUTION), _GRADIENT),
    "native_layer_norm_backward": _Forward(
        aten.native_layer_norm.default,
        ("input", "normalized_shape", "weight", "bias", 1e-5),
        ("grad_out", "mean", "rstd"),
    ),
    "nll_loss_backward": _Forward(aten.nll_loss_forward.default, _LOSS, (*_GRADIENT, "total_weight")),
    "nll_loss2d_backward": _Forward(aten.nll_loss2d_forward.default, _LOSS, (*_GRADIENT, "total_weight")),
    "avg_pool2d_backward": _Forward(aten.avg_pool2d.default, _POOL, _GRADIENT),
    "avg_pool3d_backward": _Forward(aten.avg_pool3d.default, _POOL, _GRADIENT),
    "grid_sampler_2d_backward": _Forward(aten.grid_sampler_2d.default, _GRID, _GRADIENT),
    "glu_backward": _Forward(aten.glu.default, ("self", "dim"), _GRADIENT),
    "_scaled_dot_product_flash_attention_for_cpu_backward": _Forward(
        aten._scaled_dot_product_flash_attention_for_cpu.default, _ATTENTION, ("grad_out", "logsumexp")
    ),
    **{
        f"{kind}_pad{dims}d_backward": _Forward(
            getattr(aten, f"{kind}_pad{dims}d").default, ("self", "padding"), _GRADIENT
        )
        for kind in ("reflection", "replication")
        for dims in (1, 2, 3)
    },
}
_CUTS: Mapping[str, Any] = {  # backward of a view: forward's arguments stand behind (gradient, input_sizes)
    "slice_backward": aten.slice.Tensor,
    "select_backward": aten.select.int,
    "diagonal_backward": aten.diagonal.default,
    "unfold_backward": aten.unfold.default,
}

_WINDOWED = ("pool", "attention", "upsample", "grid_sampler", "_pad", "norm", "convolution", "im2col", "col2im", "_bag")
_OPERANDS = ("self", "input", "grad_output", "grad_out", "query", "key", "value", "weight", "grid", "indices")


def check_relations(node: fx.Node, arguments: Arguments) -> None:
    """Refuse a call whose arguments do not fit each other."""
    operator: Any = node.target
    name = operator._opname
    try:
        problem = _find_problem(name, arguments)
    except Exception as error:  # what a meta kernel raises says that arguments do not fit
        if isinstance(error, OSError | MemoryError):
            raise
        reason = str(error).partition("\n")[0][:300]
        refuse(node, f"its arguments do not fit each other ({type(error).__name__}: {reason})")
    if problem is not None:
        refuse(node, problem[1], problem[0])


def _find_problem(name: str, arguments: Arguments) -> Problem:
    forward, rule = _FORWARDS.get(name), _RULES.get(name)
    problem = _find_empty(arguments) if any(word in name for word in _WINDOWED) else None
    if problem is not None:
        return problem
    if forward is not None:
        given = [arguments[item] if isinstance(item, str) else item for item in forward.takes]
        found = infer_results(forward.operator, given, {}).results
        problem = _compare(arguments, forward.returns, [result.shape for result in found if result is not None])
    elif name in _CUTS:
        gradient, sizes, *rest = arguments.values()
        whole = Geometry.read(torch.empty(sizes, dtype=gradient.dtype, device="meta"))
        (found,) = infer_results(_CUTS[name], [whole, *rest], {}).results
        problem = _compare(arguments, (next(iter(arguments)),), [found.shape])
    if problem is None and rule is not None:
        problem = rule(arguments)
    if problem is None and "upsample" in name:
        problem = _check_resampling(arguments)
    return problem


def _find_empty(arguments: Arguments) -> Problem:
    for name in _OPERANDS:
        tensor = arguments.get(name)
        if isinstance(tensor, Geometry) and not tensor.elements:
            return name, f"{tensor} holds nothing"
    return None


def _compare(arguments: Arguments, names: Sequence[str], shapes: Sequence[Sequence[int]]) -> Problem:
    for name, shape in zip(names, shapes, strict=False):
        tensor = arguments.get(name)
        if isinstance(tensor, Geometry) and tensor.shape != tuple(shape):
            return name, f"{tensor} should have the shape {list(shape)}"
    return None


def _check_vectors(arguments: Arguments, names: Sequence[str], size: int) -> Problem:
    return _compare(arguments, names, [(size,)] * len(names))


def _check_batch_norm(arguments: Arguments) -> Problem:
    source = arguments["input"]
    if len(source.shape) < 2:
        return "input", f"{source} has no channels"
    names = ("weight", "bias", "running_mean", "running_var")
    if arguments.get("training") and "running_mean" in arguments and arguments.get("running_mean") is not None:
        return "training", "the statistics would be written in place, which no program does"
    return _check_vectors(arguments, names, source.shape[1])


def _check_functional_batch_norm(arguments: Arguments) -> Problem:
    return _check_batch_norm({**arguments, "training": False})  # its statistics are results


def _check_batch_norm_backward(arguments: Arguments) -> Problem:
    source = arguments["input"]
    saved = ("save_mean", "save_invstd")
    if not arguments["train"]:  # then the running ones are read, and forward saved nothing
        empty = all(getattr(arguments[name], "shape", ()) == (0,) for name in saved)
        if arguments["running_mean"] is None or arguments["running_var"] is None:
            return "running_mean", "is missing"
        saved = () if empty else saved
    elif any(arguments[name] is None for name in saved):
        return "save_mean", "is missing"
    return (
        _check_batch_norm({**arguments, "training": False})
        or _compare(arguments, ("grad_out",), [source.shape])
        or _check_vectors(arguments, saved, source.shape[1])
    )


def _check_group_norm(arguments: Arguments) -> Problem:
    source, groups = arguments["input"], arguments["group"]
    rows, channels, *rest = (*source.shape, 0, 0) if len(source.shape) < 2 else source.shape
    sizes = {"N": rows, "C": channels, "HxW": math.prod(rest)}
    for name, size in sizes.items():
        if arguments[name] != size:
            return name, f"is {arguments[name]}, and {source} has {size}"
    if groups < 1 or channels % groups:
        return "group", f"{groups} groups do not divide {channels} channels"
    return (
        _check_vectors(arguments, ("weight", "bias"), channels)
        or _compare(arguments, ("grad_out",), [source.shape])
        or _compare(arguments, ("mean", "rstd"), [(rows, groups)] * 2)
    )


def _check_softmax_backward(arguments: Arguments) -> Problem:
    return _compare(arguments, _GRADIENT, [arguments["output"].shape])


def _check_embedding_backward(arguments: Arguments) -> Problem:
    gradient, indices = arguments["grad_output"], arguments["indices"]
    if arguments["num_weights"] < 1 or len(gradient.shape) != len(indices.shape) + 1:
        return "grad_output", f"{gradient} is no gradient of rows chosen by {indices}"
    return _compare(arguments, _GRADIENT, [(*indices.shape, gradient.shape[-1])])


def _check_embedding_bag(arguments: Arguments) -> Problem:
    indices = arguments["indices"]
    if arguments["mode"] not in (0, 1, 2) or arguments["sparse"]:
        return "mode", f"{arguments['mode']} (sparse: {arguments['sparse']}) is not a dense sum, mean or maximum"
    return _compare(arguments, ("per_sample_weights",), [indices.shape])


def _check_attention(arguments: Arguments) -> Problem:
    query, key = arguments["query"], arguments["key"]
    if len(query.shape) != 4:
        return "query", f"{query} is not [batch, heads, positions, features]"
    (batch, heads, rows, width), columns = query.shape, key.shape[2]
    mask = arguments["attn_mask"]
    if mask is not None and (len(mask.shape) not in (2, 4) or not _spreads(mask.shape, (batch, heads, rows, columns))):
        return "attn_mask", f"{mask} does not spread over {[batch, heads, rows, columns]}"
    return _compare(arguments, ("key", "value", "out"), [(batch, heads, columns, width)] * 2 + [query.shape])


def _check_division(arguments: Arguments) -> Problem:
    """Whole numbers by 0, or the least one by -1, are a fault of the processor in some kernels."""
    operands = [arguments["self"], arguments["other"]]
    whole = [
        isinstance(item, int)
        or (isinstance(item, Geometry) and not item.dtype.is_floating_point and not item.dtype.is_complex)
        for item in operands
    ]
    safe = isinstance(operands[1], int) and operands[1] > 0
    if all(whole) and not safe:
        return "other", f"whole numbers are divided by {shorten(operands[1])}, which is not a fixed number above 0"
    return None


def _check_rounded_division(arguments: Arguments) -> Problem:
    return _check_division(arguments) if arguments.get("rounding_mode") is not None else None


def _check_strided_scatter(arguments: Arguments) -> Problem:
    given = [arguments[name] for name in ("self", "size", "stride", "storage_offset")]
    (found,) = infer_results(aten.as_strided.default, given, {}).results
    return None if found is None else _compare(arguments, ("src",), [found.shape])


def _spreads(shape: Sequence[int], over: Sequence[int]) -> bool:
    return all(size in (1, whole) for size, whole in zip(reversed(shape), reversed(over), strict=False))


def _check_adaptive_pool_backward(dims: int) -> Callable[[Arguments], Problem]:
    forward = {2: aten._adaptive_avg_pool2d.default, 3: aten._adaptive_avg_pool3d.default}[dims]

    def check(arguments: Arguments) -> Problem:
        gradient, source = arguments["grad_output"], arguments["self"]
        (found,) = infer_results(forward, [source, list(gradient.shape[-dims:])], {}).results
        return _compare(arguments, _GRADIENT, [found.shape])

    return check


def _check_resampling(arguments: Arguments) -> Problem:
    """A scale that is not the ratio of the sizes leads outside the image."""
    source = arguments.get("self", arguments.get("input"))
    before = source.shape if source is not None else arguments["input_size"]
    after, inner = arguments.get("output_size"), before[2:]
    names = {3: ("scales_d", "scales_h", "scales_w"), 2: ("scales_h", "scales_w"), 1: ("scales",)}[len(inner)]
    scales = arguments.get("scale_factors") or [arguments.get(name) for name in names]
    gradient = arguments.get("grad_output")
    if after is not None and gradient is not None and gradient.shape != (*before[:2], *after):
        return "grad_output", f"{gradient} should have the shape {[*before[:2], *after]}"
    for index, (scale, size) in enumerate(zip(scales, inner, strict=True)):
        if scale is None:
            continue
        usable = math.isfinite(scale) and scale > 0
        if not usable or (after is not None and math.floor(size * scale) != after[index]):
            return names[index], f"{shorten(scale)} does not make {size} of {after[index] if after else 'it'}"
    return None


_RULES: Mapping[str, Callable[[Arguments], Problem]] = {
    "native_batch_norm": _check_batch_norm,
    "_native_batch_norm_legit": _check_batch_norm,
    "_native_batch_norm_legit_functional": _check_functional_batch_norm,
    "_native_batch_norm_legit_no_training": _check_batch_norm,
    "native_batch_norm_backward": _check_batch_norm_backward,
    "native_group_norm": _check_group_norm,
    "native_group_norm_backward": _check_group_norm,
    "_scaled_dot_product_flash_attention_for_cpu": _check_attention,
    "_scaled_dot_product_flash_attention_for_cpu_backward": _check_attention,
    "as_strided_scatter": _check_strided_scatter,
    "div": _check_rounded_division,
    **dict.fromkeys(("floor_divide", "remainder", "fmod"), _check_division),
    "_softmax_backward_data": _check_softmax_backward,
    "_log_softmax_backward_data": _check_softmax_backward,
    "embedding_dense_backward": _check_embedding_backward,
    "_embedding_bag": _check_embedding_bag,
    "_adaptive_avg_pool2d_backward": _check_adaptive_pool_backward(2),
    "_adaptive_avg_pool3d_backward": _check_adaptive_pool_backward(3),
    **RECURRENT_RULES,
}
