"""A compiled computation of a graph: runs when a session asks for its results.

In: the level that was traced, the values of what it needs from outside. Out: values of its results; variables of the
session have changed, and outfeeds hold what was enqueued.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy

from openipu_tensorflow.graphs.places import SHARD, STAGE
from openipu_tensorflow.ipu.clusters.executing import LevelRunner, Round
from openipu_tensorflow.ipu.clusters.preparing import Prepared, prepare_level
from openipu_tensorflow.ipu.clusters.programs import Surroundings
from openipu_tensorflow.ipu.clusters.providers import Runner
from openipu_tensorflow.ipu.clusters.tracing import Level
from openipu_tensorflow.ipu.clusters.variables import SessionVariables
from openipu_tensorflow.ipu.configuration.devices import IpuDevice, find_device
from openipu_tensorflow.ipu.sharding import get_sharding, has_attr


class Cluster:
    """The results of one `ipu_compiler.compile`."""

    def __init__(self, graph: Any, level: Level, outputs: Sequence[Any], device: str, name: str) -> None:
        self._level, self.outputs, self._device, self._name = level, outputs, device, name
        self._prepared: Prepared = prepare_level(graph, level)
        passed = [tensor for tensor in level.outputs if tensor.name not in self._made()]
        found = {tensor.name: tensor for tensor in [*self._prepared.captures, *passed]}
        self.inputs: Sequence[Any] = list(found.values())
        place_gradients(graph.get_operations()[level.start : level.end])
        handles = {op.name: op for op in _list_ops(self._prepared) if op.type == "VarHandleOp"}
        self._variables = SessionVariables(graph, handles.values())

    def _made(self) -> set[str]:
        made = {tensor.name for stage in self._prepared.stages for op in stage.ops for tensor in op.outputs}
        for item in self._prepared.items:
            made |= {tensor.name for tensor in item.results}
        for _, tensors in self._level.infeeds:
            made |= {tensor.name for tensor in tensors}
        return made

    def provide(self, session: Any, run: Runner, values: Sequence[Any]) -> Sequence[Any]:
        fault = self._level.marks.get("fault")
        if fault is not None:
            raise fault
        known = {tensor.name: numpy.asarray(value) for tensor, value in zip(self.inputs, values, strict=True)}
        place = self._device or "/device:IPU:0"
        return run_prepared(self._prepared, known, session, run, place, self._variables, self._name)


def run_prepared(
    prepared: Prepared,
    known: dict[str, Any],
    session: Any,
    run: Runner,
    place: str,
    variables: SessionVariables,
    name: str,
) -> list[Any]:
    """Values of a level's outputs, by those of what it needs; replicas get the same, and the first counts."""
    device = find_device(place)
    replicas = count_replicas(device, prepared)
    around = Surroundings(session, run, device, variables, replicas, name, device.seed)
    return LevelRunner(around).run(prepared, [known] * replicas, Round())[0]


def count_replicas(device: IpuDevice, prepared: Prepared) -> int:
    """The IPUs of a device over those that the program is sharded over."""
    used_by_ops = (shard for op in _list_ops(prepared) for shard in get_sharding(op) or ())
    shards = 1 + max([0, *used_by_ops, *_list_stages(prepared)])
    used = 1 << (shards - 1).bit_length()
    if used > device.ipus:
        if shards <= device.ipus:
            return 1
        raise ValueError(
            f"The program uses {shards} shards, and /device:IPU:{device.ordinal} has {device.ipus} IPUs. Set "
            f"auto_select_ipus of the IPUConfig to {used}, or use fewer shards."
        )
    return device.ipus // used


def _list_ops(prepared: Prepared) -> Iterator[Any]:
    for stage in prepared.stages:
        yield from stage.ops
    for levels in prepared.inner.values():
        for level in levels:
            yield from _list_ops(level)


def _list_stages(prepared: Prepared) -> Iterator[int]:
    """The IPUs of all stages of pipelines, those without any op of their own included."""
    options = prepared.level.marks.get("pipeline")
    for place in () if options is None else options.devices:
        yield from place if isinstance(place, (list, tuple)) else [place]
    for levels in prepared.inner.values():
        for level in levels:
            yield from _list_stages(level)


def place_gradients(made: Sequence[Any]) -> None:
    """Ops of gradients are on the shard, and in the stage, of the op that they differentiate."""
    for op in made:
        forward = getattr(op, "_original_op", None)
        if forward is None:
            continue
        for name in (SHARD, STAGE):
            if has_attr(forward, name) and (name == SHARD or not has_attr(op, name)):
                op._set_attr(name, forward.node_def.attr[name])
