"""Pass "lower": a `Program` becomes tasks in execution order.

In: the FX graphs `micro` and `update`. Out: a `Workload`.
Views and tuple items become other names for the same storage. With accumulation, each gradient is added to an
accumulator as soon as it exists; without, each weight is updated as soon as its gradient exists and nothing later reads
the old weight, because that is how a static scheduler keeps few gradients alive. `bring.py` inserts copies between
chips, `recompute.py` says what backward makes again.
"""

from __future__ import annotations

from collections.abc import Hashable

from torch import fx

from openipu.errors import PlanError
from openipu.graph import (
    Graph,
    GraphInput,
    GraphOutput,
    InputKind,
    LoopCall,
    OutputKind,
    Phase,
    Program,
    RunOptions,
    Strategy,
    TensorRole,
    note_of,
)
from openipu.machine import System
from openipu.ops.cost import Operand
from openipu.plan.lowering.bring import TaskList
from openipu.plan.lowering.entries import is_copy_of_load, is_load, is_store
from openipu.plan.lowering.known import KnownNode, KnownProgram
from openipu.plan.lowering.order import OVERWRITES, Outstanding, order_update
from openipu.plan.lowering.recompute import RecomputePolicy
from openipu.plan.lowering.sites import list_output_nodes, list_readers
from openipu.plan.types import VariableKind
from openipu.plan.work import Place, Storage, Value, Workload

_INPUT_KINDS = {
    InputKind.PARAMETER: VariableKind.PARAMETER,
    InputKind.BUFFER: VariableKind.BUFFER,
    InputKind.CONSTANT: VariableKind.CONSTANT,
    InputKind.INPUT: VariableKind.STREAM,
    InputKind.STATE: VariableKind.STATE,
    InputKind.HYPER: VariableKind.STREAM,
}
_MICRO, _UPDATE = 0, 1


def lower_program(program: Program, options: RunOptions, system: System, known: KnownProgram) -> Workload:
    """Lay a program out as tasks."""
    lowering = _Lowering(program, options, system, known)
    lowering.run()
    return lowering.finish()


