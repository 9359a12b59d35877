"""Helpers to capture a model in a test and to run the captured graphs with real tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils import _pytree as pytree

from openipu.capture import capture_program, describe_optimizer
from openipu.graph import Graph, GraphOutput, InputKind, OptimizerSpec, OutputKind, Program


@dataclass(frozen=True)
class MicroResults:
    """What one run of the micro graph returned, by kind and name."""

    values: Mapping[tuple[OutputKind, str], torch.Tensor]

    def of(self, kind: OutputKind) -> dict[str, torch.Tensor]:
        return {name: value for (found, name), value in self.values.items() if found is kind}


def name_parameters(model: nn.Module) -> dict[int, str]:
    return {id(parameter): name for name, parameter in model.named_parameters()}


def describe_sgd(model: nn.Module) -> OptimizerSpec:
    return describe_optimizer(torch.optim.SGD(model.parameters(), lr=0.1), name_parameters(model))


def _capture_training(model: nn.Module, *args: Any, **kwargs: Any) -> Program:
    return capture_program(model, args, kwargs, training=True, optimizer=describe_sgd(model), name="model")


def _capture_inference(model: Callable[..., Any], *args: Any, **kwargs: Any) -> Program:
    return capture_program(model, args, kwargs, training=False, optimizer=None, name="model")


def _run_micro(program: Program, model: nn.Module | None, *args: Any, **kwargs: Any) -> MicroResults:
    parameters = {} if model is None else dict(model.named_parameters())
    buffers = {} if model is None else dict(model.named_buffers())
    leaves, _ = pytree.tree_flatten((args, kwargs))
    bound = []
    for entry in program.micro.inputs:
        if entry.kind is InputKind.PARAMETER:
            bound.append(parameters[entry.name].detach())
        elif entry.kind is InputKind.BUFFER:
            bound.append(buffers[entry.name].detach().clone())
        elif entry.kind is InputKind.CONSTANT:
            bound.append(program.constants[entry.name])
        else:
            bound.append(leaves[entry.index].clone())
        assert tuple(bound[-1].shape) == entry.shape
        assert bound[-1].dtype == entry.dtype
    return MicroResults(_run(program.micro, bound))


def _run(graph: Graph, bound: list[torch.Tensor]) -> dict[tuple[OutputKind, str], torch.Tensor]:
    with torch.no_grad():
        returned = graph.module(*bound)
    found: dict[tuple[OutputKind, str], torch.Tensor] = {}
    for entry, value in zip(graph.outputs, returned, strict=True):
        _check_output(entry, value)
        found[(entry.kind, entry.name)] = value
    return found


def _check_output(entry: GraphOutput, value: torch.Tensor) -> None:
    assert tuple(value.shape) == entry.shape, entry
    assert value.dtype == entry.dtype, entry
    assert value.device.type == "cpu", entry


@pytest.fixture(scope="session")
def capture_training() -> Callable[..., Program]:
    return _capture_training


@pytest.fixture(scope="session")
def capture_inference() -> Callable[..., Program]:
    return _capture_inference


@pytest.fixture(scope="session")
def run_micro() -> Callable[..., MicroResults]:
    return _run_micro


@pytest.fixture(scope="session")
def compare_with_eager() -> Callable[..., Program]:
    """Capture, run graph and model with the same seed, and compare outputs, gradients, buffers and inputs."""

    def compare(
        model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None = None, tolerance: float = 0.0
    ) -> Program:
        kwargs = dict(kwargs or {})
        before = {name: value.clone() for name, value in model.state_dict().items()}
        program = _capture_training(model, *args, **kwargs)
        for name, value in model.state_dict().items():
            assert torch.equal(value, before[name]), f"capture changed {name}"
        eager_args, eager_kwargs = pytree.tree_map_only(torch.Tensor, torch.clone, (args, kwargs))
        torch.manual_seed(1)
        results = _run_micro(program, model, *args, **kwargs)
        torch.manual_seed(1)
        output = model(*eager_args, **eager_kwargs)
        leaves, spec = pytree.tree_flatten(output)
        assert spec == program.output_tree.spec
        eager_loss = _find_eager_loss(leaves)
        eager_loss.backward()

        def check(name: str, found: torch.Tensor, wanted: torch.Tensor) -> None:
            assert found.dtype == wanted.dtype, name
            torch.testing.assert_close(
                found, wanted.detach(), rtol=0, atol=tolerance, msg=lambda text: f"{name}: {text}"
            )

        check("loss", results.of(OutputKind.LOSS)["loss"], eager_loss)
        for entry in program.micro.outputs_of(OutputKind.OUTPUT):
            check(entry.name, results.values[(entry.kind, entry.name)], leaves[entry.index])
        gradients = results.of(OutputKind.GRADIENT)
        for name, parameter in model.named_parameters():
            assert (parameter.grad is not None) == (name in gradients), name
            if parameter.grad is not None:
                check(f"gradient of {name}", gradients[name], parameter.grad.to_dense())
        written = results.of(OutputKind.BUFFER)
        for name, buffer in model.named_buffers():
            check(name, written.get(name, before.get(name, buffer)), buffer)
        changed = pytree.tree_flatten((eager_args, eager_kwargs))[0]
        original = pytree.tree_flatten((args, kwargs))[0]
        inputs = results.of(OutputKind.INPUT)
        for entry in program.micro.inputs_of(InputKind.INPUT):
            check(entry.name, inputs.get(entry.name, original[entry.index]), changed[entry.index])
        return program

    return compare


def _find_eager_loss(leaves: list[Any]) -> torch.Tensor:
    """The tests' models return their loss as the last 0-dim tensor that requires a gradient."""
    found = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.requires_grad and leaf.dim() == 0]
    return found[-1]
