"""The loops of batch serialisation: load a micro-batch, compute, store, for as many as there are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import popxl
from popxl import HostToDeviceStream, ReplicaGrouping, Tensor, ops
from popxl_addons.graph import GraphWithNamedArgs
from popxl_addons.rts import gather_replica_sharded_tensor
from popxl_addons.utils import null_context, suffix_graph_name

__all__ = ["BatchSerialLoop", "RemoteHandle"]


@dataclass
class RemoteHandle:
    """Where a tensor is in a remote buffer of ``steps`` columns: the row that belongs to row 0 of a call.

    ``row_offset`` is added to the row of the call; a function maps it; ``None`` means the first row whatever the call
    says. ``shard_group``: the buffer holds shards over these replicas.
    """

    buffer: popxl.RemoteBuffer
    row_offset: int | Callable[[Tensor], Tensor] | None = 0
    shard_group: ReplicaGrouping | None = None

    def find_entry(self, index: Tensor, steps: int) -> Tensor:
        """The entry for ``row * steps + micro-batch``."""
        if self.row_offset is None:
            return index % steps
        if callable(self.row_offset):
            return self.row_offset(index / popxl.constant(steps, index.dtype)) * steps + index % steps
        return index + self.row_offset * steps if self.row_offset else index

    def make_room(self, steps: int, rows: int) -> None:
        """Have the buffer hold all entries that a loop reaches."""
        if self.row_offset is None:
            rows = 1
        elif not callable(self.row_offset):
            rows += self.row_offset
        self.buffer.entries = max(self.buffer.entries, steps * rows)

    @property
    def is_sharded(self) -> bool:
        """Whether it holds shards."""
        return self.shard_group is not None and self.shard_group.group_size > 1


@dataclass(frozen=True)
class BatchSerialLoop:
    """A graph, and where its inputs come from and its outputs go to.

    Keys are tensors of the graph. Inputs without a source stay inputs; outputs without a destination are dropped.
    """

    graph: GraphWithNamedArgs
    steps: int
    rows: int
    sources: Mapping[Tensor, HostToDeviceStream | RemoteHandle]
    streams: Mapping[Tensor, popxl.DeviceToHostStream]
    buffers: Mapping[Tensor, RemoteHandle]
    seed_input: Tensor | None
    use_io_tiles: bool

    @property
    def loaded(self) -> list[Tensor]:
        """Inputs that are loaded."""
        return [t for t in self.graph.graph.inputs if t in self.sources]

    @property
    def passed(self) -> list[Tensor]:
        """Inputs that stay the same for all micro-batches."""
        return [t for t in self.graph.graph.inputs if t not in self.sources and t is not self.seed_input]

    @property
    def stored(self) -> list[tuple[Tensor, popxl.DeviceToHostStream | RemoteHandle]]:
        """Inputs and outputs that are stored, and where; what was loaded from a remote buffer is there already."""
        graph = self.graph.graph
        own = dict.fromkeys([*graph.inputs, *graph.outputs])
        there = {t for t, source in self.sources.items() if isinstance(source, RemoteHandle)}
        return [(t, to[t]) for t in own if t not in there for to in (self.streams, self.buffers) if t in to]

    def build(self, overlapped: bool) -> tuple[popxl.Graph, dict[Tensor, Tensor]]:
        """The graph of the loop, whose first input is the row; and the given graph's inputs to those that it kept."""
        for handle in [*self.sources.values(), *self.buffers.values()]:
            if isinstance(handle, RemoteHandle):
                handle.make_room(self.steps, self.rows)
        whole = self.graph.graph.ir.create_empty_graph(suffix_graph_name(self.graph.graph.name, "_repeat_graph"))
        with whole, popxl.in_sequence(True):
            index = popxl.graph_input([], popxl.int32, "batch_serial_loop_index")
            seed = None
            if self.seed_input is not None:
                seed = popxl.graph_input((2,), popxl.uint32, "batch_serial_random_seed")
            passed = self._add_passed()
            with self._tiles():
                if self.use_io_tiles:
                    index = ops.io_tile_copy(index)
                index = index * self.steps
            if overlapped:
                self._run_overlapped(index, seed, passed)
            else:
                self._run_in_turn(index, seed, passed)
        return whole, dict(zip(self.passed, passed, strict=True))

    # One after the other

    def _run_in_turn(self, index: Tensor, seed: Tensor | None, passed: list[Tensor]) -> None:
        def step(index: Tensor, seed: Tensor | None, carried: list[Tensor], passed: list[Tensor]) -> list[Tensor]:
            now, later = _split(seed)
            places = self._find_sources(index), self._find_targets(index)
            inputs = self._to_compute(self._gather(self._load(places[0])))
            outputs = self._cut(self._to_io(self._compute(inputs, passed, now)))
            self._store(places[1], outputs)
            return [*self._next(index), *later]

        self._repeat(step, self.steps, index, seed, [], passed)

    # Loads of the next and stores of the last micro-batch while this one is computed

    def _run_overlapped(self, index: Tensor, seed: Tensor | None, passed: list[Tensor]) -> None:
        def step(index: Tensor, seed: Tensor | None, carried: list[Tensor], passed: list[Tensor]) -> list[Tensor]:
            now, later = _split(seed)
            inputs, outputs = carried[:count], carried[count:]
            places = self._find_sources(index), self._find_targets(self._back(index, 2))
            with popxl.transforms.io_tile_exchange():
                following = self._load(places[0])
                self._store(places[1], outputs)
            made = self._compute(inputs, passed, now)
            following = self._to_compute(self._gather(following))
            return [*self._next(index), *later, *following, *self._cut(self._to_io(made))]

        count = len(self.loaded)
        first = self._to_compute(self._gather(self._load(self._find_sources(index))))
        (index,) = self._next(index)
        now, later = _split(seed)
        sources = self._find_sources(index)
        with popxl.transforms.io_tile_exchange():
            following = self._load(sources)
        made = self._cut(self._to_io(self._compute(first, passed, now)))
        following = self._to_compute(self._gather(following))
        (index,) = self._next(index)
        seed = later[0] if later else None
        if self.steps > 2:
            index, *rest = self._repeat(step, self.steps - 2, index, seed, [*following, *made], passed)
            if seed is not None:
                seed, *rest = rest
            following, made = rest[:count], rest[count:]
        now, _ = _split(seed)
        targets = self._find_targets(self._back(index, 2))
        with popxl.transforms.io_tile_exchange():
            self._store(targets, made)
        last = self._cut(self._to_io(self._compute(following, passed, now)))
        self._store(self._find_targets(self._back(index, 1)), last)

    def _repeat(
        self,
        step: Callable[[Tensor, Tensor | None, list[Tensor], list[Tensor]], list[Tensor]],
        times: int,
        index: Tensor,
        seed: Tensor | None,
        carried: Sequence[Tensor],
        passed: list[Tensor],
    ) -> list[Tensor]:
        """Repeat a step: index, seed and what is carried go from pass to pass."""
        body = popxl.gcg().ir.create_empty_graph(suffix_graph_name(self.graph.graph.name, "step"))
        with body, popxl.in_sequence(True):
            inner_index = _like(index, False)
            inner_seed = _like(seed, False) if seed is not None else None
            inner_carried = [_like(t, False) for t in carried]
            for t in step(inner_index, inner_seed, inner_carried, self._add_passed()):
                popxl.graph_output(t)
        seeds = [] if seed is None else [seed]
        return list(ops.repeat(body, times, index, *seeds, *carried, *passed))

    # Parts of a step

    def _add_passed(self) -> list[Tensor]:
        by_ref = self.graph.graph._by_ref_inputs
        return [_like(t, t in by_ref) for t in self.passed]

    def _tiles(self) -> AbstractContextManager[object]:
        return popxl.io_tiles() if self.use_io_tiles else null_context()

    def _next(self, index: Tensor) -> tuple[Tensor]:
        with self._tiles():
            return (index + 1,)

    def _back(self, index: Tensor, count: int) -> Tensor:
        with self._tiles():
            return index - count

    def _to_compute(self, ts: list[Tensor]) -> list[Tensor]:
        return [ops.io_tile_copy(t) for t in ts] if self.use_io_tiles else ts

    _to_io = _to_compute  # a copy goes to whichever tiles the tensor is not on

    def _find_sources(self, index: Tensor) -> list[tuple[HostToDeviceStream | popxl.RemoteBuffer, Tensor | None]]:
        """For each input that is loaded: the stream, or the buffer and its entry."""
        return self._find_entries([self.sources[t] for t in self.loaded], index)

    def _find_targets(self, index: Tensor) -> list[tuple[popxl.DeviceToHostStream | popxl.RemoteBuffer, Tensor | None]]:
        """For each tensor that is stored: the stream, or the buffer and its entry."""
        return self._find_entries([target for _, target in self.stored], index)

    def _find_entries(self, handles: Sequence[Any], index: Tensor) -> list[tuple[Any, Tensor | None]]:
        with self._tiles():
            return [
                (handle.buffer, handle.find_entry(index, self.steps))
                if isinstance(handle, RemoteHandle)
                else (handle, None)
                for handle in handles
            ]

    def _load(self, sources: Sequence[tuple[Any, Tensor | None]]) -> list[Tensor]:
        with self._tiles(), popxl.transforms.merge_exchange(), popxl.in_sequence(False):
            return [
                ops.host_load(source, t.name) if entry is None else ops.remote_load(source, entry, t.name)
                for t, (source, entry) in zip(self.loaded, sources, strict=True)
            ]

    def _gather(self, ts: list[Tensor]) -> list[Tensor]:
        """The wholes of what was loaded as shards."""
        with self._tiles():
            return [
                gather_replica_sharded_tensor(t, replica_group=source.shard_group)
                if isinstance(source := self.sources[inner], RemoteHandle) and source.is_sharded
                else t
                for inner, t in zip(self.loaded, ts, strict=True)
            ]

    def _compute(self, inputs: list[Tensor], passed: list[Tensor], seed: Tensor | None) -> list[Tensor]:
        """Call the graph; what is to be stored."""
        given = dict(zip([*self.loaded, *self.passed], [*inputs, *passed], strict=True))
        if self.seed_input is not None and seed is not None:
            given[self.seed_input] = seed
        site = self.graph.call_with_info(args=given)
        return [site.graph_to_parent(t) for t, _ in self.stored]

    def _cut(self, ts: list[Tensor]) -> list[Tensor]:
        """Shards of what is stored as such."""
        with self._tiles():
            return [
                ops.collectives.replica_sharded_slice(t, group=target.shard_group)
                if isinstance(target, RemoteHandle) and target.is_sharded
                else t
                for (_, target), t in zip(self.stored, ts, strict=True)
            ]

    def _store(self, targets: Sequence[tuple[Any, Tensor | None]], ts: Sequence[Tensor]) -> None:
        with self._tiles(), popxl.transforms.merge_exchange(), popxl.in_sequence(False):
            for (target, entry), t in zip(targets, ts, strict=True):
                if entry is None:
                    ops.host_store(target, t)
                else:
                    ops.remote_store(target, entry, t)


def _split(seed: Tensor | None) -> tuple[Tensor | None, list[Tensor]]:
    """The seed of this micro-batch, and that of the following ones."""
    if seed is None:
        return None, []
    now, later = ops.split_random_seed(seed)
    return now, [later]


def _like(t: Tensor, by_ref: bool) -> Tensor:
    return popxl.graph_input(t.shape, t.dtype, t.name, by_ref, t.meta_shape)
