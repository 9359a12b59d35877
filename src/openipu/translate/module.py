"""A foreign graph as the module that capture sees.

In: a `ForeignGraph`, its table, values for inputs that decide shapes, and a `Goal` where it is trained. Out: an
`nn.Module` whose parameters carry the foreign names and whose forward runs the graph. Weights need not be loaded: a
plan needs none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import nn

from openipu.capture import Traced, is_capturing, lift
from openipu.translate.foreign import ForeignGraph, Weight
from openipu.translate.interpret import Interpreter
from openipu.translate.rules import Table
from openipu.translate.site import Variables

Tensors = Mapping[str, torch.Tensor]
_LARGEST_STATIC = 1 << 20  # elements of a weight that may be read to decide a shape
_SMALL_BYTES = 1024  # whole numbers of less are constants of the program: conditions, axes, indices


@dataclass(frozen=True, kw_only=True)
class Goal:
    """What a program is captured for, in the graph's own names: its loss, and what else it is to do with tensors."""

    loss: str = ""  # training starts from this tensor; "": the program only runs forward
    gradients: Mapping[str, str] = field(default_factory=dict)  # name of a result -> the tensor whose gradient it is
    written: Mapping[str, str] = field(default_factory=dict)  # a weight -> the tensor that replaces it in each run
    frozen: frozenset[str] = frozenset()  # weights that no gradient is for: statistics


class ForeignModule(nn.Module):
    """Runs a foreign graph on the tensors of its inputs, in their order."""

    def __init__(
        self,
        graph: ForeignGraph,
        table: Table,
        *,
        constants: Mapping[str, torch.Tensor] | None = None,
        load: bool = True,
        wanted: Sequence[str] | None = None,
        goal: Goal | None = None,
        replicas: int = 1,
    ) -> None:
        super().__init__()
        self.graph = graph
        self.table = table
        self.wanted = tuple(graph.outputs if wanted is None else wanted)
        self.goal = goal or Goal()
        held = self.goal.frozen | set(self.goal.written) | find_written_names(graph, table)
        self.input_names = tuple(name for name in graph.inputs if name not in (constants or {}))
        self._openipu_input_names = self.input_names  # for capture
        self.replicas = replicas
        static = find_static_names(graph, table)
        self._fixed: dict[str, torch.Tensor] = dict(constants or {})
        names = _name_weights(graph)
        self._inner = {id(weight): name for name, weight in names.items() if graph.weights.get(name) is not weight}
        for name, weight in names.items():
            if name in self._fixed:
                continue
            floating = weight.dtype.is_floating_point or weight.dtype.is_complex
            small = not floating and weight.elements * weight.dtype.itemsize < _SMALL_BYTES
            known = small or (name in static and weight.elements <= _LARGEST_STATIC)
            if known and name not in held:
                self._fixed[name] = weight.read()
                continue
            value = weight.read() if load else torch.empty(weight.shape, dtype=weight.dtype, device="meta")
            if floating and name not in held:
                self._parameters[name] = nn.Parameter(value)
            else:
                self._buffers[name] = value

    def forward(self, *inputs: torch.Tensor) -> Tensors | Traced:
        """The wanted tensors by name; with a goal, what capture needs for it."""
        held = (*self._parameters.items(), *self._buffers.items())
        own = {name: value for name, value in held if value is not None}
        given = dict(zip(self.input_names, inputs, strict=True))
        goal = self.goal
        if goal.gradients:  # a gradient may be asked for of an input, or of what is made of inputs alone
            given = {name: _let_gradients_in(value) for name, value in given.items()}
        values = {**self._fixed, **own, **given}
        names = [*self.wanted, *goal.gradients.values(), *goal.written.values(), *([goal.loss] if goal.loss else [])]
        variables = Variables({name: value for name, value in self._buffers.items() if value is not None})
        interpreter = Interpreter(
            self.table,
            training=self.training,
            file=self.graph.file,
            variables=variables,
            replicas=self.replicas,
            inner={weight: values[name] for weight, name in self._inner.items()},
            watched=frozenset(goal.gradients.values()),
        )
        results = interpreter.run(self.graph, values, dict.fromkeys(names))
        self.observe(interpreter.values)
        written = {**variables.written, **{name: results[tensor] for name, tensor in goal.written.items()}}
        outputs = {name: lift(results[name]) for name in self.wanted}
        if not is_capturing():
            return self._keep(written, outputs)
        if not goal.loss and not written:
            return outputs
        return Traced(
            outputs=outputs,
            loss=lift(results[goal.loss]) if goal.loss else None,
            watched={name: results[tensor] for name, tensor in goal.gradients.items()},
            written={name: lift(value.detach()) for name, value in written.items()},
        )

    def observe(self, values: Tensors) -> None:
        """For those who ask what the tensors of the graph are: all of them, by name."""

    def _keep(self, written: Tensors, outputs: Tensors) -> Tensors:
        """Outside of a capture the module itself holds what a run wrote."""
        changed = {id(value) for value in self._buffers.values()}
        kept = {name: value.clone() if written and id(value) in changed else value for name, value in outputs.items()}
        with torch.no_grad():
            for name, value in written.items():
                self._buffers[name].copy_(value)  # type: ignore[union-attr]
        return kept


def _name_weights(graph: ForeignGraph) -> dict[str, Weight]:
    """All weights by name. Those of the graphs inside are trained too; of two with one name the outer keeps it."""
    found = dict(graph.weights)
    taken = {*found, *graph.inputs}
    for body in graph.list_bodies():
        for name, weight in body.weights.items():
            chosen, number = name, 0
            while chosen in taken:
                number += 1
                chosen = f"{body.name}/{name}" if number == 1 else f"{body.name}/{name}/{number - 1}"
            found[chosen] = weight
            taken.add(chosen)
    return found


def _let_gradients_in(value: torch.Tensor) -> torch.Tensor:
    floating = value.dtype.is_floating_point
    return value.detach().requires_grad_() if floating and torch.is_grad_enabled() else value


def find_written_names(graph: ForeignGraph, table: Table) -> set[str]:
    """Weights that a run changes: they are buffers, and no optimizer trains them."""
    found: set[str] = set()
    for node in graph.nodes:
        rule = table.find(node)
        places = () if rule is None else rule.writes
        found.update(node.inputs[place] for place in places if place < len(node.inputs))
        for body in node.bodies:
            outside = dict(zip(body.inputs, node.inputs, strict=False))
            found.update(outside.get(name, name) for name in find_written_names(body, table))
    return found


def find_static_names(graph: ForeignGraph, table: Table) -> set[str]:
    """Tensors whose values decide the graph: read where a rule needs a value, or on the way there."""
    nodes = list(graph.list_nodes())
    maker = {name: node for node in nodes for name in node.outputs if name}
    found: set[str] = set()
    waiting: list[str] = []
    for node in nodes:
        rule = table.find(node)
        static = () if rule is None else rule.list_static(node)
        waiting.extend(node.inputs[place] for place in static if place < len(node.inputs) and node.inputs[place])
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found.add(name)
        made_by = maker.get(name)
        if made_by is not None and made_by.op not in ("Shape", "Size"):  # they need a shape, which is known
            waiting.extend(source for source in made_by.inputs if source)
            waiting.extend(name for body in made_by.bodies for name in body.outputs)
    return found
