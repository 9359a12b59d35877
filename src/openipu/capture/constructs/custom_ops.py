"""Custom ops: names of ops that users wrote for an IPU, and the Python functions that do the same here.

In: registrations, then calls by name from forward. Out: one node of the graph for each call, with a gradient where one
was registered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from openipu.capture.constructs.calls import call_in_graph
from openipu.capture.effects import find_writes, own_written, refuse_writes, try_on_zeros
from openipu.capture.failures import locate
from openipu.errors import CaptureError, InputError, OptionError
from openipu.graph import FunctionCall

Attributes = Mapping[str, Any]
Tensors = Sequence[torch.Tensor]
Forward = Callable[[Tensors, Attributes], Tensors]
Backward = Callable[[Tensors, Tensors, Attributes], Sequence[torch.Tensor | None]]
Shape = Callable[[Sequence[tuple[int, ...]], Attributes], Sequence[Sequence[int]]]


@dataclass(frozen=True, eq=False)
class CustomOp:
    """One registration."""

    name: str
    domain: str
    version: int
    forward: Forward
    backward: Backward | None
    shape: Shape | None
    writes: tuple[int, ...] | None  # inputs that forward changes in place; None where nobody said

    def __str__(self) -> str:
        return f"{self.domain}.{self.name}:{self.version}"

    def run(self, inputs: Tensors, attributes: Attributes) -> list[torch.Tensor]:
        """The op on values, each result in memory of its own."""
        with torch.no_grad():
            return [result.clone() for result in self.forward(list(inputs), dict(attributes))]


_registered: dict[tuple[str, str, int], CustomOp] = {}


def register_custom_op(
    name: str,
    domain: str,
    version: int = 1,
    *,
    forward: Forward,
    backward: Backward | None = None,
    shape: Shape | None = None,
    writes: Sequence[int] | None = None,
) -> CustomOp:
    """Say what a custom op computes. A second registration of the same name, domain and version replaces the first.

    `forward(inputs, attributes)` returns the outputs; `backward(inputs, gradients, attributes)` returns one gradient
    for each floating-point input, or None for zero; `shape(input_shapes, attributes)` returns the shapes of the
    outputs, to be compared with what the caller says they are; `writes` lists the inputs that forward changes in place.
    Where it is not given, forward is tried on zeros when a model is captured.
    """
    for role, function in (("forward", forward), ("backward", backward), ("shape", shape)):
        if function is not None and not callable(function):
            raise OptionError(f"The {role} of custom op {name} must be a function, not {function!r}.")
    if writes is not None and not all(isinstance(index, int) and index >= 0 for index in writes):
        raise OptionError(f"The writes of custom op {name} are numbers of its inputs, such as [1], not {writes!r}.")
    given = None if writes is None else tuple(sorted(set(writes)))
    found = CustomOp(name, domain, version, forward, backward, shape, given)
    _registered[name, domain, version] = found
    return found


def find_custom_op(name: str, domain: str, version: int) -> CustomOp | None:
    """What was registered under this name."""
    return _registered.get((name, domain, version))


def infer_custom_op(op: CustomOp, inputs: Tensors, attributes: Attributes, count: int) -> list[torch.Tensor]:
    """Examples of an op's outputs, where the program gives none: of its shape function, or of one call on zeros."""
    if op.shape is not None:
        kinds = sorted((tensor.dtype for tensor in inputs), key=lambda kind: not kind.is_floating_point)
        shapes = op.shape([tuple(tensor.shape) for tensor in inputs], attributes)
        found: Any = [torch.empty(tuple(shape), dtype=(kinds or [torch.float32])[0], device="meta") for shape in shapes]
    else:
        _, found = try_on_zeros(lambda *zeros: op.forward(list(zeros), dict(attributes)), inputs)
    if isinstance(found, Exception):
        raise CaptureError(
            f"Custom op {op} says nothing of the shapes of its outputs, and fails on zeros "
            f"({type(found).__name__}: {found}). Register it with shape=lambda input_shapes, attributes: [...]."
        ) from found
    made = list(found) if isinstance(found, list | tuple) else [found]
    if len(made) < count or not all(isinstance(value, torch.Tensor) for value in made):
        raise CaptureError(
            f"Custom op {op} is to return a list of {count} tensors, and returns "
            f"{[type(value).__name__ for value in made]}: correct its function."
        )
    return [torch.empty(value.shape, dtype=value.dtype, device="meta") for value in made]


