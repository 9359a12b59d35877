"""The module that is compiled: its forward is one step of the user's LightningModule.

In: the tensors of a call, and a `StepRequest` with the rest of it. Out: what the step returns, then the tensors that
its side effects need; the request holds the recording of those and the guards of the capture.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils import _pytree as pytree

import poptorch
from lightning_graphcore._registration.packages import Package
from lightning_graphcore._steps.calls import Call
from lightning_graphcore._steps.guards import GuardedNumber, Guards, watch_attributes
from lightning_graphcore._steps.manual import ManualSteps, record_optimizers
from lightning_graphcore._steps.recording import Recording, record_side_effects
from lightning_graphcore.utils import _LightningModuleWrapperBase
from openipu.capture import find_active


class SkippedStepError(Exception):
    """`training_step` returned None: there is nothing to compile, and nothing to run."""


@dataclass
class StepRequest:
    """What the next capture is of; filled in by it."""

    package: Package
    call: Call
    step: str
    training: bool
    strict: bool
    tensor_numbers: tuple[int, ...] = ()  # numbers that come as inputs, behind the tensors
    plain_numbers: bool = False  # pass numbers as they are, and rely on each of their values
    update: int = 0  # which update to train, where the step makes several
    guards: Guards = field(default_factory=Guards)
    recording: Recording | None = None
    manual: ManualSteps | None = None
    skipped: bool = False
    dimensions: tuple[int, ...] = ()  # of each tensor that the step returns


@dataclass
class RequestHolder:
    """Shared by all copies of one step module: PopTorch captures a copy."""

    request: StepRequest | None = None


class StepModule(_LightningModuleWrapperBase):
    """A LightningModule whose forward is a step."""

    def __init__(self, module: Any) -> None:
        super().__init__(module)
        self.holder = RequestHolder()

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        request = self.holder.request
        if request is None:
            return super().forward(*inputs, **kwargs)
        return self._run_step(request, inputs)

    def _run_step(self, request: StepRequest, inputs: tuple[torch.Tensor, ...]) -> Any:
        module, call = self.lightning_module, request.call
        count = len(call.tensors)
        args, kwargs = call.rebuild(inputs[:count], self._wrap_numbers(request, inputs[count:]))
        if request.strict:
            args, kwargs = _turn_lists(args), _turn_lists(kwargs)
        recording = request.recording = Recording(request.package, module, request.guards)
        with ExitStack() as stack:
            stack.enter_context(record_side_effects(recording, strict=request.strict))
            if request.training and not module.automatic_optimization:
                request.manual = stack.enter_context(record_optimizers(request.package, module))
            if not request.strict:
                stack.enter_context(watch_attributes(module, request.guards))
            output = getattr(module, request.step)(*args, **kwargs)
        if request.training:
            output = self._mark_loss(request, output)
        output = pytree.tree_map(lambda leaf: leaf.decide() if isinstance(leaf, GuardedNumber) else leaf, output)
        tensors = [leaf for leaf in pytree.tree_leaves(output) if isinstance(leaf, torch.Tensor)]
        request.dimensions = tuple(tensor.dim() for tensor in tensors)
        if request.manual is not None:
            request.manual.place(recording.sources, tensors)
        return output, list(recording.outputs)

    def _wrap_numbers(self, request: StepRequest, extras: tuple[torch.Tensor, ...]) -> list[Any]:
        as_tensors = dict(zip(request.tensor_numbers, extras, strict=True))
        if request.strict:
            return [as_tensors[index] for index in range(len(request.call.numbers))]
        step = getattr(self.lightning_module, request.step)
        wrap = GuardedNumber.decide if request.plain_numbers else _keep
        names = request.call.name_numbers(list(inspect.signature(step).parameters))
        numbers = []
        for index, (name, value) in enumerate(zip(names, request.call.numbers, strict=True)):
            tensor = as_tensors[index].reshape(()) if index in as_tensors else None
            guarded = GuardedNumber(request.guards, name, value, operator.itemgetter(index), tensor, frozenset({index}))
            numbers.append(wrap(guarded))
        return numbers

    def _mark_loss(self, request: StepRequest, output: Any) -> Any:
        """Train on what the step returns, whatever other losses it computes for its logs."""
        if request.manual is not None:
            loss = request.manual.choose_loss(request.update)
            _train_on(loss)
            return output
        if output is None:
            request.skipped = True
            raise SkippedStepError
        if isinstance(output, Mapping):
            if output.get("loss") is None:
                raise request.package.configuration_error(
                    "`training_step` returned a dictionary without 'loss'. Return the loss under this key."
                )
            rebuild: Any = type(output)
            return rebuild({**output, "loss": _train_on(output["loss"])})
        if not isinstance(output, torch.Tensor):
            raise request.package.configuration_error(
                f"`training_step` returned a {type(output).__name__}. Return the loss, a dictionary with 'loss', or "
                "None to skip the step."
            )
        return _train_on(output)


def _keep(number: GuardedNumber) -> GuardedNumber:
    return number


def _train_on(loss: torch.Tensor) -> torch.Tensor:
    capture = find_active()
    if capture is not None:
        capture.losses.clear()
    return poptorch.identity_loss(loss, "none" if loss.dim() == 0 else "mean")


def _turn_lists(value: Any) -> Any:
    """Lists as tuples, as the original passes them."""
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        return tuple(_turn_lists(item) for item in value)
    if type(value) is dict:
        return {key: _turn_lists(item) for key, item in value.items()}
    return value
