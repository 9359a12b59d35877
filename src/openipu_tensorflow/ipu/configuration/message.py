"""The record of an `IPUConfig` by the names of the original's driver, and what its options must agree on.

In: a configuration. Out: a `Message`, or an error that names the options at fault. Programs read it through
`_create_protobuf` and `get_ipu_config`; nothing of openipu depends on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from openipu_tensorflow.ipu.configuration.enums import DeviceConnectionType, StochasticRoundingBehaviour
from openipu_tensorflow.ipu.configuration.flags import running_on_ipu_model

if TYPE_CHECKING:
    from openipu_tensorflow.ipu.configuration.tree import IPUConfig

VERSIONS = ("ipu1", "ipu2", "ipu21")

# the driver's name for an option; a dot is a message inside
_FIELDS: Mapping[str, str] = {
    "allow_recompute": "speed_size_config.allow_recompute",
    "selection_order": "selection_order",
    "serialization_output_folder": "serialization_folder",
    "device_connection.type": "device_connection_type",
    "device_connection.version": "ipu_version",
    "device_connection.enable_remote_buffers": "enable_remote_buffers_without_device",
    "experimental.always_rearrange_copies_on_the_host": "speed_size_config.always_rearrange_copies_on_the_host",
    "experimental.enable_remote_buffer_embedding": "enable_experimental_remote_buffer_embedding",
    "experimental.enable_prng_stability": "enable_experimental_prng_stability",
    "experimental.multi_replica_distribution.process_index": "multi_replica_process_index",
    "experimental.multi_replica_distribution.process_count": "multi_replica_process_count",
    "floating_point_behaviour.inv": "floating_point_behaviour.inv",
    "floating_point_behaviour.div0": "floating_point_behaviour.div0",
    "floating_point_behaviour.oflo": "floating_point_behaviour.oflo",
    "floating_point_behaviour.nanoo": "floating_point_behaviour.nanoo",
    "io_tiles.num_io_tiles": "num_io_tiles",
    "io_tiles.place_ops_on_io_tiles": "place_ops_on_io_tiles",
    "io_tiles.available_memory_proportion": "io_tile_available_memory_proportion",
    "ipu_model.compile_ipu_code": "ipu_model_config.compile_ipu_code",
    "ipu_model.tiles_per_ipu": "ipu_model_config.tiles_per_ipu",
    "ipu_model.version": "ipu_model_config.ipu_model_version",
    "matmuls.clear_pass_type": "clear_matmul_pass_type",
    "norms.use_stable_statistics": "use_stable_norm_statistics",
    "norms.experimental.distributed_batch_norm_replica_group_size": (
        "experimental_distributed_batch_norm_replica_group_size"
    ),
    "optimizations.math.fast": "algebraic_simplifier_config.enable_fast_math",
    "optimizations.math.dot_strength": "algebraic_simplifier_config.enable_dot_strength",
    "optimizations.prefetch_data_streams": "prefetch_data_streams",
    "optimizations.combine_embedding_lookups": "enable_multi_slice_combiner",
    "optimizations.combine_matmuls": "enable_matmul_combiner",
    "optimizations.merge_infeed_io_copies": "speed_size_config.merge_infeed_io_copies",
    "optimizations.maximum_cross_replica_sum_buffer_size": "max_cross_replica_sum_buffer_size",
    "optimizations.maximum_reduce_scatter_buffer_size": "max_reduce_scatter_buffer_size",
    "optimizations.maximum_inter_ipu_copies_buffer_size": "max_inter_ipu_copies_buffer_size",
    "optimizations.maximum_send_recv_cluster_size": "max_send_recv_cluster_size",
    "optimizations.maximum_reduce_many_buffer_size": "max_reduce_many_buffer_size",
    "optimizations.maximum_all_gather_buffer_size": "max_all_gather_buffer_size",
    "optimizations.minimum_remote_tensor_size": "minimum_remote_tensor_size",
    "optimizations.merge_remote_buffers": "remote_buffer_merging_mode",
    "optimizations.triangular_solve_expander_block_size": "triangular_solve_expander_block_size",
    "optimizations.cholesky_block_size": "cholesky_block_size",
    "optimizations.enable_fast_math": "enable_fast_math",
    "optimizations.enable_dynamic_slice_replacement": "enable_dynamic_slice_replacement",
    "scheduling.algorithm": "speed_size_config.scheduler_selection",
    "scheduling.maximum_scheduler_lookahead_depth": "max_scheduler_lookahead_depth",
    "scheduling.maximum_scheduler_search_space_size": "max_scheduler_search_space_size",
}
_NEGATED: Mapping[str, str] = {
    "optimizations.enable_graph_outlining": "speed_size_config.disable_graph_outlining",
    "optimizations.enable_gather_simplifier": "disable_gather_simplifier",
}
_FLAG_LISTS: Mapping[str, str] = {
    "compilation_poplar_options": "compilation_options",
    "gcl_poplar_options": "gcl_options",
    "convolutions.poplar_options": "convolution_options",
    "matmuls.poplar_options": "matmul_options",
    "slices.poplar_options": "slice_options",
    "pooling.poplar_options": "pooling_options",
}


class Message:
    """A record whose fields are set and read by name, messages inside it included."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Message) and self.__dict__ == other.__dict__

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return "\n".join(f"{name}: {value!r}" for name, value in self.__dict__.items())


@dataclass(frozen=True, slots=True)
class OptionFlag:
    """One option of a library, by its name."""

    option: str
    value: str


@dataclass(frozen=True, slots=True)
class DeviceSelection:
    """The IPUs of one device: how many, or which."""

    auto_count: int = 0
    cfg_index: int = 0


