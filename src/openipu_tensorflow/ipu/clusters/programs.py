"""Stages and loops of a traced computation as programs of openipu's engine.

In: ops between some tensors and others, with the rounds of a loop, the micro-batches of an update and the replicas.
Out: values, from a compiled `Step`; one is kept for each form in which it was asked for.
"""

from __future__ import annotations

import itertools
import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy

from openipu.graph import Recompute, Reduction, Strategy
from openipu_tensorflow.engine import Step, compile_step
from openipu_tensorflow.ipu.clusters.providers import Runner
from openipu_tensorflow.ipu.clusters.variables import SessionVariables
from openipu_tensorflow.ipu.configuration.devices import IpuDevice, count_configurations
from openipu_tensorflow.ipu.configuration.enums import DeviceConnectionType
from openipu_tensorflow.ipu.configuration.flags import read_flags
from openipu_tensorflow.ipu.configuration.run_options import (
    Arrangement,
    build_run_options,
    choose_machine,
    find_cache,
    find_profile,
    shows_progress,
)

LARGEST_RUN_BYTES = 128 << 20  # data of the micro-batches that go to the engine at once
_logger = logging.getLogger("openipu")
_numbers = itertools.count(1)


@dataclass(frozen=True, eq=False)
class Surroundings:
    """Where a run takes place."""

    session: Any
    run: Runner  # TensorFlow's own
    device: IpuDevice
    variables: SessionVariables
    replicas: int = 1
    name: str = "program"
    seed: int | None = None

    @property
    def computes(self) -> bool:
        """Are programs run, or only compiled?"""
        if self.device.connection is DeviceConnectionType.NEVER:
            from tensorflow.python.framework import errors

            raise errors.InvalidArgumentError(
                None,
                None,
                f"Trying to run {self.name!r} on /device:IPU:{self.device.ordinal}, whose device_connection.type is "
                "NEVER: it is configured for compilation only. Use ALWAYS or ON_DEMAND to execute.",
            )
        return self.device.connection is not DeviceConnectionType.PRE_COMPILE


@dataclass(eq=False, kw_only=True)
class Part:
    """Ops that become one program: what goes in and out of it."""

    graph: Any
    inputs: Sequence[Any] = ()  # for each micro-batch
    outputs: Sequence[Any] = ()
    targets: Sequence[Any] = ()
    carried: Sequence[tuple[Any, Any]] = ()
    fixed: Sequence[Any] = ()  # the same for all micro-batches
    gradients: dict[str, Any] = field(default_factory=dict)
    steps: dict[Any, Step] = field(default_factory=dict)
    cuts: bool = True  # at gradients; if not, each replica updates variables of its own

    @property
    def bytes_per_round(self) -> int:
        """What goes in and out for one micro-batch."""
        return sum((tensor.shape.num_elements() or 1) * tensor.dtype.size for tensor in [*self.inputs, *self.outputs])


def run_part(
    part: Part,
    around: Surroundings,
    how: Arrangement,
    feeds: Sequence[Any],
    carried: Sequence[Any] = (),
    fixed: Sequence[Any] = (),
) -> list[Any]:
    """Run a part once: `feeds` and outputs have an axis of micro-batches in front; then comes what is carried."""
    step = _find_step(part, around, how, _find_sizes(part, feeds, fixed))
    if not around.computes:
        batches = how.device_iterations * how.gradient_accumulation * how.replicas
        made = [numpy.zeros((batches, *_shape(tensor)), tensor.dtype.as_numpy_dtype) for tensor in part.outputs]
        return [*made, *carried]
    around.device.attach(step.name)
    given = {tensor.name: value for tensor, value in zip(part.fixed, fixed, strict=True)}
    step.load({**around.variables.read(around.run, step.variables), **given})
    single = how.device_iterations * how.gradient_accumulation * how.replicas == 1
    found = step.run([value[0] if single else _join(value) for value in feeds], carried)
    around.variables.write(around.run, step.read())
    outputs = [value[None] if single else value for value in found[: len(part.outputs)]]
    _log_cycles(step)
    return [*outputs, *found[len(part.outputs) :]]


