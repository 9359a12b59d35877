"""Products, convolutions, windows and normalisations.

In: sites. Out: ONNX's ops of the same meaning.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from openipu.errors import ExportError
from openipu.export.onnx_file.site import Rules, Site
from openipu.export.onnx_file.writer import Value


def _product(site: Site) -> Value:
    right = site.arguments.get("mat2", site.arguments.get("vec", site.arguments.get("other")))
    if right is None:
        right = site.arguments["tensor"]
    return site.emit("MatMul", site.source, right)


def _product_and_sum(first: str, second: str) -> Any:
    """beta c + alpha (a @ b)"""

    def rule(site: Site) -> Value:
        left, right = site.arguments[first], site.arguments[second]
        product = site.make("MatMul", [left, right], site.shape, site.dtype)
        if site.alpha != 1:
            product = site.like("Mul", product, site.number(site.alpha, site.dtype))
        if site.beta == 0:
            return product
        added = site.cast(site.source, site.dtype)
        if site.beta != 1:
            added = site.like("Mul", added, site.number(site.beta, site.dtype))
        return site.emit("Add", product, added)

    return rule


def _linear(site: Site) -> Value:
    weight = site.transpose(site.weight, [1, 0]) if site.weight.rank == 2 else site.weight
    product = site.make("MatMul", [site.input, weight], site.shape, site.dtype)
    return product if site.bias is None else site.emit("Add", product, site.bias)


def _convolution(site: Site) -> Value:
    source, weight = site.input, site.weight
    spatial = source.rank - 2
    strides, dilations = _spread(site.stride, spatial), _spread(site.dilation, spatial)
    padding = _spread(site.padding, spatial)
    attributes = {
        "strides": strides,
        "dilations": dilations,
        "group": site.groups,
        "kernel_shape": list(weight.shape[2:]),
        "pads": padding * 2,
    }
    if not site.transposed:
        return site.emit("Conv", source, weight, site.bias, **attributes)
    output_padding = _spread(site.output_padding, spatial)
    return site.emit("ConvTranspose", source, weight, site.bias, **attributes, output_padding=output_padding)


def _spread(given: Any, count: int) -> list[int]:
    values = list(given)
    return values * count if len(values) == 1 else values


def _max_pool(site: Site) -> tuple[Value | None, ...]:
    source = site.source
    spatial = len(site.kernel_size) if len(site.kernel_size) > 1 else source.rank - 2
    batched = source if source.rank == spatial + 2 else site.reshape(source, [1, *source.shape])
    kernel = _spread(site.kernel_size, spatial)
    shape = [*batched.shape[:2], *site.shape[-spatial:]]
    wanted = [(shape, site.dtype)] + ([(shape, torch.int64)] if 1 in site.used else [])
    padding = _spread(site.padding, spatial)
    found = site.writer.add(
        "MaxPool",
        [batched],
        wanted,
        kernel_shape=kernel,
        strides=_spread(site.stride, spatial) if site.stride else kernel,
        pads=padding * 2,
        dilations=_spread(site.dilation, spatial),
        ceil_mode=int(site.ceil_mode),
    )
    values = site.reshape(found[0], site.shape)
    if len(found) == 1:
        return values, None
    plane = math.prod(batched.shape[2:])  # ONNX counts through the whole tensor, PyTorch through one plane
    places = site.like("Mod", found[1], site.number(plane, torch.int64))
    return values, site.reshape(places, site.shape)


def _average_pool(site: Site) -> Value:
    source = site.source
    spatial = len(site.kernel_size) if len(site.kernel_size) > 1 else source.rank - 2
    if site.arguments.get("divisor_override") is not None:
        raise ExportError("divisor_override has no counterpart in ONNX")
    batched = source if source.rank == spatial + 2 else site.reshape(source, [1, *source.shape])
    kernel = _spread(site.kernel_size, spatial)
    shape = [*batched.shape[:2], *site.shape[-spatial:]]
    pooled = site.make(
        "AveragePool",
        [batched],
        shape,
        site.dtype,
        kernel_shape=kernel,
        strides=_spread(site.stride, spatial) if site.stride else kernel,
        pads=_spread(site.padding, spatial) * 2,
        ceil_mode=int(site.ceil_mode),
        count_include_pad=int(site.count_include_pad),
    )
    return site.reshape(pooled, site.shape)


def _layer_norm(site: Site) -> tuple[Value | None, ...]:
    source, axis = site.input, site.input.rank - len(site.normalized_shape)
    weight = site.weight
    if weight is None:
        weight = site.writer.constant(torch.ones(list(site.normalized_shape), dtype=source.dtype))
    results = [
        (result.shape, result.dtype) for index, result in enumerate(site.results) if index == 0 or site.used - {0}
    ]
    found = site.writer.add(
        "LayerNormalization", [source, weight, site.bias], results, axis=axis, epsilon=float(site.eps)
    )
    return (*found, *[None] * (3 - len(found)))


def _batch_norm_inference(site: Site) -> tuple[Value | None, ...]:
    return (_normalise(site), *[None] * (len(site.results) - 1))


def _batch_norm(site: Site) -> tuple[Value | None, ...]:
    """Only with the statistics that it holds; batch statistics are decomposed."""
    if site.arguments.get("training") or site.arguments.get("train"):
        raise NotImplementedError
    nothing = site.used - {0}
    if nothing - {3, 4}:
        raise NotImplementedError
    kept = (site.arguments.get("running_mean"), site.arguments.get("running_var"))
    return (_normalise(site), None, None, *kept)[: len(site.results)]


def _normalise(site: Site) -> Value:
    source = site.input
    channels = source.shape[1]
    ones = site.writer.constant(torch.ones(channels, dtype=source.dtype))
    zeros = site.writer.constant(torch.zeros(channels, dtype=source.dtype))
    weight = ones if site.weight is None else site.weight
    bias = zeros if site.bias is None else site.bias
    return site.emit(
        "BatchNormalization", source, weight, bias, site.running_mean, site.running_var, epsilon=float(site.eps)
    )


RULES: Rules = {
    "aten.mm": _product,
    "aten.bmm": _product,
    "aten.mv": _product,
    "aten.dot": _product,
    "aten.matmul": _product,
    "aten.addmm": _product_and_sum("mat1", "mat2"),
    "aten.baddbmm": _product_and_sum("batch1", "batch2"),
    "aten.addmv": _product_and_sum("mat", "vec"),
    "aten.linear": _linear,
    "aten.convolution": _convolution,
    "aten.max_pool2d_with_indices": _max_pool,
    "aten.max_pool3d_with_indices": _max_pool,
    "aten.avg_pool1d": _average_pool,
    "aten.avg_pool2d": _average_pool,
    "aten.avg_pool3d": _average_pool,
    "aten.native_layer_norm": _layer_norm,
    "aten._native_batch_norm_legit_no_training": _batch_norm_inference,
    "aten.native_batch_norm": _batch_norm,
    "aten._native_batch_norm_legit": _batch_norm,
    "aten._native_batch_norm_legit_functional": _batch_norm,
}
