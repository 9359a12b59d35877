"""Pass "lower": a `Program` becomes tasks in execution order.

In: the FX graphs `micro` and `update`. Out: a `Workload`.
Views and tuple items become other names for the same storage. With accumulation, each gradient is added to an
accumulator as soon as it exists; without, each weight is updated as soon as its gradient exists and nothing later reads
the old weight, because that is how a static scheduler keeps few gradients alive.
"""

from __future__ import annotations

import operator
from collections.abc import Hashable, Iterable
from typing import Any

import torch
from torch import fx

from openipu.errors import PlanError
from openipu.graph import (
    Graph,
    GraphInput,
    InputKind,
    Note,
    OutputKind,
    Phase,
    Program,
    RunOptions,
    note_of,
)
from openipu.ops import is_view
from openipu.ops.cost import Operand, OpSite
from openipu.plan.types import VariableKind
from openipu.plan.work import Storage, Task, Value, Workload

_INPUT_KINDS = {
    InputKind.PARAMETER: VariableKind.PARAMETER,
    InputKind.BUFFER: VariableKind.BUFFER,
    InputKind.CONSTANT: VariableKind.CONSTANT,
    InputKind.INPUT: VariableKind.STREAM,
    InputKind.STATE: VariableKind.STATE,
    InputKind.HYPER: VariableKind.STREAM,
}
# Views that keep the order of elements: the layout of the result is the layout of its base.
_RESHAPES = (
    "view",
    "_unsafe_view",
    "reshape",
    "_reshape_alias",
    "unsqueeze",
    "squeeze",
    "flatten",
    "alias",
    "detach",
    "lift_fresh",
)


def lower_program(program: Program, options: RunOptions) -> Workload:
    """Lay a program out as tasks."""
    lowering = _Lowering(program, options)
    lowering.run()
    return lowering.finish()