class _Lowering:
    def __init__(self, program: Program, options: RunOptions, system: System, known: KnownProgram) -> None:
        self.program, self.known = program, known
        self.options = options
        self.policy = RecomputePolicy(program, options)
        self.list = TaskList(options, system, _count_ipus(program))
        self.inputs: list[Storage] = []
        self.values: dict[tuple[int, str, int], Value] = {}  # (graph, node, item) -> value
        self.first_values: dict[tuple[int, str, int], Value] = {}  # of nodes that were made again
        self.named: dict[tuple[InputKind, str], Value] = {}  # a parameter is one storage in both graphs
        self.gradients: dict[str, Value] = {}
        self.results: list[tuple[int, Value]] = []
        self.remade: set[fx.Node] = set()
        self.buffers: set[fx.Node] = set()  # names of remote buffers
        self.parks = not options.location_of(TensorRole.ACTIVATION).on_chip
        self.gradient_nodes: dict[str, fx.Node] = {
            entry.name: node
            for node, entry in zip(list_output_nodes(program.micro), program.micro.outputs, strict=True)
            if entry.kind is OutputKind.GRADIENT and isinstance(node, fx.Node)
        }
        update_inputs = program.update.inputs if program.update else ()
        self.gradient_inputs = {entry.node: entry.name for entry in update_inputs if entry.kind is InputKind.GRADIENT}

    def run(self) -> None:
        micro, update = self.program.micro, self.program.update
        self._bind_inputs(_MICRO, micro)
        if update is None:
            for node in micro.module.graph.nodes:
                self._lower_micro_node(node)
            self._bind_outputs(_MICRO, micro)
            return
        self._bind_inputs(_UPDATE, update)
        produced, pending = order_update(micro, update, self.gradient_nodes)
        accumulates = self.options.gradient_accumulation > 1
        early = not accumulates and self.options.replicas == 1 and self.options.instances == 1
        # Where the update begins before backward ends, backward may still read weights: they are replaced at its end.
        at_once = (OutputKind.STATE,) if early else (OutputKind.STATE, OutputKind.PARAMETER)
        self.outstanding = Outstanding(update, at_once)
        pending.reverse()  # the next one is last
        carries, late = bool(micro.outputs_of(OutputKind.CARRIED)), []
        for position, node in enumerate(micro.module.graph.nodes):
            if carries and note_of(node).phase is Phase.UPDATE:
                late.append(node)
            else:
                self._lower_micro_node(node)
            for name in produced.get(position, ()):
                self._take_gradient(name, accumulates)
            while early and pending and pending[-1][0] <= position:
                self._lower_update_node(_UPDATE, pending.pop()[1])
        for node in late:
            self._lower_update_node(_MICRO, node)
        self._bind_outputs(_MICRO, micro)
        for _, node in reversed(pending):
            self._lower_update_node(_UPDATE, node)
        for node, entry in self.outstanding.take_rest():
            self._bind_output(_UPDATE, node, entry)

    def finish(self) -> Workload:
        batched = [storage for storage in self.inputs if storage.operand.shape]
        gradient_bytes: dict[int, int] = {}
        for value in self.gradients.values():
            gradient_bytes[value.storage.ipu] = gradient_bytes.get(value.storage.ipu, 0) + value.operand.bytes
        if self.options.training and self.options.strategy is Strategy.PIPELINED:
            self.list.count_stashes(self.policy.last_stage)
        return Workload(
            name=self.program.name,
            tasks=self.list.tasks,
            storages=self.list.storages,
            inputs=self.inputs,
            results=self.results,
            micro_batch=batched[0].operand.shape[0] if batched else 1,
            gradient_bytes=gradient_bytes,
            ipus=1 + max((task.place.ipu for task in self.list.tasks), default=0),
            last_stage=self.policy.last_stage,
        )

    # ------------------------------------------------------------------------------------------------ nodes

    def _lower_micro_node(self, node: fx.Node) -> None:
        note = note_of(node)
        self._lower_node(_MICRO, node, Place(note.ipu, self.policy.find_stage(node), note.phase))

    def _lower_update_node(self, which: int, node: fx.Node) -> None:
        known = self.known.describe(node)
        if known.is_item or known.is_view:
            place = Place(0, 0, Phase.UPDATE)  # names only: nothing runs
        else:
            place = self.list.find_update_place([self._find_value(which, part) for part in node.all_input_nodes])
        self._lower_node(which, node, place)
        if which == _UPDATE:
            for output, entry in self.outstanding.take_ready(node):
                self._bind_output(_UPDATE, output, entry)

    def _lower_node(self, which: int, node: fx.Node, place: Place) -> None:
        if node.op in ("placeholder", "output"):
            return
        if node.op != "call_function":
            raise PlanError(f"The node {node.name} ({node.op}) is not an ATen call; capture must resolve it first.")
        known = self.known.describe(node)
        if known.is_item:
            source, item = node.args
            assert isinstance(source, fx.Node)
            assert isinstance(item, int)
            self._make_available(which, source, place)
            self.values[which, node.name, 0] = self.values[which, source.name, item]
        elif self._lower_entry(which, node, known, place):
            pass
        elif known.is_view:
            self._lower_view(which, node, known, place)
        else:
            self._lower_call(which, node, known, place)

    def _lower_view(self, which: int, node: fx.Node, known: KnownNode, place: Place) -> None:
        base = self._read(which, node.all_input_nodes[0], place)
        step: tuple[Hashable, ...] = ()
        if not known.keeps_order:  # else the layout is that of the base
            step = (known.op, repr(node.args[1:]), repr(node.kwargs))
        for item, operand in known.results:
            view = (*base.view, (*step, item)) if step else base.view
            self.values[which, node.name, item] = Value(base.storage, operand, view)

    def _lower_entry(self, which: int, node: fx.Node, known: KnownNode, place: Place) -> bool:
        """A load or a store of entries of a remote buffer, if this is one."""
        key, first = (which, node.name, 0), known.arguments[0] if known.arguments else node
        if is_copy_of_load(node, self.buffers):
            self.values[key] = self._read(which, first, place)
            return True
        buffer = self.values.get((which, first.name, 0))
        if buffer is None or not buffer.storage.residence.entries:
            return False
        self.buffers.add(first)
        if is_load(node):
            self.values[key] = self.list.load_entry(node.name, buffer, known.results[0][1], note_of(node), place)
        elif is_store(node):
            self.list.store_entry(self._read(which, known.arguments[-1], place), note_of(node), place)
            self.values[key] = buffer
        else:
            return False
        return True

    def _lower_call(self, which: int, node: fx.Node, known: KnownNode, place: Place) -> None:
        reads = tuple(self._read(which, argument, place) for argument in known.arguments)
        remote = {}
        if isinstance(node.target, LoopCall):  # what it loads and stores is priced inside
            remote = {position: value for position, value in enumerate(reads) if value.storage.residence.entries}
            reads = tuple(value for value in reads if not value.storage.residence.entries)
        site = self.known.describe_site(node, place.phase is not Phase.FORWARD, frozenset(remote))
        owner = self.list.find_owner(reads) if which == _UPDATE else None
        site = self.list.shard_update(site, owner)
        again = which == _MICRO and note_of(node).phase is Phase.FORWARD and place.phase is Phase.BACKWARD
        name = f"{node.name} (again)" if again else node.name
        writes = []
        for (item, operand), kept in zip(known.results, site.outputs, strict=True):
            if item in remote:
                self.values[which, node.name, item] = remote[item]
                continue
            storage = self.list.new_storage(name, VariableKind.ACTIVATION, kept)
            storage.place, storage.owner = place, owner
            value = Value(storage, operand)
            self.values[which, node.name, item] = value
            writes.append(value)
        self.list.add(name, site, note_of(node), place, reads, tuple(writes))
        if self.parks and which == _MICRO and place.phase is Phase.FORWARD:
            self._park_activations(node, place)

    def _park_activations(self, node: fx.Node, place: Place) -> None:
        """Forward results that only backward still needs may wait off chip."""
        if any(note_of(user).phase is Phase.BACKWARD for user in list_readers(node)) and self.policy.is_kept(node):
            for item, _ in self.known.describe(node).results:
                self.list.park(self.values[_MICRO, node.name, item], note_of(node), place)

    # ------------------------------------------------------------------------------------------------ values

    def _read(self, which: int, node: fx.Node, place: Place) -> Value:
        self._make_available(which, node, place)
        return self._find_value(which, node)

    def _find_value(self, which: int, node: fx.Node) -> Value:
        key = (which, node.name, 0)
        if key in self.values:
            return self.values[key]
        if which == _UPDATE and self.gradient_inputs.get(node.name) in self.gradients:
            return self.gradients[self.gradient_inputs[node.name]]
        raise PlanError(f"The graph reads {node.name} before anything makes it.")

    def _make_available(self, which: int, node: fx.Node, place: Place) -> None:
        """Make again what backward reads and forward did not keep, with all that it needs of its own stage."""
        if which != _MICRO or place.phase is not Phase.BACKWARD or self._is_available(node, place.stage):
            return
        wanted, todo = {node}, [node]
        while todo:
            for parent in todo.pop().all_input_nodes:
                if parent not in wanted and not self._is_available(parent, place.stage):
                    wanted.add(parent)
                    todo.append(parent)
        self.remade |= wanted
        for entry in sorted(wanted):  # nodes are ordered as the graph is
            for item, _ in self.known.describe(entry).results:
                key = (_MICRO, entry.name, item)
                self.first_values.setdefault(key, self.values[key])
            self._lower_node(_MICRO, entry, place)

    def _is_available(self, node: fx.Node, stage: int) -> bool:
        return node in self.remade or self.policy.find_stage(node) != stage or self.policy.is_kept(node)

    def _take_gradient(self, name: str, accumulates: bool) -> None:
        node = self.gradient_nodes[name]
        value = self.values[_MICRO, node.name, 0]
        parameter = self.named.get((InputKind.PARAMETER, name))
        owner = parameter.storage if parameter else None
        if accumulates:
            note = note_of(node)
            place = Place(owner.ipu if owner else note.ipu, self.policy.find_stage(node), Phase.BACKWARD)
            value = self.list.accumulate(name, value, owner, note, place)
        elif value.storage.kind is VariableKind.ACTIVATION:
            value.storage.kind = VariableKind.GRADIENT
            value.storage.owner = owner
        self.gradients[name] = value

    def _bind_inputs(self, which: int, graph: Graph) -> None:
        nodes = [node for node in graph.module.graph.nodes if node.op == "placeholder"]
        for node, entry in zip(nodes, graph.inputs, strict=True):
            if entry.kind is not InputKind.GRADIENT:
                self.values[which, node.name, 0] = self._bind_input(entry)

    def _bind_input(self, entry: GraphInput) -> Value:
        key = (entry.kind, entry.name)
        if key not in self.named:
            operand = Operand(entry.shape, entry.dtype)
            owner = self.named.get((InputKind.PARAMETER, entry.name.rpartition(":")[2]))
            storage = self.list.new_variable(entry.name, _INPUT_KINDS[entry.kind], operand)
            if entry.kind is InputKind.INPUT:
                self.inputs.append(storage)
            if entry.kind is InputKind.STATE and owner is not None:
                storage.owner = owner.storage
                if owner.operand.shape == entry.shape:
                    storage.like = owner.storage
            self.named[key] = Value(storage, operand)
        return self.named[key]

    def _bind_outputs(self, which: int, graph: Graph) -> None:
        for node, entry in zip(list_output_nodes(graph), graph.outputs, strict=True):
            self._bind_output(which, node, entry)

    def _bind_output(self, which: int, node: object, entry: GraphOutput) -> None:
        """A new value of a weight, a state or a buffer is written over the old one; a result goes to the host."""
        if not isinstance(node, fx.Node) or (which, node.name, 0) not in self.values:
            return
        key = (which, node.name, 0)
        value = self.first_values.get(key) or self.values[key]
        target = OVERWRITES.get(entry.kind)
        if target is not None and (target, entry.name) in self.named:
            self.list.overwrite(self.named[target, entry.name].storage, value, note_of(node))
        elif entry.kind is OutputKind.OUTPUT:
            value.storage.streamed_out = True
            self.results.append((entry.index, value))


def _count_ipus(program: Program) -> int:
    """IPUs of one replica."""
    return 1 + max((note_of(node).ipu for node in program.micro.module.graph.nodes), default=0)
