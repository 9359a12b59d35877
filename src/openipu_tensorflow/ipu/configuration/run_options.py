"""An `IPUConfig` as what the core understands.

In: a device with its configuration, and how a program is put together. Out: `RunOptions`, the machine to plan for, and
the places of profile and cache. What each option becomes stands in `effects.py`.
"""

from __future__ import annotations

import dataclasses
import difflib
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openipu.environment.engine_options import read_engine_options
from openipu.graph import Recompute, Reduction, RunOptions, Strategy, TensorLocation, TensorRole
from openipu.machine import System, resolve_system
from openipu.numerics import Overflow
from openipu_tensorflow.ipu.configuration.devices import IpuDevice
from openipu_tensorflow.ipu.configuration.enums import DeviceConnectionType, StochasticRoundingBehaviour
from openipu_tensorflow.ipu.configuration.flags import SyntheticDataCategory, read_flags, running_on_ipu_model
from openipu_tensorflow.ipu.configuration.message import read_flags as read_library_options
from openipu_tensorflow.ipu.configuration.message import read_rounding

if TYPE_CHECKING:
    from openipu_tensorflow.ipu.configuration.tree import IPUConfig

_MACHINES = {"ipu1": "c2-8", "ipu21": "c600"}  # ipu2 is the default machine
_PROPORTION, _PARTIALS = "availableMemoryProportion", "partialsType"
_LIBRARY_OPTIONS: Mapping[str, tuple[str, ...]] = {
    "convolutions": (_PROPORTION, _PARTIALS, "pass", "use128BitConvUnitLoad", "planConstraints", "enableFastReduce"),
    "matmuls": (_PROPORTION, _PARTIALS, "fullyConnectedPass", "inputRHSIsPreArranged", "use128BitConvUnitLoad"),
    "slices": (_PROPORTION, "usedForSLICE", "usedForUpdate", "planMinimisationTarget"),
    "pooling": ("poolUseIntrospectiveMapping", "optimizeForSpeed"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrangement:
    """How one program is put together: what its own API says, beside the configuration."""

    training: bool = False
    device_iterations: int = 1
    gradient_accumulation: int = 1
    replicas: int = 1
    reduction: Reduction = Reduction.SUM
    replica_reduction: Reduction | None = None
    strategy: Strategy = Strategy.SHARDED
    recompute: Recompute | None = None
    off_chip: tuple[TensorRole, ...] = ()
    shares: tuple[TensorRole, ...] = ()  # each replica keeps one share of them
    memory_proportions: tuple[tuple[int, float], ...] = ()
    half_partials: bool = False
    random_seed: int | None = None


def build_run_options(device: IpuDevice, how: Arrangement) -> RunOptions:
    """The core's options for a program on a device."""
    config = device.config
    _refuse(config, how)
    libraries = {name: _read_library(config, name) for name in _LIBRARY_OPTIONS}
    products = [libraries["matmuls"], libraries["convolutions"]]
    proportions = [found for entry in products if (found := read_proportion(entry)) is not None]
    behaviour = config.floating_point_behaviour
    everything = behaviour.set_all
    return RunOptions(
        training=how.training,
        device_iterations=how.device_iterations,
        gradient_accumulation=how.gradient_accumulation,
        replicas=how.replicas,
        instances=1 if how.training and how.replica_reduction is None else count_instances(config),
        reduction=how.reduction,
        replica_reduction=how.replica_reduction,
        half_partials=how.half_partials or any(wants_half_partials(entry) for entry in products),
        stochastic_rounding=everything or read_rounding(behaviour.esr) is not StochasticRoundingBehaviour.OFF,
        half_overflow=Overflow.NAN if everything or behaviour.nanoo else Overflow.SATURATE,
        floating_point_exceptions=everything or behaviour.inv or behaviour.div0 or behaviour.oflo,
        available_memory_proportion=min(proportions, default=0.6),
        memory_proportions=how.memory_proportions,
        io_tiles=config.io_tiles.num_io_tiles,
        overlapped_io=config.io_tiles.place_ops_on_io_tiles,
        random_seed=how.random_seed,
        broadcast_buffers=False,
        strategy=how.strategy,
        recompute=_choose_recomputation(config, how),
        locations=_list_locations(config, how),
        synthetic_data=SyntheticDataCategory.Infeed in read_flags().categories,
    )


def _refuse(config: IPUConfig, how: Arrangement) -> None:
    if how.replicas > 1 and config.norms.experimental.distributed_batch_norm_replica_group_size > 1:
        raise NotImplementedError(
            "norms.experimental.distributed_batch_norm_replica_group_size is more than 1: statistics of a batch norm "
            "over several replicas are not computed here. Leave it at 1, or use one replica."
        )


def count_instances(config: IPUConfig) -> int:
    """Processes that share every update."""
    return max(1, int(config.experimental.multi_replica_distribution.process_count))


def _read_library(config: IPUConfig, category: str) -> dict[str, str]:
    return check_library(f"{category}.poplar_options", category, getattr(config, category).poplar_options)


def check_library(title: str, category: str, options: Mapping[Any, Any]) -> dict[str, str]:
    """Options of a library, from the configuration or of a stage; a name that is nearly a known one is an error."""
    given, known = read_library_options(title, options), _LIBRARY_OPTIONS[category]
    for name in given:
        near = difflib.get_close_matches(name, known, 1, cutoff=0.85)
        if name not in known and near:
            raise ValueError(f"{title} has {name!r}. Did you mean {near[0]!r}?")
    if given.get(_PARTIALS, "float") not in ("float", "half"):
        raise ValueError(f"{title}: {_PARTIALS} is {given[_PARTIALS]!r}; it is 'float' or 'half'.")
    read_proportion(given)
    return given


def wants_half_partials(given: Mapping[str, str]) -> bool:
    """Do options of a library ask for sums in half?"""
    return given.get(_PARTIALS) == "half"


def read_proportion(given: Mapping[str, str]) -> float | None:
    """The share of memory that options of a library give to products, if they do."""
    if _PROPORTION not in given:
        return None
    try:
        found = float(given[_PROPORTION])
    except ValueError:
        found = -1.0
    if not 0 <= found <= 1:
        raise ValueError(f"{_PROPORTION} is {given[_PROPORTION]!r}; it is a number from 0 to 1, as text.")
    return found


def _choose_recomputation(config: IPUConfig, how: Arrangement) -> Recompute | None:
    if how.recompute is not None or not how.training:
        return how.recompute
    if not config.allow_recompute:
        return Recompute.NONE
    return Recompute.PIPELINE if how.strategy is Strategy.PIPELINED else Recompute.STANDARD


def _list_locations(config: IPUConfig, how: Arrangement) -> tuple[tuple[TensorRole, TensorLocation], ...]:
    smallest = max(config.optimizations.minimum_remote_tensor_size // 4, 1)
    roles = dict.fromkeys((*how.off_chip, *how.shares))
    return tuple(
        (
            role,
            TensorLocation(
                on_chip=role not in how.off_chip,
                replicated_sharding=role in how.shares,
                minimum_off_chip_elements=smallest,
                minimum_sharded_elements=smallest,
            ),
        )
        for role in roles
    )


def choose_machine(config: IPUConfig) -> System | None:
    """The machine to plan for; None for openipu's own choice."""
    model = running_on_ipu_model()
    unattached = config.device_connection.type in (DeviceConnectionType.NEVER, DeviceConnectionType.PRE_COMPILE)
    version = config.ipu_model.version if model else config.device_connection.version if unattached else ""
    tiles = int(read_flags()["ipu_model_tiles"]) or config.ipu_model.tiles_per_ipu if model else 0
    if version not in _MACHINES and not tiles:
        return None
    system = resolve_system(_MACHINES.get(version))
    if not tiles:
        return system
    if tiles > system.target.tiles:
        raise ValueError(
            f"ipu_model.tiles_per_ipu is {tiles}, and an IPU of version {version} has {system.target.tiles} tiles."
        )
    return dataclasses.replace(system, target=dataclasses.replace(system.target, tiles=tiles))


def find_profile(config: IPUConfig) -> Path | None:
    """Where the profile goes, if one is wanted."""
    options = read_engine_options(config.compilation_poplar_options)
    return options.report_directory if options.wants_profile else None


def find_cache() -> Path | None:
    """Where compiled programs are kept, if the flags say."""
    path = str(read_flags()["executable_cache_path"])
    return Path(path) if path else None


def shows_progress() -> bool:
    """Is a bar shown while a program compiles? The flags say, or there is a terminal that shows it."""
    wanted = str(read_flags()["show_progress_bar"])
    return sys.stderr.isatty() if wanted == "auto" else wanted == "true"
