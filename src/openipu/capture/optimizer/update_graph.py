"""The optimizer step as a graph: traced on meta tensors with the same recorder as the model.

In: an `OptimizerSpec` and the parameters that get gradients. Out: a `Graph` from hyper-parameters, weights, gradients
and state to new weights and state, equal to torch.optim's single-tensor step in float32, and the list of state slots.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from openipu.capture.functional.functionalise import finish_graph, make_functional
from openipu.capture.optimizer.clipping import clip_groups, clip_norm, limit_values
from openipu.capture.optimizer.members import GroupUpdate, Slots, choose_working_dtype
from openipu.capture.optimizer.rules import RULES
from openipu.capture.optimizer.structure import LOSS_SCALING, list_hyper_parameters
from openipu.capture.record.recorder import META, Recorder
from openipu.errors import OptionError
from openipu.graph import (
    NOTE,
    Graph,
    GraphInput,
    GraphOutput,
    InputKind,
    Note,
    OptimizerGroup,
    OptimizerKind,
    OptimizerSpec,
    OutputKind,
    Phase,
    StateSlot,
)


@dataclass(frozen=True, slots=True)
class TrainedParameter:
    """A parameter with a gradient."""

    name: str
    shape: tuple[int, ...]
    dtype: torch.dtype


@dataclass(frozen=True, slots=True)
class CapturedUpdate:
    """The update graph and the state that it keeps."""

    graph: Graph
    state_slots: tuple[StateSlot, ...]


def capture_update(spec: OptimizerSpec, trained: Mapping[str, TrainedParameter]) -> CapturedUpdate:
    """Trace the update of every parameter that is both in a group and trained."""
    tracer = _UpdateTracer(spec)
    groups = [[trained[name] for name in group.parameters if name in trained] for group in spec.groups]
    tracer.add_hyper_parameters()
    for index, members in enumerate(groups):
        for parameter in members:
            tracer.add_parameter(parameter, list_state_slots(spec, spec.groups[index], parameter))
    with torch.no_grad(), tracer.recorder:
        gradients = tracer.unscale_gradients()
        if spec.max_grad_norm is not None and gradients:
            gradients = clip_norm(gradients, spec.max_grad_norm, tracer.enter_module)
        gradients = clip_groups(gradients, spec.clip_groups, tracer.enter_module)
        if spec.max_grad_value is not None:
            gradients = limit_values(gradients, spec.max_grad_value, tracer.enter_module)
        for index, members in enumerate(groups):
            if members:
                tracer.update_group(index, members, gradients)
    return tracer.finish()


def list_state_slots(spec: OptimizerSpec, group: OptimizerGroup, parameter: TrainedParameter) -> list[StateSlot]:
    """The state of one parameter. Like torch, each parameter counts its own steps."""
    flags = group.flags
    counts = "no_bias_correction" not in flags
    momentum = ["momentum_buffer"] * ("momentum" in flags)
    scalars: list[str] = []
    match spec.kind:
        case OptimizerKind.SGD:
            tensors = momentum
            # torch starts the momentum with the undampened gradient, so the first step must be known.
            scalars = ["step"] if momentum and "dampening" in flags and "always_dampened" not in flags else []
        case OptimizerKind.RMSPROP:
            tensors = ["square_avg"] + ["grad_avg"] * ("centered" in flags) + momentum
        case OptimizerKind.ADAGRAD:
            tensors = ["sum", *momentum]
        case OptimizerKind.ADADELTA:
            tensors = ["square_avg", "acc_delta", *momentum]
        case OptimizerKind.ADAMAX:
            tensors, scalars = ["exp_avg", "exp_inf"], ["step"] * counts
        case OptimizerKind.ADAM | OptimizerKind.ADAMW | OptimizerKind.LAMB:
            tensors, scalars = ["exp_avg", "exp_avg_sq"], ["step"] * counts
    initial = 1.0 if "use_tf_variant" in flags else 0.0
    exact = choose_working_dtype(parameter.dtype)
    if flags & {"use_combined_accum", "state_as_parameter"}:  # e.g. gradients are added to the momentum itself
        exact = parameter.dtype
    slots = [
        StateSlot(
            name,
            parameter.name,
            parameter.shape,
            spec.state_dtypes.get(name, exact),
            initial if name == "square_avg" else 0.0,
        )
        for name in tensors
    ]
    return slots + [StateSlot(name, parameter.name, (), torch.float32) for name in scalars]


class _UpdateTracer:
    """Collects the graph's inputs and outputs while the rules run."""

    def __init__(self, spec: OptimizerSpec) -> None:
        self._spec = spec
        self._entries = list_hyper_parameters(spec)
        self._note = Note(Phase.UPDATE)
        self.recorder = Recorder(lambda: self._note)
        self._inputs: list[GraphInput] = []
        self._slots_of: dict[str, list[StateSlot]] = {}
        self._hyper: dict[str, torch.Tensor] = {}
        self._parameters: dict[str, torch.Tensor] = {}
        self._state: dict[str, torch.Tensor] = {}
        self._results: list[tuple[OutputKind, str, torch.Tensor]] = []
        self.gradients: dict[str, torch.Tensor] = {}

    def enter_module(self, parameter: str) -> None:
        """Nodes from here on belong to the module that owns the parameter."""
        self._note = Note(Phase.UPDATE, module=parameter.rpartition(".")[0])

    def add_hyper_parameters(self) -> None:
        for entry in self._entries:
            self._hyper[entry.key] = self._add(InputKind.HYPER, entry.key, (), torch.float32)

    def add_parameter(self, parameter: TrainedParameter, slots: list[StateSlot]) -> None:
        name = parameter.name
        if name in self._parameters:
            raise OptionError(f"Parameter {name} is in two groups of the optimizer. Leave it in one of them.")
        self.enter_module(name)
        self._parameters[name] = self._add(InputKind.PARAMETER, name, parameter.shape, parameter.dtype)
        # Float64 is kept: an accumulator is to save memory or digits, never to lose what the parameter has.
        exact = parameter.dtype is torch.float64 or self._spec.accumulator_dtype is None
        gradient_dtype = parameter.dtype if exact else self._spec.accumulator_dtype
        assert gradient_dtype is not None
        self.gradients[name] = self._add(InputKind.GRADIENT, name, parameter.shape, gradient_dtype)
        for slot in slots:
            self._state[slot.key] = self._add(InputKind.STATE, slot.key, slot.shape, slot.dtype)
        self._slots_of[name] = slots

    def unscale_gradients(self) -> dict[str, torch.Tensor]:
        """Gradients of the loss itself, where they were computed of a scaled one."""
        if not self._spec.loss_scaling:
            return dict(self.gradients)
        unscaled = {}
        for name, gradient in self.gradients.items():
            self.enter_module(name)
            unscaled[name] = gradient.to(choose_working_dtype(gradient.dtype)) / self._hyper[LOSS_SCALING.key]
        return unscaled

    def update_group(self, index: int, members: list[TrainedParameter], gradients: Mapping[str, torch.Tensor]) -> None:
        """Run the rule of one group and keep what it returns."""
        kind, flags = self._spec.kind, self._spec.groups[index].flags
        names = [member.name for member in members]
        group = GroupUpdate(
            names=names,
            parameters=[self._parameters[name] for name in names],
            gradients=[gradients[name] for name in names],
            slots=[self._read_slots(name) for name in names],
            hyper={entry.name: self._hyper[entry.key] for entry in self._entries if entry.group in (index, -1)},
            flags=flags | {"decoupled_weight_decay"} if kind is OptimizerKind.ADAMW else flags,
            enter_module=self.enter_module,
        )
        updated = RULES[kind](group)
        for name, (parameter, state) in zip(names, updated, strict=True):
            self._results.append((OutputKind.PARAMETER, name, parameter))
            self._results.extend((OutputKind.STATE, f"{slot}:{name}", value) for slot, value in state.items())

    def finish(self) -> CapturedUpdate:
        """The graph, functional, with its signature."""
        nodes = tuple(self.recorder.node_of(value) for _, _, value in self._results)
        functional = make_functional(self.recorder.graph, nodes)
        module = finish_graph(functional, functional.results)
        outputs = tuple(GraphOutput(kind, name, tuple(value.shape), value.dtype) for kind, name, value in self._results)
        slots = tuple(slot for entries in self._slots_of.values() for slot in entries)
        return CapturedUpdate(Graph(module, tuple(self._inputs), outputs), slots)

    def _add(self, kind: InputKind, name: str, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        tensor = torch.empty(shape, dtype=dtype, device=META)
        readable = name.replace(".", "_").replace(":", "_")
        node = self.recorder.add_placeholder(f"{kind.value}_{readable}", tensor)
        node.meta[NOTE] = self._note
        self._inputs.append(GraphInput(node.name, kind, name, shape, dtype))
        return tensor

    def _read_slots(self, parameter: str) -> Slots:
        return {slot.name: self._state[slot.key] for slot in self._slots_of[parameter]}
