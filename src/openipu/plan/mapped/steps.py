"""Leaves of a program become steps: sync, exchange, compute, host.

In: a leaf. Out: `LeafPlan`: its steps for one execution with cycles by tile, and the variables that it touches.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from openipu.graph.mapped import nodes
from openipu.graph.mapped.nodes import ProgramNode
from openipu.graph.mapped.program import MappedProgram
from openipu.graph.mapped.views import Ints, View
from openipu.machine import Provenance
from openipu.ops.cost import Family, StepKind
from openipu.plan.mapped.touch import Touched, touch_edges, touch_views
from openipu.plan.mapped.traffic import Traffic, list_edge_rows, measure_copy, measure_traffic
from openipu.plan.mapped.vertices import ESTIMATE_BASIS, GUESS_BASIS, measure_compute, measure_state

_COPY_BYTES_PER_CYCLE = 8  # derived: one 64-bit word loaded and stored a cycle, by workers in rotation
_COPY_START_CYCLES = 20


@dataclass(frozen=True, slots=True, eq=False)
class LeafStep:
    """One phase of a leaf, once. Arrays have one entry per tile of a replica."""

    kind: StepKind
    name: str
    by_tile: npt.NDArray[np.float64]
    moved_bytes: int = 0
    flops: int = 0
    busy_by_tile: npt.NDArray[np.float64] | None = None
    vertices_by_tile: Ints | None = None
    vertex: str = ""
    state_by_tile: Ints | None = None
    pieces: int = 0
    buffer_by_tile: Ints | None = None  # arriving bytes that need a place of their own


@dataclass(frozen=True, slots=True, eq=False)
class LeafOp:
    """What a report lists as one op: some steps of a leaf."""

    name: str
    op: str
    family: Family
    steps: tuple[LeafStep, ...]
    provenance: Provenance
    basis: str
    flops: int = 0
    scratch_bytes_per_tile: int = 0
    plan: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class LeafPlan:
    """One leaf."""

    ops: tuple[LeafOp, ...]
    touched: Touched


class StepBuilder:
    """Steps of the leaves of one program."""

    def __init__(self, program: MappedProgram) -> None:
        self.program = program
        self._clock = program.system.target.clock_hz
        target = program.system.target
        given = program.min_sync_cycles
        self.sync_cycles = target.phase_launch_cycles if given is None else given
        self._host_rate = program.host_bytes_per_second or program.system.host_bytes_per_second
        self._remote_rate = program.system.streaming_bytes_per_second or program.system.host_bytes_per_second

    def plan(self, node: ProgramNode) -> LeafPlan:
        if isinstance(node, nodes.ExecuteNode):
            return self._plan_execute(node)
        if isinstance(node, nodes.CopyNode):
            return self._plan_copy(node, node.source, node.target)
        if isinstance(node, nodes.CrossReplicaCopyNode):
            touched = touch_views(self.program, [node.source], [node.target])
            cycles = self._count_link(node.source.bytes)
            step = self._everywhere(StepKind.LINK, node.name or "cross-replica copy", cycles, node.source.bytes)
            return LeafPlan((self._make_op(node, "CrossReplicaCopy", Family.TRANSFER, (step,)),), touched)
        if isinstance(node, nodes.StreamInNode):
            return self._plan_host(node, "stream in", node.target.bytes, [], [node.target], self._host_rate)
        if isinstance(node, nodes.StreamOutNode):
            return self._plan_host(node, "stream out", node.source.bytes, [node.source], [], self._host_rate)
        if isinstance(node, nodes.RemoteReadNode):
            reads = [] if node.offsets is None else [node.offsets]
            return self._plan_host(node, "remote read", node.target.bytes, reads, [node.target], self._remote_rate)
        if isinstance(node, nodes.RemoteWriteNode):
            reads = [node.source] if node.offsets is None else [node.source, node.offsets]
            return self._plan_host(node, "remote write", node.source.bytes, reads, [], self._remote_rate)
        if isinstance(node, nodes.HostCallNode):
            size = sum(view.bytes for view in (*node.inputs, *node.outputs))
            return self._plan_host(node, "host function", size, node.inputs, node.outputs, self._host_rate)
        if isinstance(node, nodes.PrintNode):
            return self._plan_host(node, "print", node.source.bytes, [node.source], [], self._host_rate)
        if isinstance(node, nodes.SyncNode):
            step = self._everywhere(StepKind.SYNC, "sync", self.sync_cycles, 0)
            return LeafPlan((self._make_op(node, "Sync", Family.CONTROL, (step,)),), Touched())
        if isinstance(node, nodes.UndefineNode):
            return LeafPlan((), Touched())
        if isinstance(node, nodes.StampNode):
            since = [] if node.since is None else [node.since]
            return LeafPlan((), touch_views(self.program, since, [node.target]))
        reads = [view for view in (getattr(node, "condition", None), getattr(node, "shown", None)) if view is not None]
        return LeafPlan((), touch_views(self.program, reads, []))

    def sync(self) -> LeafStep:
        return self._everywhere(StepKind.SYNC, "sync", self.sync_cycles, 0)

    def _everywhere(self, kind: StepKind, name: str, cycles: float, moved: int) -> LeafStep:
        return LeafStep(kind, name, np.full(self.program.tiles, float(cycles)), moved_bytes=moved)

    def _make_op(
        self,
        node: ProgramNode,
        op: str,
        family: Family,
        steps: tuple[LeafStep, ...],
        provenance: Provenance = Provenance.DERIVED,
        basis: str = "",
        flops: int = 0,
    ) -> LeafOp:
        return LeafOp(node.name or op, op, family, steps, provenance, basis, flops)

    def _plan_host(
        self, node: ProgramNode, what: str, size: int, reads: list[View] | tuple[View, ...],
        writes: list[View] | tuple[View, ...], rate: float,
    ) -> LeafPlan:  # fmt: skip
        cycles = size / rate * self._clock
        step = self._everywhere(StepKind.HOST, f"{what} {node.name}".strip(), cycles, size)
        op = self._make_op(node, what, Family.TRANSFER, (step,), basis="bytes at the host's rate")
        return LeafPlan((op,), touch_views(self.program, list(reads), list(writes)))

    def _plan_execute(self, node: nodes.ExecuteNode) -> LeafPlan:
        program = self.program
        compute_set = program.compute_sets[node.compute_set]
        cycles = measure_compute(program, compute_set)
        reads, writes = [], []
        touched = Touched()
        for batch in compute_set.batches:
            tiles = np.maximum(batch.tiles, 0).astype(np.int64)
            for entry in program.codelets[batch.codelet].fields:
                for edges in batch.edges.get(entry.name, ()):
                    rows = list_edge_rows(edges, tiles)
                    if entry.access.reads:
                        reads.append(rows)
                    if entry.access.writes:
                        writes.append(rows)
                    touch_edges(program, touched, edges, entry.access)
        if node.exit is not None:
            touched.merge(touch_views(program, [], [node.exit]))
        steps: list[LeafStep] = []
        before = measure_traffic(program, reads)
        after = measure_traffic(program, writes, outgoing=True)
        steps += self._exchange(f"{compute_set.name}: bring inputs", before)
        names = [program.codelets[batch.codelet].name for batch in compute_set.batches]
        steps.append(
            LeafStep(
                StepKind.COMPUTE,
                compute_set.name,
                cycles.by_tile.astype(np.float64),
                flops=cycles.flops,
                busy_by_tile=cycles.busy_by_tile.astype(np.float64),
                vertices_by_tile=cycles.vertices_by_tile,
                vertex=", ".join(dict.fromkeys(names)),
                state_by_tile=measure_state(program, compute_set),
            )
        )
        steps += self._exchange(f"{compute_set.name}: send outputs", after)
        provenance = Provenance.GUESSED if cycles.guessed else Provenance.USER
        basis = GUESS_BASIS if cycles.guessed else ESTIMATE_BASIS
        op = LeafOp(
            node.name, ", ".join(dict.fromkeys(names)) or "empty", Family.VERTEX, tuple(steps), provenance, basis,
            cycles.flops, plan={"vertices": compute_set.vertices},
        )  # fmt: skip
        return LeafPlan((op,), touched)

    def _exchange(self, name: str, traffic: Traffic) -> list[LeafStep]:
        """A sync and an exchange; bytes for another IPU go over the links after that."""
        if not traffic.moved:
            return []
        rate = self.program.system.target.exchange_bytes_per_cycle
        busy = np.ceil(np.maximum(traffic.received, traffic.sent) / rate)
        found = [
            self.sync(),
            LeafStep(
                StepKind.EXCHANGE,
                name,
                busy,
                moved_bytes=traffic.moved,
                pieces=traffic.pieces,
                buffer_by_tile=traffic.received,
            ),
        ]
        if traffic.across:
            cycles = self._count_link(traffic.across)
            found.append(self._everywhere(StepKind.LINK, f"{name}: between IPUs", cycles, traffic.across))
        return found

    def _count_link(self, size: int) -> float:
        system = self.program.system
        rate = system.ipu_link_bytes_per_second * system.ipu_link_efficiency
        return (size / rate + system.ipu_link_latency_seconds) * self._clock if rate else 0.0

    def _plan_copy(self, node: ProgramNode, source: View, target: View) -> LeafPlan:
        traffic, local = measure_copy(self.program, source, target)
        steps = self._exchange(node.name or "copy", traffic)
        if local.any():
            cycles = np.where(local > 0, _COPY_START_CYCLES + np.ceil(local / _COPY_BYTES_PER_CYCLE), 0.0)
            steps.append(LeafStep(StepKind.COMPUTE, f"{node.name or 'copy'}: on tile", cycles, vertex="poplar::Copy"))
        op = self._make_op(node, "Copy", Family.LAYOUT, tuple(steps), basis="bytes by tile, at the exchange's rate")
        return LeafPlan((op,), touch_views(self.program, [source], [target]))
