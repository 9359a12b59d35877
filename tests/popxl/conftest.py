"""Small programs: arrays in, arrays out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import popxl
from popxl import ops, transforms

Array = np.ndarray[Any, Any]


def _load(arrays: Sequence[Array]) -> tuple[list[Any], list[Any]]:
    streams = [popxl.h2d_stream(array.shape, popxl.dtype.as_dtype(array.dtype)) for array in arrays]
    return streams, [ops.host_load(stream) for stream in streams]


def _store(tensors: Sequence[Any]) -> list[Any]:
    streams = [popxl.d2h_stream(tensor.shape, tensor.dtype) for tensor in tensors]
    for stream, tensor in zip(streams, tensors, strict=True):
        ops.host_store(stream, tensor)
    return streams


@pytest.fixture
def evaluate() -> Callable[..., list[Array]]:
    """`evaluate(build, *arrays)`: what `build` makes of tensors, as arrays."""

    def run(build: Callable[..., Any], *arrays: Array) -> list[Array]:
        ir = popxl.Ir()
        with ir.main_graph:
            sources, tensors = _load(arrays)
            made = build(*tensors)
            targets = _store(list(made) if isinstance(made, list | tuple) else [made])
        with popxl.Session(ir, "ipu_model") as session:
            found = session.run(dict(zip(sources, arrays, strict=True)))
        return [found[target] for target in targets]

    return run


@pytest.fixture
def differentiate() -> Callable[..., tuple[Array, list[Array]]]:
    """`differentiate(build, *arrays)`: the result of a graph, and the gradients of its float inputs for a seed of 1, 2,
    …, in the result's own shape."""

    def run(build: Callable[..., Any], *arrays: Array) -> tuple[Array, list[Array]]:
        ir = popxl.Ir()
        with ir.main_graph:
            sources, tensors = _load(arrays)
            graph = ir.create_graph(build, *tensors)
            call = ops.call_with_info(graph, *tensors)
            info = transforms.autodiff(graph, grads_provided=[graph.outputs[0]])
            out = call.outputs[0]
            seed = popxl.constant(np.arange(1, out.nelms + 1).reshape(out.shape), out.dtype)
            gradients = ops.call(info.graph, seed, inputs_dict=info.inputs_dict(call))
            targets = _store([out, *gradients])
        with popxl.Session(ir, "ipu_model") as session:
            found = session.run(dict(zip(sources, arrays, strict=True)))
        return found[targets[0]], [found[target] for target in targets[1:]]

    return run