class _Lowering:
    def __init__(self, program: Program, options: RunOptions) -> None:
        self.program = program
        self.options = options
        self.tasks: list[Task] = []
        self.storages: list[Storage] = []
        self.inputs: list[Storage] = []
        self.values: dict[tuple[int, str, int], Value] = {}  # (graph, node, item) -> value
        self.named: dict[tuple[InputKind, str], Value] = {}  # a parameter is one storage in both graphs
        self.gradients: dict[str, Value] = {}
        self.results: list[Value] = []
        self.gradient_bytes = 0
        self.gradient_nodes: dict[str, fx.Node] = {
            entry.name: node
            for node, entry in zip(_output_nodes(program.micro), program.micro.outputs, strict=True)
            if entry.kind is OutputKind.GRADIENT and isinstance(node, fx.Node)
        }
        update_inputs = program.update.inputs if program.update else ()
        self.gradient_inputs = {entry.node: entry.name for entry in update_inputs if entry.kind is InputKind.GRADIENT}

    def run(self) -> None:
        micro, update = self.program.micro, self.program.update
        self._bind_inputs(0, micro)
        if update is None:
            for node in micro.module.graph.nodes:
                self._lower_node(0, node)
            self._bind_outputs(0, micro)
            return
        self._bind_inputs(1, update)
        produced, wanted = self._find_update_order(micro, update)
        accumulates = self.options.gradient_accumulation > 1
        early = not accumulates and self.options.replicas == 1
        pending = list(wanted)
        for position, node in enumerate(micro.module.graph.nodes):
            self._lower_node(0, node)
            for name in produced.get(position, ()):
                self._take_gradient(name, accumulates)
            if early:
                while pending and pending[0][0] <= position:
                    self._lower_node(1, pending.pop(0)[1])
        self._bind_outputs(0, micro)
        for _, node in pending:
            self._lower_node(1, node)
        self._bind_outputs(1, update)

    def finish(self) -> Workload:
        batched = [storage for storage in self.inputs if storage.operand.shape]
        return Workload(
            name=self.program.name,
            tasks=self.tasks,
            storages=self.storages,
            inputs=self.inputs,
            results=self.results,
            micro_batch=batched[0].operand.shape[0] if batched else 1,
            gradient_bytes=self.gradient_bytes,
        )

    # ------------------------------------------------------------------------------------------------ order

    def _find_update_order(self, micro: Graph, update: Graph) -> tuple[dict[int, list[str]], list[tuple[int, fx.Node]]]:
        """Where each gradient appears in `micro`, and the update's nodes with the position from which each may run."""
        position = {node: index for index, node in enumerate(micro.module.graph.nodes)}
        ready = {name: position[node] for name, node in self.gradient_nodes.items()}
        produced: dict[int, list[str]] = {}
        for name, place in ready.items():
            produced.setdefault(place, []).append(name)
        last_read: dict[str, int] = {}
        placeholders = [node for node in micro.module.graph.nodes if node.op == "placeholder"]
        for node, given in zip(placeholders, micro.inputs, strict=True):
            if given.kind is InputKind.PARAMETER:
                last_read[given.name] = _find_last_reader(node, position)
        earliest: dict[fx.Node, int] = {}
        placeholders = [node for node in update.module.graph.nodes if node.op == "placeholder"]
        for node, given in zip(placeholders, update.inputs, strict=True):
            if given.kind is InputKind.GRADIENT:
                earliest[node] = max(ready.get(given.name, -1), last_read.get(given.name, -1))
            else:
                earliest[node] = -1
        nodes = [node for node in update.module.graph.nodes if node.op == "call_function"]
        for node in nodes:
            earliest[node] = max((earliest[parent] for parent in node.all_input_nodes), default=-1)
        for node in reversed(nodes):  # what needs no gradient waits for what uses it: nothing is kept alive early
            users = [earliest[user] for user in node.users if user.op != "output"]
            earliest[node] = max(earliest[node], min(users, default=earliest[node]))
        order = [(earliest[node], node) for node in nodes]
        order.sort(key=lambda entry: entry[0])  # stable: an op never comes before its operands
        return produced, order

    def _take_gradient(self, name: str, accumulates: bool) -> None:
        node = self.gradient_nodes[name]
        value = self.values[0, node.name, 0]
        self.gradient_bytes += value.operand.bytes
        if not accumulates:
            if value.storage.kind is VariableKind.ACTIVATION:
                value.storage.kind = VariableKind.GRADIENT
            self.gradients[name] = value
            return
        accumulator = self._new_storage(f"accumulator:{name}", VariableKind.ACCUMULATOR, value.operand)
        parameter = self.named.get((InputKind.PARAMETER, name))
        accumulator.like = parameter.storage if parameter else None
        total = Value(accumulator, value.operand)
        site = OpSite("aten.add.Tensor", (value.operand, value.operand), {}, (value.operand,), backward=True)
        note = note_of(node)
        self._add_task(f"accumulate_{node.name}", site, note, Phase.BACKWARD, (total, value), (total,))
        self.gradients[name] = total

    # ------------------------------------------------------------------------------------------------ nodes

    def _bind_inputs(self, which: int, graph: Graph) -> None:
        nodes = [node for node in graph.module.graph.nodes if node.op == "placeholder"]
        for node, entry in zip(nodes, graph.inputs, strict=True):
            if entry.kind is not InputKind.GRADIENT:
                self.values[which, node.name, 0] = self._bind_input(entry)

    def _bind_input(self, entry: GraphInput) -> Value:
        key = (entry.kind, entry.name)
        if key not in self.named:
            storage = self._new_storage(entry.name, _INPUT_KINDS[entry.kind], Operand(entry.shape, entry.dtype))
            if entry.kind is InputKind.INPUT:
                self.inputs.append(storage)
            if entry.kind is InputKind.STATE:
                owner = self.named.get((InputKind.PARAMETER, entry.name.partition(":")[2]))
                if owner is not None and owner.operand.shape == entry.shape:
                    storage.like = owner.storage
            self.named[key] = Value(storage, storage.operand)
        return self.named[key]

    def _lower_node(self, which: int, node: fx.Node) -> None:
        if node.op in ("placeholder", "output"):
            return
        if node.op != "call_function":
            raise PlanError(f"The node {node.name} ({node.op}) is not an ATen call; capture must resolve it first.")
        if node.target is operator.getitem:
            self._lower_item(which, node)
        elif is_view(str(node.target)):
            self._lower_view(which, node)
        else:
            self._lower_call(which, node)

    def _lower_item(self, which: int, node: fx.Node) -> None:
        source, item = node.args
        assert isinstance(source, fx.Node)
        assert isinstance(item, int)
        self.values[which, node.name, 0] = self.values[which, source.name, item]

    def _lower_view(self, which: int, node: fx.Node) -> None:
        base = self._value(which, node.all_input_nodes[0])
        step: tuple[Hashable, ...] = ()
        if str(node.target).split(".")[1] not in _RESHAPES:
            step = (str(node.target), repr(node.args[1:]), repr(node.kwargs))
        for item, operand in _result_operands(node):
            self.values[which, node.name, item] = Value(
                base.storage, operand, (*base.view, (*step, item)) if step else base.view
            )

    def _lower_call(self, which: int, node: fx.Node) -> None:
        args = tuple(_describe(argument) for argument in node.args)
        kwargs = {key: _describe(argument) for key, argument in node.kwargs.items()}
        results = list(_result_operands(node))
        note = note_of(node)
        phase = Phase.UPDATE if which == 1 else note.phase
        site = OpSite(
            str(node.target), args, kwargs, tuple(operand for _, operand in results), phase is not Phase.FORWARD
        )
        reads = tuple(self._value(which, argument) for argument in _tensor_arguments(node))
        writes = []
        for item, operand in results:
            storage = self._new_storage(node.name, VariableKind.ACTIVATION, operand)
            value = Value(storage, operand)
            self.values[which, node.name, item] = value
            writes.append(value)
        self._add_task(node.name, site, note, phase, reads, tuple(writes))

    def _value(self, which: int, node: fx.Node) -> Value:
        key = (which, node.name, 0)
        if key in self.values:
            return self.values[key]
        if which == 1 and self.gradient_inputs.get(node.name) in self.gradients:
            return self.gradients[self.gradient_inputs[node.name]]
        raise PlanError(f"The graph reads {node.name} before anything makes it.")

    def _bind_outputs(self, which: int, graph: Graph) -> None:
        """New values of weights, state and buffers are written over the old ones; results go to the host."""
        targets = {
            OutputKind.PARAMETER: InputKind.PARAMETER,
            OutputKind.STATE: InputKind.STATE,
            OutputKind.BUFFER: InputKind.BUFFER,
            OutputKind.INPUT: InputKind.INPUT,
        }
        for node, entry in zip(_output_nodes(graph), graph.outputs, strict=True):
            if not isinstance(node, fx.Node) or (which, node.name, 0) not in self.values:
                continue
            value = self.values[which, node.name, 0]
            target = targets.get(entry.kind)
            if target is not None and (target, entry.name) in self.named:
                destination = self.named[target, entry.name].storage
                if not value.storage.always_live and value.storage is not destination:
                    value.storage.reuses = destination
            elif entry.kind in (OutputKind.OUTPUT, OutputKind.LOSS):
                value.storage.streamed_out = entry.kind is OutputKind.OUTPUT or value.storage.streamed_out
                if entry.kind is OutputKind.OUTPUT:
                    self.results.append(value)

    # ------------------------------------------------------------------------------------------------ records

    def _new_storage(self, name: str, kind: VariableKind, operand: Operand) -> Storage:
        storage = Storage(name, kind, operand)
        self.storages.append(storage)
        return storage

    def _add_task(
        self,
        name: str,
        site: OpSite,
        note: Note,
        phase: Phase,
        reads: tuple[Value, ...],
        writes: tuple[Value, ...],
    ) -> None:
        index = len(self.tasks)
        for value in reads:
            value.storage.last_reader = index
        for value in writes:
            if value.storage.writer is None:
                value.storage.writer = index
        self.tasks.append(Task(index, name, site, note, phase, reads, writes))