def build_message(config: IPUConfig) -> Message:
    """The record, once the options have been found to agree."""
    values = {metadata.name: value for metadata, value in config._walk_values()}
    check_agreement(config)
    message = Message()
    message.profiling = Message()  # type: ignore[attr-defined]
    message.creator_id = 1  # type: ignore[attr-defined]
    for name, field in _FIELDS.items():
        value = values[name]
        _set(message, field, value.value if isinstance(value, Enum) else value)
    for name, field in _NEGATED.items():
        _set(message, field, not values[name])
    for name, field in _FLAG_LISTS.items():
        _set(message, field, [OptionFlag(*item) for item in read_flags(name, values[name]).items()])
    behaviour = config.floating_point_behaviour
    _set(message, "floating_point_behaviour.esr", read_rounding(behaviour.esr).value)
    if behaviour.set_all:
        for field in ("inv", "div0", "oflo", "nanoo"):
            _set(message, f"floating_point_behaviour.{field}", True)
        _set(message, "floating_point_behaviour.esr", StochasticRoundingBehaviour.ON.value)
    automatic, chosen = read_ipus(config.auto_select_ipus), read_ipus(config.select_ipus)
    message.device_config = [  # type: ignore[attr-defined]
        *(DeviceSelection(auto_count=count) for count in automatic),
        *(DeviceSelection(cfg_index=number) for number in chosen),
    ]
    return message


def _set(message: Message, field: str, value: Any) -> None:
    *inside, last = field.split(".")
    for name in inside:
        message = message.__dict__.setdefault(name, Message())
    setattr(message, last, value)


def read_flags(name: str, given: Mapping[Any, Any]) -> dict[str, str]:
    """A dictionary of options of a library, which are strings."""
    for key, value in given.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise TypeError(
                f"{name} holds {key!r}: {value!r}; names and values are strings: write {str(key)!r}: {str(value)!r}."
            )
    return dict(given)


def read_rounding(given: StochasticRoundingBehaviour | bool) -> StochasticRoundingBehaviour:
    """SDKs up to 2.5 took a bool."""
    return StochasticRoundingBehaviour.from_bool(given) if isinstance(given, bool) else given


def read_ipus(given: int | list[int] | tuple[int, ...]) -> list[int]:
    """One number stands for a list of it."""
    return [given] if isinstance(given, int) else list(given)


def check_agreement(config: IPUConfig) -> None:
    """Raise where options contradict each other."""
    automatic, chosen = read_ipus(config.auto_select_ipus), read_ipus(config.select_ipus)
    model = running_on_ipu_model()
    if automatic and chosen:
        raise ValueError(
            "Only one of `auto_select_ipus` and `select_ipus` can be set. Leave the other one empty: the first takes "
            "any IPUs that are free, the second the ones with these numbers."
        )
    if any(count < 1 for count in automatic):
        raise ValueError(f"auto_select_ipus is {config.auto_select_ipus}: each device needs at least 1 IPU.")
    if len(set(chosen)) != len(chosen) or any(number < 0 for number in chosen):
        raise ValueError(f"select_ipus is {config.select_ipus}: all device indices must be unique and at least 0.")
    if model and chosen:
        raise ValueError(
            "When using the IPUModel, the devices to attach to cannot be chosen by number: use auto_select_ipus "
            "instead of select_ipus, or leave --use_ipu_model out of TF_POPLAR_FLAGS."
        )
    _check_versions(config, model)
    _check_tiles(config)
    distribution = config.experimental.multi_replica_distribution
    count, index = distribution.process_count, distribution.process_index
    if count and model:
        raise ValueError(
            "Multi-replica distribution is not supported on the IPU model. Leave "
            "experimental.multi_replica_distribution.process_count at 0, or --use_ipu_model out of TF_POPLAR_FLAGS."
        )
    if count and not 0 <= index < count:
        raise ValueError(
            "experimental.multi_replica_distribution.process_index must be in the range "
            f"[0, process_count) = [0, {count}), and is {index}."
        )


def _check_versions(config: IPUConfig, model: bool) -> None:
    connection = config.device_connection
    if connection.type in (DeviceConnectionType.PRE_COMPILE, DeviceConnectionType.NEVER) and not connection.version:
        raise ValueError(
            f"device_connection.version must be set when device_connection.type is {connection.type.name}, because no "
            f"IPU is there to ask: one of {', '.join(VERSIONS)}."
        )
    if model and not config.ipu_model.version:
        raise ValueError(f"ipu_model.version must be set when the IPU model is used: one of {', '.join(VERSIONS)}.")
    given = {"device_connection.version": connection.version, "ipu_model.version": config.ipu_model.version}
    for name, version in given.items():
        if version and version not in VERSIONS:
            raise ValueError(f"{name} is {version!r}, which is no version of an IPU: one of {', '.join(VERSIONS)}.")


def _check_tiles(config: IPUConfig) -> None:
    tiles = config.io_tiles
    if tiles.place_ops_on_io_tiles and tiles.num_io_tiles <= 0:
        raise ValueError(
            "Cannot place ops on I/O tiles when there are none: set io_tiles.num_io_tiles to more than 0, or "
            "io_tiles.place_ops_on_io_tiles to False."
        )
    if config.norms.experimental.distributed_batch_norm_replica_group_size > 1 and tiles.num_io_tiles > 0:
        raise ValueError(
            "norms.experimental.distributed_batch_norm_replica_group_size is not supported with I/O tiles. "
            "Leave it at 1, or io_tiles.num_io_tiles at 0."
        )
