"""Old names to new: `SessionOptions` and `DataFlow` become the `RunOptions` that plan and run read.

In: options, the data flow, which output each anchor is. Out: one frozen RunOptions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import openipu.graph as graph
from openipu.environment.engine_options import EngineOptions, read_engine_options
from openipu.errors import OptionError
from openipu.numerics import Overflow
from popart._dataflow import DataFlow
from popart._enumerations.sessions import (
    RecomputationType,
    SyntheticDataMode,
    VirtualGraphMode,
)
from popart._enumerations.tensors import AnchorReturnTypeId, ReplicatedTensorSharding, TensorStorage, TileSet
from popart._enumerations.training import MeanReductionStrategy, ReductionType
from popart._exceptions import popart_exception, poplar_exception
from popart._option_groups import TensorLocationSettings
from popart._options import SessionOptions

MODES = {
    AnchorReturnTypeId.All: graph.OutputMode.ALL,
    AnchorReturnTypeId.Final: graph.OutputMode.FINAL,
    AnchorReturnTypeId.EveryN: graph.OutputMode.EVERY_N,
    AnchorReturnTypeId.Sum: graph.OutputMode.SUM,
}
RECOMPUTATIONS = {
    RecomputationType.NoRecompute: graph.Recompute.NONE,
    RecomputationType.Standard: graph.Recompute.STANDARD,
    RecomputationType.NormOnly: graph.Recompute.NORM_ONLY,
    RecomputationType.Pipeline: graph.Recompute.PIPELINE,
    RecomputationType.RecomputeAll: graph.Recompute.ALL,
}
ROLES = {
    "activationTensorLocationSettings": graph.TensorRole.ACTIVATION,
    "weightTensorLocationSettings": graph.TensorRole.WEIGHT,
    "optimizerStateTensorLocationSettings": graph.TensorRole.OPTIMIZER,
    "accumulatorTensorLocationSettings": graph.TensorRole.ACCUMULATOR,
}


def count_replicas(options: SessionOptions) -> int:
    """Replicas of this process."""
    return int(options.replicatedGraphCount) if options.enableReplicatedGraphs else 1


def count_instances(options: SessionOptions) -> int:
    """Processes of the job."""
    if not options.enableDistributedReplicatedGraphs:
        return 1
    own = count_replicas(options)
    everywhere = int(options.globalReplicationFactor)
    if everywhere % own:
        raise popart_exception(
            f"globalReplicationFactor ({everywhere}) must be a multiple of the replicas of each process ({own})."
        )
    return everywhere // own


def choose_strategy(options: SessionOptions) -> graph.Strategy:
    """How IPUs take turns."""
    if options.enablePipelining:
        return graph.Strategy.PIPELINED
    if options.virtualGraphMode is VirtualGraphMode.ExecutionPhases:
        two = options.executionPhaseSettings.stages == 2
        return graph.Strategy.PARALLEL_PHASES if two else graph.Strategy.SERIAL_PHASES
    return graph.Strategy.SHARDED


def build_run_options(
    options: SessionOptions, flow: DataFlow, training: bool, leaves: Mapping[str, int], seed: int, **others: Any
) -> graph.RunOptions:
    """One frozen RunOptions. `leaves`: the output that each anchor is."""
    engine = read_engine(options)
    values: dict[str, Any] = {
        "training": training,
        "device_iterations": max(1, flow.batchesPerStep()),
        "gradient_accumulation": int(options.accumulationFactor) if training else 1,
        "replicas": count_replicas(options),
        "instances": count_instances(options) if training else 1,
        "reduction": choose_reduction(options),
        "replica_reduction": _choose_replica_reduction(options),
        "output_choices": tuple(_choose_output(flow, name, leaf) for name, leaf in leaves.items()),
        "half_partials": str(options.partialsTypeMatMuls).lower() == "half",
        "stochastic_rounding": bool(options.enableStochasticRounding),
        "half_overflow": _choose_overflow(engine),
        "io_tiles": int(getattr(options.numIOTiles, "value", options.numIOTiles)),
        "random_seed": seed,
        "strategy": choose_strategy(options),
        "continuous": bool(training and options.enablePipelining and not options.enableGradientAccumulation),
        "recompute": RECOMPUTATIONS[options.autoRecomputation],
        "locations": _choose_locations(options),
        "synthetic_data": options.syntheticDataMode is not SyntheticDataMode.Off,
        "floating_point_exceptions": bool(options.enableFloatingPointChecks),
        "broadcast_buffers": False,  # each replica keeps its statistics, as PopART's do
        **others,
    }
    return graph.RunOptions(**values)


def choose_reduction(options: SessionOptions) -> graph.Reduction:
    """How gradients of accumulation steps are combined."""
    if options.accumulationAndReplicationReductionType is ReductionType.Sum:
        return graph.Reduction.SUM
    if options.accumulationAndReplicationReductionType is not ReductionType.Mean:
        raise popart_exception("accumulationAndReplicationReductionType is Sum or Mean.")
    running = options.meanAccumulationAndReplicationReductionStrategy is MeanReductionStrategy.Running
    return graph.Reduction.RUNNING_MEAN if running else graph.Reduction.MEAN


def _choose_replica_reduction(options: SessionOptions) -> graph.Reduction:
    summed = options.accumulationAndReplicationReductionType is ReductionType.Sum
    return graph.Reduction.SUM if summed else graph.Reduction.MEAN


def read_engine(options: SessionOptions) -> EngineOptions:
    """The engine's options, checked."""
    try:
        return read_engine_options(options.engineOptions)
    except OptionError as error:
        unknown = re.search(r"there is no option (\S+?)\.? ", str(error))
        ending = f" Unrecognised option '{unknown[1]}'" if unknown else ""
        raise poplar_exception(f"{error}{ending}") from error


def _choose_output(flow: DataFlow, name: str, leaf: int) -> graph.OutputChoice:
    kind = flow.art(name)
    period = kind.rp() if kind.id() is AnchorReturnTypeId.EveryN else 1
    return graph.OutputChoice(leaf, MODES[kind.id()], period)


def _choose_overflow(engine: EngineOptions) -> Overflow:
    wished = engine.values.get("debug.nanOverflowMode")
    if wished is None:
        return Overflow.INFINITY
    return Overflow.NAN if wished else Overflow.SATURATE


def _choose_locations(options: SessionOptions) -> tuple[tuple[graph.TensorRole, graph.TensorLocation], ...]:
    found = []
    for name, role in ROLES.items():
        given: TensorLocationSettings = getattr(options, name)
        place = given.location
        found.append(
            (
                role,
                graph.TensorLocation(
                    on_chip=place.storage is TensorStorage.OnChip,
                    replicated_sharding=place.replicatedTensorSharding is ReplicatedTensorSharding.On,
                    minimum_off_chip_elements=given.minElementsForOffChip,
                    minimum_sharded_elements=given.minElementsForReplicatedTensorSharding,
                    io_tiles_load=place.loadTileSet is TileSet.IO,
                    io_tiles_store=place.storageTileSet is TileSet.IO,
                ),
            )
        )
    usual = graph.TensorLocation()
    return tuple((role, place) for role, place in found if place != usual)
