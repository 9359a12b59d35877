"""What no layout can do without: where nothing fits, a proof of it that needs no plan.

In: a program, its chain, run options, a machine. Out: for a scheme, bytes that the fullest tile of some IPU holds
however the chain is cut. Only what lies on an IPU in every layout is counted, as if it were spread evenly over tiles:

- weights, accumulators and optimizer state that belong to one segment, where the scheme keeps them on chip,
- for one op at a time, what it reads or what it writes, whichever is more.

Recomputation, memory proportions, tile mappings and code only add to these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from torch import fx

from openipu.explore.auto.cuts import make_layout
from openipu.explore.auto.estimate import Scheme
from openipu.explore.auto.segments import Chain
from openipu.explore.auto.types import Layout, Shortage, Stage, StateHome
from openipu.graph import InputKind, OutputKind, Program, RunOptions, TensorRole
from openipu.machine import System
from openipu.ops.cost import Operand
from openipu.plan import KnownProgram
from openipu.plan.lowering.sites import list_output_nodes

_REPLACED = (
    OutputKind.PARAMETER,
    OutputKind.CARRIED,
    OutputKind.STATE,
    OutputKind.BUFFER,
    OutputKind.INPUT,
)  # written over what they follow
_HALVINGS = 24  # of the range between the least and the most that an IPU may hold: to a few bytes of a tile

Bytes = npt.NDArray[np.float64]  # one entry per segment; the last one is of what belongs to several


@dataclass(frozen=True, slots=True)
class Base:
    """The bytes behind a value that is read."""

    node: fx.Node
    item: int
    bytes: int


class Floor:
    """The least memory of any layout, scheme by scheme."""

    def __init__(
        self, program: Program, chain: Chain, system: System, options: RunOptions, known: KnownProgram | None = None
    ) -> None:
        self.program, self.chain, self.options = program, chain, options
        self.tiles = system.target.tiles
        self.limit_bytes = system.target.usable_tile_bytes
        self.known = known or KnownProgram()
        count = len(chain.segments)
        self.weights, self.gradients, self.state = (np.zeros(count + 1) for _ in range(3))
        self.largest_op = np.zeros(count)
        placeholders = [node for node in program.micro.module.graph.nodes if node.op == "placeholder"]
        self._entries = dict(zip(placeholders, program.micro.inputs, strict=True))
        self._measure_variables()
        self._measure_ops()

    def admits(self, scheme: Scheme) -> bool:
        """False: no layout of this scheme fits."""
        return self.find_least(scheme) <= self.limit_bytes

    def find_least(self, scheme: Scheme, with_ops: bool = True) -> float:
        """Bytes that the fullest tile holds at least. Without ops, whatever the micro-batch."""
        held = self._hold(scheme)
        ops = self.largest_op if with_ops else np.zeros_like(self.largest_op)
        low = max(float(held.sum()) / scheme.ipus, float((held[:-1] + ops).max()))
        high = float(held.sum() + ops.max())
        if self._can_cut(scheme, held, ops, low):
            return low / self.tiles
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            if self._can_cut(scheme, held, ops, middle):
                high = middle
            else:
                low = middle
        return low / self.tiles

    def explain(self, schemes: Sequence[Scheme]) -> Shortage | None:
        """Why none of these schemes has a layout that fits; None where one may have."""
        least = {scheme: self.find_least(scheme) for scheme in schemes}
        if min(least.values()) <= self.limit_bytes:
            return None
        best = min(schemes, key=lambda scheme: least[scheme])
        held = self._hold(best)
        alone = held[:-1] + self.largest_op
        worst = int(alone.argmax())
        too_large = float(alone[worst]) > self.tiles * self.limit_bytes
        return Shortage(
            least_tile_bytes=int(np.ceil(least[best])),
            limit_tile_bytes=self.limit_bytes,
            variable_bytes=int(held.sum()),
            ipus=best.ipus,
            ipu_bytes=self.tiles * self.limit_bytes,
            module=self.chain.segments[worst].module if too_large else None,
            module_bytes=int(alone[worst]) if too_large else 0,
            any_micro_batch=all(self.find_least(scheme, with_ops=False) > self.limit_bytes for scheme in schemes),
        )

    def cut(self, scheme: Scheme, proportion: float) -> Layout:
        """A layout close to the least: each IPU takes what it has room for, and leaves something for each other."""
        held, capacity = self._hold(scheme), self.find_least(scheme) * self.tiles
        end = len(self.largest_op) if scheme.tail is None else scheme.tail
        used, largest = self._begin(held, self.largest_op, end)
        stages: list[Stage] = []
        first = 0
        for index in range(end):
            used, largest = used + float(held[index]), max(largest, float(self.largest_op[index]))
            others = scheme.ipus - len(stages) - 1  # IPUs behind this one
            if index > first and others and (used + largest > capacity or end - index <= others):
                stages.append(Stage(first, index - 1, len(stages)))
                first, used, largest = index, float(held[index]), float(self.largest_op[index])
        stages.append(Stage(first, end - 1, len(stages)))
        return make_layout(stages, (proportion,) * scheme.ipus, scheme, len(self.largest_op))

    # ------------------------------------------------------------------------------------------------ cutting

    def _begin(self, held: Bytes, ops: Bytes, end: int) -> tuple[float, float]:
        """What is back on IPU 0 before it takes the first segment: variables, and its largest op."""
        return float(held[end:-1].sum()), float(ops[end:].max(initial=0.0))

    def _hold(self, scheme: Scheme) -> Bytes:
        """Bytes that are always live, by segment."""
        held = self.weights.copy()
        if self.options.training and scheme.rounds > 1:
            held += self.gradients
        if scheme.state_home is StateHome.ON_CHIP:
            held += self.state
        elif scheme.state_home is StateHome.SHARED:
            held += self.state / scheme.replicas
        return held

    def _can_cut(self, scheme: Scheme, held: Bytes, ops: Bytes, capacity: float) -> bool:
        """Do the segments go into the IPUs, if each takes as many as it has room for?"""
        end = len(ops) if scheme.tail is None else scheme.tail
        used, largest = self._begin(held, ops, end)
        if used + largest > capacity:
            return False
        ipus = 1
        for more, op in zip(held[:end].tolist(), ops[:end].tolist(), strict=True):
            used, largest = used + more, max(largest, op)
            if used + largest > capacity:
                ipus, used, largest = ipus + 1, more, op
                if ipus > scheme.ipus or used + largest > capacity:
                    return False
        return True

    # ------------------------------------------------------------------------------------------------ counting

    def _measure_variables(self) -> None:
        micro, away = self.program.micro, self._list_roles_elsewhere()
        home: dict[str, int] = {}
        for node, entry in self._entries.items():
            if entry.kind is not InputKind.PARAMETER:
                continue
            readers = self._list_segments(node)
            home[entry.name] = readers.pop() if len(readers) == 1 else -1
            if TensorRole.WEIGHT not in away:
                self.weights[home[entry.name]] += Operand(entry.shape, entry.dtype).bytes
        if TensorRole.ACCUMULATOR not in away:
            for gradient in micro.outputs_of(OutputKind.GRADIENT):
                self.gradients[home.get(gradient.name, -1)] += Operand(gradient.shape, gradient.dtype).bytes
        for slot in self.program.state_slots:
            self.state[home.get(slot.parameter, -1)] += Operand(slot.shape, slot.dtype).bytes

    def _list_roles_elsewhere(self) -> set[TensorRole]:
        """What is kept off chip, or in shares, by the user's own options: none of it is counted."""
        places = self.options.locations
        return {role for role, place in places if not place.on_chip or place.replicated_sharding}

    def _list_segments(self, node: fx.Node) -> set[int]:
        """The segments that read a value, also through views."""
        found: set[int] = set()
        todo = [node]
        while todo:
            for user in todo.pop().users:
                if user.op != "call_function":
                    continue
                known = self.known.describe(user)
                if known.is_view or known.is_item:
                    todo.append(user)
                else:
                    found.add(self.chain.segment_of.get(user, -1))
        return found

    def _measure_ops(self) -> None:
        outputs = zip(list_output_nodes(self.program.micro), self.program.micro.outputs, strict=True)
        replaced = {self._find_base(node).node for node, entry in outputs if _is_replaced(node, entry.kind)}
        for node, segment in self.chain.segment_of.items():
            known = self.known.describe(node)
            if known.is_view or known.is_item or node in replaced:
                continue
            bases = {(base.node, base.item): base.bytes for base in map(self._find_base, known.arguments) if base.bytes}
            read = sum(size for (base, _), size in bases.items() if base not in replaced)
            written = sum(operand.bytes for _, operand in known.results)
            self.largest_op[segment] = max(self.largest_op[segment], read, written)

    def _find_base(self, node: fx.Node) -> Base:
        """What a value is a view or an item of. Weights count as variables, and not again here."""
        while node.op == "call_function":
            known = self.known.describe(node)
            if known.is_item:
                source, item = node.args
                assert isinstance(source, fx.Node)
                assert isinstance(item, int)
                if not self.known.describe(source).is_view:
                    sizes = dict(self.known.describe(source).results)
                    return Base(source, item, sizes[item].bytes if item in sizes else 0)
                node = source
            elif known.is_view:
                node = node.all_input_nodes[0]
            else:
                return Base(node, 0, known.results[0][1].bytes if known.results else 0)
        entry = self._entries[node]
        return Base(node, 0, 0 if entry.kind is InputKind.PARAMETER else Operand(entry.shape, entry.dtype).bytes)


def _is_replaced(node: object, kind: OutputKind) -> bool:
    return isinstance(node, fx.Node) and kind in _REPLACED