def _join(value: Any) -> Any:
    """Micro-batches behind one another."""
    return numpy.reshape(value, (-1, *value.shape[2:])) if value.ndim > 1 else value


def _shape(tensor: Any) -> list[int]:
    return [int(size) for size in tensor.shape.as_list()]


def _find_sizes(part: Part, feeds: Sequence[Any], fixed: Sequence[Any]) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """Shapes of the values of tensors whose sizes are open in the graph: a program is compiled for each."""
    given = [
        *((tensor, value.shape[1:]) for tensor, value in zip(part.inputs, feeds, strict=False)),
        *((tensor, numpy.shape(value)) for tensor, value in zip(part.fixed, fixed, strict=False)),
    ]
    return tuple((tensor.name, tuple(shape)) for tensor, shape in given if not tensor.shape.is_fully_defined())


def _find_step(
    part: Part, around: Surroundings, how: Arrangement, sizes: tuple[tuple[str, tuple[int, ...]], ...]
) -> Step:
    key = (count_configurations(), around.device.resets, how, part.cuts, sizes)
    if key not in part.steps:
        config = around.device.config
        part.steps = {other: step for other, step in part.steps.items() if other[:2] == key[:2]}
        profile = find_profile(config)
        part.steps[key] = compile_step(
            part.graph,
            inputs=part.inputs,
            outputs=part.outputs,
            targets=part.targets,
            carried=part.carried,
            fixed=part.fixed,
            gradients=part.gradients,
            cuts=part.cuts,
            options=build_run_options(around.device, how),
            name=around.name,
            system=choose_machine(config),
            profile_directory=None if profile is None else _name_report(profile, around.name),
            cache_directory=find_cache(),
            show_progress=shows_progress(),
            shapes=dict(sizes),
        )
        if around.device.connection is DeviceConnectionType.PRE_COMPILE:
            _logger.info("%s has been compiled; it is kept in %s.", around.name, find_cache() or "the user's cache")
    return part.steps[key]


def _name_report(root: Path, name: str) -> Path:
    return root / f"tf_report__{name}__{os.getpid()}_{next(_numbers)}"


def _log_cycles(step: Step) -> None:
    if int(read_flags()["log_cycle_count"]) >= 0:
        _logger.warning("%s takes %d cycles, as planned.", step.name, round(step.plan.timing.call_cycles))


def arrange(
    *,
    rounds: int = 1,
    accumulation: int = 1,
    replicas: int = 1,
    training: bool = False,
    reduction: Reduction = Reduction.SUM,
    replica_reduction: Reduction | None = None,
    pipeline: Any = None,
    seed: int | None = None,
    offload_state: bool = False,
    shard_state: bool = False,
) -> Arrangement:
    """How a program is put together."""
    from openipu.graph import TensorRole
    from openipu_tensorflow.ipu.pipelines.enums import PipelineSchedule

    off_chip = () if pipeline is None else pipeline.off_chip
    shares = () if pipeline is None else pipeline.shares
    if offload_state and TensorRole.OPTIMIZER not in off_chip:
        off_chip = (*off_chip, TensorRole.OPTIMIZER)
    if shard_state and TensorRole.OPTIMIZER not in shares:
        shares = (*shares, TensorRole.OPTIMIZER)
    piped = pipeline is not None and pipeline.schedule is not PipelineSchedule.Sequential
    return Arrangement(
        training=training,
        device_iterations=rounds,
        gradient_accumulation=accumulation,
        replicas=replicas,
        reduction=reduction,
        replica_reduction=replica_reduction,
        strategy=Strategy.PIPELINED if piped else Strategy.SHARDED,
        recompute=None if training else Recompute.NONE,
        off_chip=off_chip,
        shares=shares,
        memory_proportions=() if pipeline is None else pipeline.memory_proportions,
        half_partials=pipeline is not None and pipeline.half_partials,
        random_seed=seed,
    )
