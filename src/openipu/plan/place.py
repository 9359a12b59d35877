"""Pass "place": every storage gets a tile mapping, and operands that lie elsewhere than their op needs are moved.

Weights and other variables are spread linearly, each starting where the last one ended, so that small tensors do not
pile up on tile 0. Results follow their op's rule. An op whose result may overwrite a dying operand does so.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Hashable

from openipu.ops import cost_op
from openipu.ops.cost import CostContext, Family, OpCost, Operand, Placement
from openipu.plan.types import TileMapping, VariableKind
from openipu.plan.work import Move, Storage, Task, Value, Workload

MINIMUM_TILE_BYTES = 128  # mapTensorLinearly gives no tile less
_COMPUTED = (VariableKind.ACTIVATION, VariableKind.GRADIENT)
GRAIN_BYTES = 8  # one vector of the plain datapath


def place_storages(workload: Workload, context: CostContext) -> None:
    """Map everything, in execution order."""
    placer = _Placer(context)
    for storage in workload.storages:
        if storage.always_live and storage.like is None:
            placer.map_linearly(storage)
    for storage in workload.storages:
        if storage.always_live and storage.like is not None:
            if storage.like.root.mapping is not None:
                placer.map_like(storage, storage.like)
            else:  # its parameter is kept off chip
                placer.map_linearly(storage)
    for task in workload.tasks:
        placer.place_task(task)


class _Placer:
    def __init__(self, context: CostContext) -> None:
        self.context = context
        self.tiles = context.tiles
        self.next_tile = 0
        self.transfers: set[int] = set()  # tasks that bring a tensor from elsewhere: it is written as its reader wants
        self.repriced: dict[tuple[int, int], OpCost] = {}

    def map_linearly(self, storage: Storage) -> None:
        size = storage.operand.bytes
        tiles = max(1, min(self.tiles, size // MINIMUM_TILE_BYTES))
        first = 0 if tiles == self.tiles else self.next_tile
        self.next_tile = (first + tiles) % self.tiles
        storage.mapping = TileMapping(first, tiles, size, GRAIN_BYTES)
        storage.layout = ("linear", first, tiles)

    def map_like(self, storage: Storage, other: Storage) -> None:
        mapping = other.root.mapping
        assert mapping is not None, f"{other.name} has no mapping yet"
        storage.mapping = TileMapping(mapping.first_tile, mapping.tiles, storage.operand.bytes, GRAIN_BYTES)
        storage.layout = other.root.layout

    def place_task(self, task: Task) -> None:
        self._reuse_dying_operand(task)
        for value in task.writes:
            if value.storage.root.mapping is None:
                self._place_result(task, value)
        self._price_on_fewer_tiles(task)
        if task.priced.family is Family.TRANSFER:
            self.transfers.add(task.index)
        if task.priced.aligned or task.priced.family is Family.ELEMENTWISE:
            task.moves = tuple(self._list_moves(task))
        elif task.priced.laid_out:
            task.moves = tuple(self._list_arrivals(task))

    def _reuse_dying_operand(self, task: Task) -> None:
        """In place where the table allows it: the first operand dies here, is as large, and is nobody's variable."""
        if not task.priced.in_place or not task.reads or len(task.writes) != 1:
            return
        old, new = task.reads[0].storage, task.writes[0].storage
        if new.reuses is not None or new.mapping is not None or new.always_live:
            return
        dies = old.last_reader == task.index and not old.streamed_out and not old.root.always_live
        if dies and old.operand.bytes == new.operand.bytes and not task.reads[0].view and old.root is not new:
            new.reuses = old

    def _price_on_fewer_tiles(self, task: Task) -> None:
        """An elementwise op runs where its result lies: on fewer tiles than a fresh spread, each has more to do."""
        cost = task.priced
        if cost.placement is not Placement.FOLLOW or not task.writes or not cost.steps:
            return
        mapping = task.writes[0].storage.root.mapping
        if mapping is None or mapping.tiles >= max(step.tiles for step in cost.steps):
            return
        key = (id(cost), mapping.tiles)
        if key not in self.repriced:
            self.repriced[key] = cost_op(task.site, dataclasses.replace(self.context, tiles=mapping.tiles))
        task.cost = self.repriced[key]

    def _place_result(self, task: Task, value: Value) -> None:
        cost, storage = task.priced, value.storage
        if cost.placement is Placement.FOLLOW:
            for operand in task.reads:
                if operand.operand.elements == value.operand.elements and not operand.view:
                    self.map_like(storage, operand.storage)
                    return
        if cost.placement is Placement.PLANNED and cost.result_tiles:
            tiles = max(1, min(cost.result_tiles, self.tiles, -(-storage.operand.bytes // GRAIN_BYTES)))
            storage.mapping = TileMapping(0, tiles, storage.operand.bytes, GRAIN_BYTES)
            storage.layout = ("planned", task.site.op, repr(task.site.outputs), repr(sorted(cost.plan.items())))
            return
        self.map_linearly(storage)

    def _list_moves(self, task: Task) -> list[Move]:
        """Operands to bring into the layout of the result, or to broadcast over it."""
        result = task.writes[0]
        mapping = result.storage.root.mapping
        assert mapping is not None
        moves: list[Move] = []
        seen: set[tuple[int, Hashable]] = set()
        for value in task.reads:
            key = (id(value.storage.root), value.layout)
            if key in seen or value.operand.elements <= 1:
                continue
            seen.add(key)
            move = self._move_operand(value, result, mapping, task.priced.aligned)
            if move is not None:
                moves.append(move)
        return moves

    def _list_arrivals(self, task: Task) -> list[Move]:
        """Activations of a product: another op left them as it saw fit. Variables lie as their first product wants."""
        rate = self.context.target.exchange_bytes_per_cycle
        tiles = max(1, task.priced.result_tiles)
        moves: list[Move] = []
        for entry in task.priced.laid_out:
            value = task.reads[entry.operand]
            if value.storage.kind not in _COMPUTED or value.storage.writer in self.transfers:
                continue
            size_bytes = math.ceil(min(entry.bytes_on_tile, value.operand.bytes))
            room_bytes = math.ceil(min(entry.room_bytes, value.operand.bytes))
            moves.append(Move(value.operand, size_bytes / rate, tiles, room_bytes, size_bytes * tiles))
        return moves

    def _move_operand(self, value: Value, result: Value, mapping: TileMapping, aligned: bool) -> Move | None:
        operand = value.operand
        stored = value.storage.operand.bytes  # an expanded view moves its real bytes only
        rate = self.context.target.exchange_bytes_per_cycle
        if operand.elements == result.operand.elements and stored == operand.bytes:
            if value.layout == result.layout or not aligned:  # a single operand is worked on where it lies
                return None
            per_tile = -(-operand.bytes // mapping.tiles)
            return Move(operand, per_tile / rate, mapping.tiles, per_tile, operand.bytes)
        return _broadcast(operand, min(stored, operand.bytes), mapping, rate, self.context)


def _broadcast(
    operand: Operand, stored_bytes: int, mapping: TileMapping, rate: float, context: CostContext
) -> Move | None:
    """A smaller operand reaches every tile that needs it; neighbours on one bus receive the same words at once."""
    per_tile = min(stored_bytes, mapping.peak_tile_bytes)
    if per_tile == 0:
        return None
    shared = max(1, context.target.exchange_sharing_tiles)
    return Move(operand, per_tile / (rate * shared), mapping.tiles, per_tile, per_tile * mapping.tiles)
