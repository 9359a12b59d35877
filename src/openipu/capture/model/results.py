"""What a traced forward and backward return.

In: a `Trace`. Out: one `Result` for each tensor that the micro graph is to return, and the tree to rebuild the user's
return value from. Values of the host are returned as they were, on every call.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from openipu.capture.active import ActiveCapture
from openipu.capture.model.containers import open_containers
from openipu.graph import OutputKind, OutputTree

_SEARCH_DEPTH = 5  # of objects inside objects: a cache holds layers, which hold tensors


@dataclass(frozen=True, eq=False)
class Trace:
    """What one run of forward and backward left behind."""

    output: Any
    loss: torch.Tensor | None
    gradients: Mapping[str, torch.Tensor | None]  # by parameter


@dataclass(frozen=True, slots=True)
class Result:
    """One value that the micro graph returns."""

    kind: OutputKind
    name: str
    tensor: torch.Tensor
    index: int = -1


def collect_results(trace: Trace, capture: ActiveCapture) -> tuple[list[Result], OutputTree]:
    """Outputs, loss and gradients; and the host values among the outputs."""
    leaves, spec = pytree.tree_flatten(open_containers(trace.output, capture.recorder.knows))
    results: list[Result] = []
    host_leaves: dict[int, Any] = {}
    for index, leaf in enumerate(leaves):
        if isinstance(leaf, torch.Tensor) and leaf.is_meta:
            results.append(Result(OutputKind.OUTPUT, f"output_{index}", leaf, index))
        else:
            host_leaves[index] = _keep_host_value(leaf, index, capture)
    if trace.loss is not None:
        results.append(Result(OutputKind.LOSS, "loss", trace.loss))
    results.extend(
        Result(OutputKind.GRADIENT, name, gradient)
        for name, gradient in trace.gradients.items()
        if gradient is not None
    )
    results.extend(Result(OutputKind.CARRIED, name, value) for name, value in capture.carried.items())
    return results, OutputTree(spec, host_leaves)


def _keep_host_value(leaf: Any, index: int, capture: ActiveCapture) -> Any:
    if isinstance(leaf, torch.Tensor):
        message = f"Output expected to be on the IPU but is on {leaf.device.type}"
        warnings.warn(message, stacklevel=2)
        capture.warn(f"{message}: output {index} is a constant of the host, the same for every call.")
        return leaf.detach().clone()
    if any(capture.recorder.knows(tensor) for tensor in _find_tensors(leaf, _SEARCH_DEPTH)):
        kind = f"{type(leaf).__module__}.{type(leaf).__qualname__}"
        message = (
            f"Output {index} is a {kind} that holds IPU tensors, and torch cannot take one apart: None is "
            "returned in its place. Return the tensors themselves (for a transformers cache: use_cache=False), or "
            "register the class with torch.utils._pytree.register_pytree_node."
        )
        warnings.warn(message, stacklevel=2)
        capture.warn(message)
        return None
    return leaf


def _find_tensors(value: Any, depth: int) -> Iterator[torch.Tensor]:
    """Tensors in the attributes of an object."""
    if isinstance(value, torch.Tensor):
        yield value
        return
    if depth == 0 or isinstance(value, str | bytes | int | float | type | None):
        return
    if isinstance(value, Mapping):
        inside = list(value.values())
    elif isinstance(value, list | tuple | set):
        inside = list(value)
    else:
        inside = list(getattr(value, "__dict__", {}).values())
    for item in inside:
        yield from _find_tensors(item, depth - 1)
