"""The list of tasks, and what it takes to have every operand at hand: copies between IPUs, loads, stores, gathers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from openipu.graph import Note, Phase, RunOptions
from openipu.machine import System
from openipu.ops import LOAD, STORE
from openipu.ops.cost import OpCost, Operand, OpSite
from openipu.plan.lowering import transfers
from openipu.plan.residence import REMOTE, find_residence, shard_operand
from openipu.plan.types import VariableKind
from openipu.plan.work import Place, Storage, Task, Value

_DUPLICATED = (VariableKind.CONSTANT, VariableKind.STREAM)  # each IPU has its own from the start


class TaskList:
    """Tasks in order. Adding one first brings its operands to its IPU."""

    def __init__(self, options: RunOptions, system: System, ipus: int) -> None:
        self.options = options
        self.system = system
        self.ipus = ipus  # of one replica
        self.replicas = options.replicas * options.instances
        self.tasks: list[Task] = []
        self.storages: list[Storage] = []
        self.local: dict[tuple[int, int, Phase | None], Storage] = {}  # what was brought where
        self.parked: set[int] = set()  # activations that wait off chip for backward

    # ------------------------------------------------------------------------------------------------ storage

    def new_storage(self, name: str, kind: VariableKind, operand: Operand) -> Storage:
        storage = Storage(name, kind, operand)
        self.storages.append(storage)
        return storage

    def new_variable(self, name: str, kind: VariableKind, operand: Operand) -> Storage:
        """A variable where the user's tensor locations put it."""
        residence = find_residence(kind, operand, self.options)
        if kind is VariableKind.BUFFER and name in self.options.remote_buffers:
            residence = REMOTE
        storage = self.new_storage(name, kind, shard_operand(operand, residence.shards))
        storage.residence, storage.whole = residence, operand
        return storage

    # ------------------------------------------------------------------------------------------------ tasks

    def add(
        self,
        name: str,
        site: OpSite,
        note: Note,
        place: Place,
        reads: tuple[Value, ...],
        writes: tuple[Value, ...],
        cost: OpCost | None = None,
    ) -> None:
        at_hand = tuple(self._bring(value, note, place) for value in reads)
        index = len(self.tasks)
        for value in at_hand:
            value.storage.last_reader = index
        for value in writes:
            if value.storage.writer is None:
                value.storage.writer = index
            value.storage.place = value.storage.place or place
        self.tasks.append(Task(index, name, site, note, place, at_hand, writes, cost))

    def accumulate(self, name: str, value: Value, owner: Storage | None, note: Note, place: Place) -> Value:
        """Add a gradient to its accumulator."""
        accumulator = self.new_variable(f"accumulator:{name}", VariableKind.ACCUMULATOR, value.operand)
        accumulator.owner, accumulator.place = owner, place
        if owner is not None and owner.operand == accumulator.operand:
            accumulator.like = owner
        total = Value(accumulator, value.operand)
        site = OpSite("aten.add.Tensor", (value.operand, value.operand), {}, (value.operand,), backward=True)
        self.add(f"accumulate {name}", site, note, place, (total, value), (total,))
        self._store(total, note, place)
        return total

    def overwrite(self, destination: Storage, value: Value, note: Note) -> None:
        """A new value of a variable: over the old one, or back to where it is kept."""
        source = value.storage
        if source is destination or source.always_live or source.residence.entries:
            return
        place = source.place or Place(destination.ipu, 0, Phase.UPDATE)
        if destination.residence.off_chip:
            self._store(Value(destination, value.operand), note, place, source=value)
            return
        if destination.kind is VariableKind.PARAMETER and source.operand.elements < destination.operand.elements:
            full = Value(destination, value.operand)
            cost = transfers.cost_gather(destination.operand.bytes, self.replicas, self.ipus, self.system)
            self._transfer(transfers.GATHER, full, note, place, (value,), (full,), cost)
            return
        fits = source.operand.bytes == destination.operand.bytes and not value.view and source.reuses is None
        is_free = source.writer is not None and destination.last_reader <= source.writer
        if fits and is_free and not source.streamed_out:
            source.reuses = destination
            return
        written = Value(destination, destination.operand)
        site = OpSite("aten.copy.default", (destination.operand, value.operand), {}, (destination.operand,))
        self.add(f"write {destination.name}", site, note, place, (written, value), (written,))

    def park(self, value: Value, note: Note, place: Place) -> None:
        """Send an activation off chip, if activations are kept there, until backward asks for it."""
        storage = value.storage
        if storage.always_live or not find_residence(VariableKind.ACTIVATION, value.operand, self.options).off_chip:
            return
        self.parked.add(id(storage))
        cost = transfers.cost_off_chip(STORE, storage.operand.bytes, self.system)
        self._transfer(STORE, value, note, place, (value,), (), cost)

    def load_entry(self, name: str, buffer: Value, operand: Operand, note: Note, place: Place) -> Value:
        """Some entries of a remote buffer, on chip."""
        storage = self.new_storage(name, VariableKind.ACTIVATION, operand)
        storage.place, entry = place, Value(storage, operand)
        cost = transfers.cost_off_chip(LOAD, operand.bytes, self.system)
        self._transfer(LOAD, entry, note, place, (buffer,), (entry,), cost)
        return entry

    def store_entry(self, entry: Value, note: Note, place: Place) -> None:
        """Some entries of a remote buffer, replaced."""
        entry = self._bring(entry, note, place)
        cost = transfers.cost_off_chip(STORE, entry.operand.bytes, self.system)
        self._transfer(STORE, entry, note, place, (entry,), (), cost)

    def count_stashes(self, last_stage: int) -> None:
        """What backward reads of forward is kept for each micro-batch that is on its way to the last stage and back."""
        for task in self.tasks:
            if task.place.phase is not Phase.BACKWARD:
                continue
            for value in task.reads:
                storage = value.storage.root
                made = storage.place
                if storage.always_live or made is None or made.phase is not Phase.FORWARD:
                    continue
                storage.stash_copies = max(storage.stash_copies, 2 * (last_stage - task.place.stage))

    # ------------------------------------------------------------------------------------------------ updates

    def find_owner(self, reads: Sequence[Value]) -> Storage | None:
        """The parameter that an op of the update works for."""
        for value in reads:
            storage = value.storage
            if storage.kind is VariableKind.PARAMETER:
                return storage
            if storage.owner is not None:
                return storage.owner
        return None

    def find_update_place(self, reads: Sequence[Value]) -> Place:
        """An update runs where its parameter lives."""
        owner = self.find_owner(reads)
        placed = [value.storage for value in reads if value.storage.place is not None]
        source = owner or (placed[0] if placed else None)
        stage = source.place.stage if source is not None and source.place is not None else 0
        return Place(source.ipu if source is not None else 0, stage, Phase.UPDATE)

    def shard_update(self, site: OpSite, owner: Storage | None) -> OpSite:
        """With replicated tensor sharding of the optimizer, each replica updates its own share."""
        if owner is None:
            return site
        states = find_residence(VariableKind.STATE, owner.operand, self.options)
        if states.shards <= 1:
            return site
        elements = owner.operand.elements

        def shrink(argument: Any) -> Any:
            if isinstance(argument, Operand) and argument.elements == elements:
                return shard_operand(argument, states.shards)
            if isinstance(argument, list | tuple):
                return type(argument)(shrink(part) for part in argument)
            return argument

        kwargs = {key: shrink(argument) for key, argument in site.kwargs.items()}
        return OpSite(site.op, shrink(site.args), kwargs, shrink(site.outputs), site.backward)

    # ------------------------------------------------------------------------------------------------ transfers

    def _bring(self, value: Value, note: Note, place: Place) -> Value:
        storage = value.storage
        if storage.place is None:  # a variable settles where it is first used
            owner = storage.owner
            storage.place = owner.place if owner is not None and owner.place is not None else place
        parked = id(storage) in self.parked and place.phase is Phase.BACKWARD
        elsewhere = storage.root.ipu != place.ipu
        if parked or elsewhere or storage.residence.off_chip or self._is_gathered(storage, place):
            return self._fetch(value, note, place)
        return value

    def _fetch(self, value: Value, note: Note, place: Place) -> Value:
        """A local copy: made once, and again in each phase where it does not stay on chip."""
        storage = value.storage
        away = storage.residence.off_chip or id(storage) in self.parked
        gathers = self._is_gathered(storage, place)
        key = (id(storage), place.ipu, place.phase if away or gathers else None)
        if key not in self.local:
            duplicate = not away and storage.kind in _DUPLICATED
            kind = storage.kind if duplicate else VariableKind.ACTIVATION
            size = storage.whole if gathers and storage.whole is not None else storage.operand
            local = self.local[key] = self.new_storage(storage.name, kind, size)
            local.place, local.owner = place, storage.owner
            if not duplicate:
                brought = Value(local, size)
                costs = []
                if away:
                    costs.append(transfers.cost_off_chip(LOAD, storage.operand.bytes, self.system))
                if gathers:
                    costs.append(transfers.cost_gather(size.bytes, self.replicas, self.ipus, self.system))
                if not costs:
                    costs.append(transfers.cost_copy(size.bytes, storage.root.ipu, place.ipu, self.system))
                how = LOAD if away else transfers.GATHER if gathers else transfers.COPY
                reads = (Value(storage, storage.operand),)
                self._transfer(how, brought, note, place, reads, (brought,), transfers.join_costs(costs))
        return Value(self.local[key], value.operand, value.view)

    def _is_gathered(self, storage: Storage, place: Place) -> bool:
        sharded = storage.kind is VariableKind.PARAMETER and storage.residence.shards > 1
        return sharded and place.phase is not Phase.UPDATE

    def _store(self, value: Value, note: Note, place: Place, source: Value | None = None) -> None:
        """Write a variable back to where it is kept, if that is off chip."""
        if not value.storage.residence.off_chip:
            return
        local = source or Value(self.local[id(value.storage), place.ipu, place.phase], value.operand)
        cost = transfers.cost_off_chip(STORE, local.storage.operand.bytes, self.system)
        self._transfer(STORE, local, note, place, (local,), (), cost)

    def _transfer(
        self,
        how: str,
        value: Value,
        note: Note,
        place: Place,
        reads: tuple[Value, ...],
        writes: tuple[Value, ...],
        cost: OpCost,
    ) -> None:
        site = OpSite(how, (value.storage.operand,), {}, tuple(part.storage.operand for part in writes))
        index = len(self.tasks)
        if how != LOAD:  # a load reads the copy off chip: the one on chip is long gone
            for part in reads:
                part.storage.last_reader = index
        for part in writes:
            if part.storage.writer is None:
                part.storage.writer = index
        self.tasks.append(Task(index, value.storage.name, site, note, place, reads, writes, cost))