def _output_nodes(graph: Graph) -> tuple[Any, ...]:
    output = next(node for node in graph.module.graph.nodes if node.op == "output")
    returned = output.args[0]
    return tuple(returned) if isinstance(returned, list | tuple) else (returned,)


def _find_last_reader(node: fx.Node, position: dict[fx.Node, int]) -> int:
    """The last node that reads this one, also through views."""
    last = -1
    for user in node.users:
        if user.op == "call_function":
            viewed = is_view(str(user.target)) or user.target is operator.getitem
            last = max(last, position[user], _find_last_reader(user, position) if viewed else -1)
    return last


def _describe(argument: Any) -> Any:
    """An FX argument with operands in place of nodes."""
    if isinstance(argument, fx.Node):
        return _operand_of(argument.meta.get("val"), argument)
    if isinstance(argument, list):
        return [_describe(item) for item in argument]
    if isinstance(argument, tuple):
        return tuple(_describe(item) for item in argument)
    return argument


def _operand_of(value: Any, node: fx.Node) -> Operand:
    if not isinstance(value, torch.Tensor):
        raise PlanError(f"The node {node.name} carries no shape; capture must record one.")
    return Operand(tuple(int(size) for size in value.shape), value.dtype)


def _result_operands(node: fx.Node) -> Iterable[tuple[int, Operand]]:
    """The tensors a node returns: those of a tuple that somebody takes."""
    value = node.meta.get("val")
    if isinstance(value, torch.Tensor):
        yield 0, _operand_of(value, node)
        return
    if isinstance(value, list | tuple):
        for item, part in enumerate(value):
            if isinstance(part, torch.Tensor):
                yield item, _operand_of(part, node)
        return
    taken = {user.args[1]: user for user in node.users if user.target is operator.getitem}
    for item in sorted(key for key in taken if isinstance(key, int)):
        yield item, _operand_of(taken[item].meta.get("val"), taken[item])


def _tensor_arguments(node: fx.Node) -> Iterable[fx.Node]:
    """Tensor arguments in order, with repeats: one an operand of the site."""
    for argument in (*node.args, *node.kwargs.values()):
        if isinstance(argument, fx.Node):
            yield argument
        elif isinstance(argument, list | tuple):
            for item in argument:
                if isinstance(item, fx.Node):
                    yield item
