"""GELU of training by a C++ kernel.

In: the kernel. Out: rules by which it computes GELU by its tanh, and its gradient, in a third of the time of PyTorch's
operators. It computes the tanh by an exponential, so that last bits differ.
"""

from __future__ import annotations

import math

import torch
from torch import fx

from openipu.run import thresholds
from openipu.run.drafts.ownership import gives_fresh_memory
from openipu.run.drafts.rules import Match, Rule, Value, could_apply, op
from openipu.run.kernels import OperandError, Run, address_of
from openipu.run.kernels.catalog import GeluArguments

aten = torch.ops.aten

_X = Value("x", torch.float32)


def find_gelus(graph: fx.Graph) -> bool:
    """Whether there are activations that the kernel might compute, also as a model writes them out by a tanh."""
    return could_apply(graph, make_rules(None)) or any(
        node.meta["val"].numel() >= thresholds.GELU_ELEMENTS
        for node in graph.find_nodes(op="call_function", target=aten.tanh.default)
    )


def make_rules(run: Run | None) -> tuple[Rule, ...]:
    """Let the kernel compute the activation and its gradient."""
    return (
        Rule(
            "GELU",
            op(aten.gelu.default, _X, approximate="tanh"),
            lambda match, writer: writer.call(compute_gelu, match["x"], run),
            _is_large,
        ),
        Rule(
            "gradient of GELU",
            op(aten.gelu_backward.default, Value("gradient", torch.float32), _X, approximate="tanh"),
            lambda match, writer: writer.call(differentiate_gelu, match["gradient"], match["x"], run),
            _is_large,
        ),
    )


def _is_large(match: Match) -> bool:
    shape = match.root.meta["val"].shape
    alike = all(operand.meta["val"].shape == shape for operand in match.root.all_input_nodes)
    return alike and math.prod(shape) >= thresholds.GELU_ELEMENTS


@gives_fresh_memory
def compute_gelu(values: torch.Tensor, run: Run) -> torch.Tensor:
    """The activation of values."""
    held = values.contiguous()
    result = torch.empty_like(held)
    count = held.numel()
    try:
        arguments = GeluArguments(
            values=address_of(held, count),
            results=address_of(result, count),
            count=count,
            threads=torch.get_num_threads(),
        )
    except OperandError:
        return torch.nn.functional.gelu(values, approximate="tanh")
    run(arguments)
    return result


@gives_fresh_memory
def differentiate_gelu(gradient: torch.Tensor, values: torch.Tensor, run: Run) -> torch.Tensor:
    """The gradient of values, from that of their activation."""
    held = gradient.contiguous()
    return _differentiate(held, values, torch.empty_like(held), run)


def differentiate_gelu_in_place(gradient: torch.Tensor, values: torch.Tensor, run: Run) -> torch.Tensor:
    """The same in the memory of the gradient, if it lies in order."""
    held = gradient.contiguous()
    return _differentiate(held, values, held, run)


def _differentiate(gradient: torch.Tensor, values: torch.Tensor, result: torch.Tensor, run: Run) -> torch.Tensor:
    held, count = values.contiguous(), gradient.numel()
    try:
        arguments = GeluArguments(
            values=address_of(held, count),
            gradients=address_of(gradient, count),
            results=address_of(result, count),
            count=count,
            threads=torch.get_num_threads(),
        )
    except OperandError:
        found: torch.Tensor = aten.gelu_backward(gradient, values, approximate="tanh")
        return found
    run(arguments)
    return result
