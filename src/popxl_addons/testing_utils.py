"""Running one module, for tests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

import popxl
from popxl_addons.module import Module
from popxl_addons.named_tensors import NamedTensors
from popxl_addons.ops import host_store

__all__ = ["TensorInput", "ops_of_type", "run_module"]

Array = np.ndarray[Any, Any]


class TensorInput:
    """An array that is to be a tensor of the program, in the format given or its own."""

    def __init__(self, data: Array, dtype: popxl.dtype | None = None) -> None:
        self.data = data
        self.dtype = dtype


def ops_of_type(ops: Iterable[Any], op_type: type) -> int:
    """How many of the ops are of a type."""
    return sum(isinstance(op, op_type) for op in ops)


def run_module(
    module: Module,
    *args: Any,
    weights: Mapping[Any, Array] | Callable[[NamedTensors], Mapping[Any, Array]] | None = None,
    **kwargs: Any,
) -> list[Array]:
    """Build a module for these arguments, run it, and return its outputs.

    ``weights``: values of its variables, or a function that gives them for the tree of variables.
    """

    def convert(value: Any) -> Any:
        if not isinstance(value, TensorInput):
            return value
        return popxl.variable(value.data, dtype=value.dtype or popxl.dtype.as_dtype(value.data))

    ir = popxl.Ir()
    with ir.main_graph:
        positional = [convert(value) for value in args]
        named = {key: convert(value) for key, value in kwargs.items()}
        factories, graph = module.create_graph(*positional, **named)
        variables = factories.init()
        given = [t for t in [*positional, *named.values()] if isinstance(t, popxl.Tensor)]
        streams = [host_store(output) for output in graph.bind(variables).call(*given)]
    with popxl.Session(ir, "ipu_hw") as session:
        if weights is not None:
            session.write_variables_data(dict(weights(variables) if callable(weights) else weights))
        outputs = session.run()
    return [outputs[stream] for stream in streams]