def call_custom_op(
    name: str, domain: str, version: int, inputs: Tensors, examples: Tensors, attributes: Attributes
) -> list[torch.Tensor]:
    """Record a call whose outputs have the shapes and dtypes of `examples`; only while capturing."""
    op = find_custom_op(name, domain, version)
    if op is None:
        known = ", ".join(str(entry) for entry in _registered.values()) or "none"
        raise CaptureError(
            locate(
                f"Custom op {domain}.{name}:{version} is not known here: its C++ code needs an IPU. Say in Python what "
                f'it computes with openipu.register_custom_op("{name}", "{domain}", {version}, '
                f"forward=lambda inputs, attributes: [...]) before the model is compiled. Registered: {known}."
            )
        )
    if op.shape is not None:
        expected = [tuple(shape) for shape in op.shape([tuple(tensor.shape) for tensor in inputs], attributes)]
        given = [tuple(example.shape) for example in examples]
        if expected != given:
            raise CaptureError(
                locate(f"Custom op {op} returns shapes {expected}, but its example outputs have {given}: correct them.")
            )

    writes = _find_writes(op, inputs, attributes)

    def run(*tensors: torch.Tensor) -> list[torch.Tensor]:
        given = own_written(tensors, writes)
        with refuse_writes([tensor for index, tensor in enumerate(given) if index not in writes], f"Custom op {op}"):
            found = _check_results(op.run(given, attributes), examples, f"Custom op {op}")
        return [*found, *(given[index] for index in writes)]

    def differentiate(saved: Tensors, gradients: Tensors) -> list[torch.Tensor | None]:
        return _differentiate(op, saved, gradients[: len(examples)], attributes)

    call = FunctionCall(name, run, dict(attributes), acts=True)
    results = call_in_graph(call, inputs, [*examples, *(inputs[index] for index in writes)], differentiate)
    with torch.no_grad():
        for index, value in zip(writes, results[len(examples) :], strict=True):
            inputs[index].copy_(value)
    return results[: len(examples)]


def _find_writes(op: CustomOp, inputs: Tensors, attributes: Attributes) -> tuple[int, ...]:
    if op.writes is None:
        return find_writes(lambda *zeros: op.forward(list(zeros), dict(attributes)), inputs)
    if any(index >= len(inputs) for index in op.writes):
        raise CaptureError(
            locate(f"Custom op {op} is registered to write its inputs {list(op.writes)}, and is given {len(inputs)}.")
        )
    return op.writes


def _differentiate(
    op: CustomOp, inputs: Tensors, gradients: Tensors, attributes: Attributes
) -> list[torch.Tensor | None]:
    backward = op.backward
    if backward is None:
        raise CaptureError(
            f"Custom op {op} is trained through, and was registered without a gradient. Register it with "
            "backward=lambda inputs, gradients, attributes: [...]."
        )
    wanted = [index for index, tensor in enumerate(inputs) if tensor.is_floating_point()]
    examples = [inputs[index] for index in wanted]

    def run(*tensors: torch.Tensor) -> list[torch.Tensor]:
        given = list(tensors[: len(inputs)])
        with torch.no_grad(), refuse_writes(tensors, f"The gradient of custom op {op}"):
            found = list(backward(given, list(tensors[len(inputs) :]), dict(attributes)))
        if len(found) == len(given) != len(wanted):  # one for each input, of which some are not numbers
            found = [found[index] for index in wanted]
        made = [
            torch.zeros_like(given[index]) if value is None else value.clone()
            for index, value in zip(wanted, found, strict=False)
        ]
        return _check_results(made, examples, f"The gradient of custom op {op}")

    made = call_in_graph(FunctionCall(f"{op.name}_gradient", run, dict(attributes)), [*inputs, *gradients], examples)
    results: list[torch.Tensor | None] = [None] * len(inputs)
    for index, gradient in zip(wanted, made, strict=True):
        results[index] = gradient
    return results


def _check_results(found: list[torch.Tensor], examples: Tensors, what: str) -> list[torch.Tensor]:
    shapes, expected = [tuple(value.shape) for value in found], [tuple(example.shape) for example in examples]
    if shapes != expected:
        raise InputError(f"{what} returned shapes {shapes}, and {expected} were announced: correct its function.")
    return [value.to(example.dtype) for value, example in zip(found, examples, strict=True)]
