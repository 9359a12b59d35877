"""Runs the graphs of a program on torch tensors, while capture records them.

In: a graph and torch tensors for its inputs. Out: torch tensors for its outputs. Calls are written out, repeats become
loops and branches become branches of the captured program. What ops write in place is written in place here, too:
capture makes values of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from openipu.capture import Origin, at_origin, capture_branches, capture_loop, lift
from openipu.graph import Phase
from popxl._ir.aliases import Sharing, count_traffic, find_sharing
from popxl._ir.operation import Op
from popxl._ir.sites import CallOp, ConditionalOp, RepeatOp
from popxl._ir.transfers import HostLoadOp, HostStoreOp, RemoteLoadOp, RemoteStoreOp
from popxl._lowering.traffic import Streams
from popxl.dtypes import to_held
from popxl.graph import Graph
from popxl.tensor import Constant, Tensor, Variable

Values = dict[Tensor, torch.Tensor]


class Runner:
    """One capture of a program."""

    def __init__(self, streams: Streams, buffers: Mapping[int, torch.Tensor]) -> None:
        self.streams = streams
        self.buffers = dict(buffers)  # remote buffers by number
        self._sharing: dict[Graph, Sharing] = {}
        self._constants: dict[Tensor, torch.Tensor] = {}

    def sharing(self, graph: Graph) -> Sharing:
        if graph not in self._sharing:
            self._sharing[graph] = find_sharing(graph)
        return self._sharing[graph]

    def run(self, graph: Graph, values: Values) -> None:
        """Run all ops; `values` has the inputs and gets the rest."""
        for op in graph._ops:
            origin = Origin(
                scope="/".join(part for part in (graph.name, op.place.scope, op.kind) if part),
                line=op.place.line,
                ipu=op.ipu,
                stage=op.ipu,
                attributes={key: value for key, value in op.attributes.items() if key == "available_memory_proportion"},
                phase=self._find_phase(op),
            )
            with at_origin(origin):
                self._run_op(op, values)

    def run_graph(self, graph: Graph, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """The outputs of a graph."""
        values = dict(zip(graph._inputs, inputs, strict=True))
        self.run(graph, values)
        return [self.read(tensor, values) for tensor in graph._outputs]

    def read(self, tensor: Tensor, values: Values) -> torch.Tensor:
        found = values.get(tensor)
        if found is None:
            assert isinstance(tensor, Constant), f"{tensor} has no value"
            if tensor not in self._constants:
                self._constants[tensor] = to_held(tensor._data, tensor.dtype)
            found = lift(self._constants[tensor])
            if self.sharing(tensor._graph).is_written(tensor):
                found = found.clone()
                values[tensor] = found
        return found

    def _run_op(self, op: Op, values: Values) -> None:
        if isinstance(op, RepeatOp):
            self._repeat(op, values)
        elif isinstance(op, CallOp):
            self.call(op, values)
        elif isinstance(op, ConditionalOp):
            self._branch(op, values)
        elif isinstance(op, HostLoadOp):
            written = self.sharing(op.graph).is_written(op.outputs[0])
            values[op.outputs[0]] = self.streams.load(op.stream, written)
        elif isinstance(op, HostStoreOp):
            kept = self.read(op.inputs[0], values)
            self.streams.store(op.stream, kept.clone() if self._may_change(op.inputs[0]) else kept)
        elif isinstance(op, RemoteLoadOp):
            self._load_entry(op, values)
        elif isinstance(op, RemoteStoreOp):
            self._store_entry(op, values)
        else:
            assert op.function is not None
            given = [self.read(tensor, values) for tensor in op.inputs]
            with torch.no_grad():
                returned = op.function(*given)
            found = list(returned) if isinstance(returned, list | tuple) else [returned]
            shows = bool(op.attributes.get("shows")) and self._is_touched(op)
            for tensor, value in zip(op.outputs, found, strict=True):
                values[tensor] = value.clone() if shows else value

    def _may_change(self, tensor: Tensor) -> bool:
        """Is it memory that this run writes to, or that a later one may?"""
        sharing = self.sharing(tensor._graph)
        root = sharing.root(tensor)
        return sharing.is_written(tensor) or root._producer is None

    def _find_phase(self, op: Op) -> Phase:
        """What writes over a variable, or over what a caller gives for that, is the update."""
        if op.place.phase is not Phase.FORWARD or not op.writes:
            return op.place.phase
        sharing = self.sharing(op.graph)
        roots = [sharing.root(op.inputs[place]) for place in op.writes]
        kept = any(isinstance(root, Variable) or root in op.graph._by_ref_inputs for root in roots)
        return Phase.UPDATE if kept else Phase.FORWARD

    def _is_touched(self, op: Op) -> bool:
        """Is something written that this op would only show another way?"""
        sharing = self.sharing(op.graph)
        return any(sharing.is_written(tensor) for tensor in (*op.inputs, *op.outputs))

    def _pass(self, op: CallOp, values: Values) -> list[torch.Tensor]:
        """What a call gives to its graph: copies of what the graph writes to and the caller keeps."""
        sharing = self.sharing(op.target)
        given = []
        for place, tensor in enumerate(op.inputs):
            value = self.read(tensor, values)
            keeps = place not in op.modified and sharing.is_written(op.target._inputs[place])
            given.append(value.clone() if keeps else value)
        return given

    def _take(self, graph: Graph, outputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """What a call gets: tensors of their own where the graph returns what it was given, or the same twice."""
        sharing = self.sharing(graph)
        seen: set[int] = set()
        found = []
        for tensor, value in zip(graph._outputs, outputs, strict=True):
            root = sharing.root(tensor)
            own = root not in graph._inputs and not isinstance(root, Constant) and id(root) not in seen
            seen.add(id(root))
            found.append(value if own else value.clone())
        return found

    def call(self, op: CallOp, values: Values) -> None:
        """Run a graph once, written out."""
        made = self._take(op.target, self.run_graph(op.target, self._pass(op, values)))
        values.update(zip(op.outputs, made, strict=True))

    def _repeat(self, op: RepeatOp, values: Values) -> None:
        graph, given = op.target, [self.read(tensor, values) for tensor in op.inputs]
        if op.count == 0:
            values.update(zip(op.outputs, [value.clone() for value in given], strict=False))
            return
        carried = len(graph._outputs)
        sharing = self.sharing(graph)
        written = [
            place for place in range(len(given)) if place in op.modified and sharing.is_written(graph._inputs[place])
        ]
        extra = [place for place in written if place >= carried]
        traffic = count_traffic(graph)
        stores = list(traffic.stores)
        remote = list(traffic.stored)
        for stream in stores:
            self.streams.open(stream)
        counts = bool(traffic.loads or traffic.stores)
        starts = [given[place] for place in (*range(carried), *extra)]
        starts += [self.streams.written[stream] for stream in stores] + [self.buffers[number] for number in remote]
        if counts or not starts:
            starts.append(torch.zeros((), dtype=torch.int32))
        outside = dict(self.buffers)

        def body(*tensors: torch.Tensor) -> list[torch.Tensor]:
            rest = iter(tensors)
            inputs = list(given)
            for place in (*range(carried), *extra):
                inputs[place] = next(rest)
            held = [next(rest) for _ in stores]
            inner = [next(rest) for _ in remote]
            count = next(rest, None)
            own = [
                value.clone() if place not in op.modified and sharing.is_written(graph._inputs[place]) else value
                for place, value in enumerate(inputs)
            ]
            self.buffers = {**outside, **dict(zip(remote, inner, strict=True))}
            with self.streams.inside(traffic, count, dict(zip(stores, held, strict=True))):
                outputs = self._take(graph, self.run_graph(graph, own))
                left = [self.streams.written[stream] for stream in stores]
            results = [*outputs, *(own[place] for place in extra), *left]
            results += [self.buffers[number] for number in remote]
            if count is not None:
                results.append(count + 1)
            return _separate(results)

        with torch.no_grad():
            found = iter(capture_loop(op.count, body, starts))
        self.buffers = outside
        for tensor in op.outputs:
            values[tensor] = next(found)
        for place in extra:
            given[place].copy_(next(found))
        for stream in stores:
            self.streams.written[stream] = next(found)
        for number in remote:
            self.buffers[number].copy_(next(found))
        self.streams.pass_by(traffic, op.count)

    def _refuse_transfers(self, op: ConditionalOp) -> None:
        """Which transfer is the next one, and what is stored, would depend on the condition."""
        for graph in op.called:
            traffic = count_traffic(graph)
            if traffic.stores or traffic.stored or (traffic.loads and self.streams.transfers > 1):
                raise NotImplementedError(
                    f"{graph} is a branch, and moves data: a branch can load what is the same in every run, and no "
                    "more. Return the results of both branches, and load and store outside of it."
                )

    def _branch(self, op: ConditionalOp, values: Values) -> None:
        self._refuse_transfers(op)
        given = [self.read(tensor, values) for tensor in op.inputs]
        first = len(op.chosen._inputs)

        def make_body(graph: Graph) -> Any:
            sharing = self.sharing(graph)

            def body(*tensors: torch.Tensor) -> list[torch.Tensor]:
                own = [
                    value.clone() if sharing.is_written(inner) else value
                    for inner, value in zip(graph._inputs, tensors, strict=True)
                ]
                return _separate(self._take(graph, self.run_graph(graph, own)))

            return body

        with torch.no_grad():
            found = capture_branches(
                given[0].reshape(()),
                make_body(op.chosen),
                given[1 : 1 + first],
                make_body(op.otherwise),
                given[1 + first :],
            )
        values.update(zip(op.outputs, found, strict=True))

    def _load_entry(self, op: RemoteLoadOp, values: Values) -> None:
        buffer = self.buffers[op.buffer.remote_buffer_id]
        entry = self._select(buffer, op.inputs[0], values)
        if len(op.inputs) > 1:
            target = self.read(op.inputs[1], values)
            target.copy_(entry)
            values[op.outputs[0]] = target
        else:
            values[op.outputs[0]] = entry

    def _select(self, buffer: torch.Tensor, offset: Tensor, values: Values) -> torch.Tensor:
        if isinstance(offset, Constant):
            return buffer[int(offset._data.reshape(-1)[0])].clone()
        where = self.read(offset, values).reshape(1).long()
        return torch.index_select(buffer, 0, where).reshape(buffer.shape[1:])

    def _store_entry(self, op: RemoteStoreOp, values: Values) -> None:
        buffer = self.buffers[op.buffer.remote_buffer_id]
        value = self.read(op.inputs[0], values)
        offset = op.inputs[1]
        if isinstance(offset, Constant):
            buffer[int(offset._data.reshape(-1)[0])].copy_(value)
        else:
            buffer.index_copy_(0, self.read(offset, values).reshape(1).long(), value.unsqueeze(0))


def _separate(results: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Each result a tensor of its own."""
    seen: set[int] = set()
    found = []
    for value in results:
        found.append(value.clone() if id(value) in seen else value)
        seen.add(id(value))
    return found
