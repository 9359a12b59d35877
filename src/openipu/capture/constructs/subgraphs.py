"""Loops and branches: functions of the user become graphs inside the graph.

In: Python functions and the tensors they are given. Out: a `LoopCall` or `BranchCall` in the recording. A body is
recorded once. Tensors that it takes from outside, weights included, become further inputs of its graph. All are passed
by value: what a body writes in place is not seen outside.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from openipu.capture.active import ActiveCapture, find_active
from openipu.capture.constructs.branch_gradients import BranchSide, Gradient, is_differentiable, make_backward
from openipu.capture.constructs.calls import call_in_graph, loses_gradient, refuse_lost_gradient
from openipu.capture.failures import locate
from openipu.capture.functional.functionalise import finish_graph, make_functional
from openipu.capture.model.twins import make_twin
from openipu.capture.record.recorder import Recorder
from openipu.capture.record.torch_private import bypass_function_modes, pause_recording
from openipu.errors import CaptureError, InternalError
from openipu.graph import BranchCall, Graph, GraphInput, GraphOutput, InputKind, LoopCall, OutputKind

Body = Callable[..., Any]


class _BodyRecorder(Recorder):  # type: ignore[no-untyped-call]
    """Records a body. A tensor that it does not know is one of the graph around it."""

    def __init__(self, capture: ActiveCapture) -> None:
        super().__init__(capture.notes.make_note)
        self.borrowed: dict[str, torch.Tensor] = {}  # by placeholder

    def node_of(self, tensor: torch.Tensor) -> fx.Node:
        node = self._nodes.get(id(tensor)) or self._find_by_geometry(tensor)
        if node is None:
            node = self.add_placeholder(f"outer_{len(self.borrowed)}", tensor)
            self.borrowed[node.name] = tensor
        return node


@dataclass(frozen=True, eq=False)
class _CapturedBody:
    graph: Graph
    outer: list[torch.Tensor]  # tensors of the recording around it, behind the body's own inputs
    results: list[torch.Tensor]


def capture_loop(count: int, body: Body, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """`body` `count` times, each pass on the results of the one before."""
    if not inputs:
        raise CaptureError(locate("A loop needs at least one tensor to carry from pass to pass: pass it as an input."))
    captured = _capture_body(body, inputs, "The body of a loop")
    _check_alike(inputs, captured.results, "What the body of a loop returns", "what it takes")
    refuse_lost_gradient("A loop of the device", [*inputs, *captured.outer])
    call = LoopCall("for_loop", captured.graph, count, len(inputs))
    return call_in_graph(call, [*inputs, *captured.outer], captured.results)


def capture_branches(
    condition: torch.Tensor,
    then_body: Body,
    then_inputs: Sequence[torch.Tensor],
    else_body: Body,
    else_inputs: Sequence[torch.Tensor],
    *,
    trains: bool = False,
) -> list[torch.Tensor]:
    """One of two bodies, as the value of `condition` says when the program runs.

    What `trains` has a gradient: a branch of its own, in which the body that ran is computed again and differentiated.
    """
    if condition.numel() != 1:
        raise CaptureError(
            locate(f"A condition has one element, not {condition.numel()}. Reduce it with torch.any() or torch.all().")
        )
    chosen = _capture_body(then_body, then_inputs, "The body for a true condition")
    otherwise = _capture_body(else_body, else_inputs, "The body for a false condition")
    _check_alike(chosen.results, otherwise.results, "What one branch returns", "what the other does")
    call = BranchCall("cond", chosen.graph, otherwise.graph)
    inputs = [condition, *then_inputs, *chosen.outer, *else_inputs, *otherwise.outer]
    if not trains or not loses_gradient(inputs):
        refuse_lost_gradient("A branch of the device", inputs)
        return call_in_graph(call, inputs, chosen.results)
    if call.random:
        raise CaptureError(
            locate(
                "A branch of the device that is trained draws random numbers, and its gradient would draw others. "
                "Move dropout and the like out of the branch."
            )
        )
    sides = [
        BranchSide(then_body, then_inputs, [*then_inputs, *chosen.outer]),
        BranchSide(else_body, else_inputs, [*else_inputs, *otherwise.outer]),
    ]

    def differentiate(saved: Sequence[torch.Tensor], gradients: Sequence[torch.Tensor]) -> Sequence[Gradient]:
        backward = [make_backward(sides, place) for place in range(2)]
        found = iter(capture_branches(saved[0], backward[0], gradients, backward[1], gradients))
        return [next(found) if is_differentiable(tensor) else None for tensor in inputs]

    return call_in_graph(call, inputs, chosen.results, differentiate)


def _capture_body(body: Body, inputs: Sequence[torch.Tensor], what: str) -> _CapturedBody:
    capture = find_active()
    if capture is None:
        raise InternalError("A body was recorded without a capture. Please report it.")
    around, recorder = capture.recorder, _BodyRecorder(capture)
    with bypass_function_modes(), pause_recording():
        twins = [make_twin(tensor) for tensor in inputs]
        for index, twin in enumerate(twins):
            recorder.add_placeholder(f"input_{index}", twin)
    capture.recorder = recorder
    try:
        with pause_recording(), recorder:
            returned = body(*twins)
    finally:
        capture.recorder = around
    with bypass_function_modes(), pause_recording():
        results = [_take_result(recorder, value, what) for value in _list_values(returned)]
    nodes = tuple(recorder.node_of(result) for result in results)
    placeholders = list(recorder.graph.find_nodes(op="placeholder"))
    outer = [
        recorder.borrowed[node.name]
        if node.name in recorder.borrowed
        else around.lift_constant(recorder.constants[node.name])
        for node in placeholders[len(inputs) :]
    ]
    with bypass_function_modes(), pause_recording():
        signature = tuple(
            GraphInput(node.name, InputKind.INPUT, node.name, tuple(tensor.shape), tensor.dtype, index)
            for index, (node, tensor) in enumerate(zip(placeholders, [*twins, *outer], strict=True))
        )
        functional = make_functional(recorder.graph, nodes)
        outputs = tuple(
            GraphOutput(OutputKind.OUTPUT, f"output_{index}", tuple(result.shape), result.dtype, index)
            for index, result in enumerate(results)
        )
        graph = Graph(finish_graph(functional, functional.results), signature, outputs)
    return _CapturedBody(graph, outer, results)


def _list_values(returned: Any) -> list[Any]:
    return list(returned) if isinstance(returned, list | tuple) else [returned]


def _take_result(recorder: Recorder, value: Any, what: str) -> torch.Tensor:
    if not isinstance(value, torch.Tensor):
        raise CaptureError(locate(f"{what} returns a {type(value).__name__}. Return tensors only."))
    return value if value.is_meta else recorder.lift_constant(value)


def _check_alike(expected: Sequence[torch.Tensor], found: Sequence[torch.Tensor], what: str, other: str) -> None:
    if len(expected) != len(found):
        raise CaptureError(
            locate(f"{what} has to match {other}: {len(found)} tensors and {len(expected)}. Return as many as needed.")
        )
    for index, (first, second) in enumerate(zip(expected, found, strict=True)):
        if first.shape != second.shape or first.dtype != second.dtype:
            raise CaptureError(
                locate(
                    f"{what} has to match {other}: tensor {index} is {_describe(second)} and {_describe(first)}. "
                    "Reshape or convert it before it is returned."
                )
            )


def _describe(tensor: torch.Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"
