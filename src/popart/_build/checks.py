"""What a builder refuses at once: windows and axes that do not fit their data.

In: an op with its inputs and attributes. Out: nothing, or popart_exception.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from popart._build.graph import BuilderGraph
from popart._exceptions import popart_exception

_WINDOWED = ("Conv", "AveragePool", "MaxPool")


def check_windows(op: str, inputs: Sequence[str], attributes: Mapping[str, Any], graph: BuilderGraph) -> None:
    """Refuse a convolution, a pool or a padding that does not fit what it is of."""
    reduces = op.startswith("Reduce")
    if not (reduces or op in (*_WINDOWED, "Pad")) or not inputs or not graph.knows(inputs[0]):
        return
    shape = graph.describe(inputs[0])[1]
    if reduces:
        for axis in attributes.get("axes") or ():
            if not -len(shape) <= axis < len(shape):
                raise popart_exception(f"Axis {axis} is out of acceptable range [{-len(shape)}, {len(shape) - 1}]")
        return
    if op == "Pad":
        pads = attributes.get("pads")
        if pads is not None and len(pads) != 2 * len(shape):
            raise popart_exception(
                f"Padding vector (length {len(pads)}) doesn't have precisely twice the number of dimensions of the "
                f"input tensor (rank {len(shape)})."
            )
        return
    _check_window(op, inputs, attributes, graph, shape[2:])


def _check_window(
    op: str, inputs: Sequence[str], attributes: Mapping[str, Any], graph: BuilderGraph, spatial: Sequence[int]
) -> None:
    kernel = attributes.get("kernel_shape")
    if op == "Conv":
        if len(inputs) < 2 or not graph.knows(inputs[1]):
            return
        inferred = graph.describe(inputs[1])[1][2:]
        if kernel and list(kernel) != inferred:
            raise popart_exception(
                f"kernel_shape, {_show(kernel)}, does not match inferred shape from weight input '{inputs[1]}', "
                f"{_show(inferred)}"
            )
        kernel = inferred
    if not kernel or len(kernel) != len(spatial):
        return
    count = len(spatial)
    for name in ("strides", "dilations"):
        given = attributes.get(name)
        if given and len(given) != count:
            raise popart_exception(f"Length of {name} vector {len(given)} != number of spatial dimensions {count}")
    padding = attributes.get("pads")
    if padding and len(padding) != 2 * count:
        raise popart_exception(
            f"Padding vector (length {len(padding)}) does not have 2 values for each spatial dimension {count}"
        )
    strides = attributes.get("strides") or [1] * count
    dilations = attributes.get("dilations") or [1] * count
    pads = attributes.get("pads") or [0] * 2 * count
    sizes = [
        (spatial[axis] + pads[axis] + pads[axis + count] - dilations[axis] * (kernel[axis] - 1) - 1) // strides[axis] + 1
        for axis in range(count)
    ]
    if any(size < 1 for size in sizes):
        raise popart_exception(
            f"Window parameter values combine to give invalid spatial output shape: {_show(sizes)}"
        )


def _show(numbers: Sequence[int]) -> str:
    return f"[{' '.join(map(str, numbers))}]"


def check_parts(parts: Sequence[Sequence[str]], given: Mapping[str, Any], graph: BuilderGraph) -> None:
    """Refuse several convolutions in one whose inputs or settings do not match each other."""
    for number, part in enumerate(parts):
        if len(part) < 2:
            raise popart_exception(f"Convolution {number} must have at least two inputs - data and weights")
        if len(part) > 3:
            raise popart_exception(f"Convolution {number} can have at most three inputs - data, weights, and bias")
    for name in ("dilations", "inDilations", "pads", "outPads", "strides"):
        sets = given.get(name) or []
        if sets and len(sets) != len(parts):
            raise popart_exception(
                f"MultiConv: number of {name} parameter sets ({len(sets)}) does not match the number of input sets "
                f"({len(parts)})"
            )
        for part, one in zip(parts, sets, strict=False):
            count = len(graph.describe(part[0])[1]) - 2 if graph.knows(part[0]) else len(one)
            if name not in ("pads", "outPads") and len(one) != count:
                raise popart_exception(f"Length of {name} vector {len(one)} != number of spatial dimensions {count}")
