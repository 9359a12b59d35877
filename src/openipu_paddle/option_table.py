"""Every option of `IpuStrategy`, by its type, with its default and what becomes of it here.

In: nothing. Out: `OPTIONS`. An option either acts ("acts: …") or says why results would be the same without it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

UNSET_SEED = 2**64 - 1


@dataclass(frozen=True, slots=True)
class Option:
    """One option: bool, uint64, double, string, vector or map, with the largest value of an enumeration."""

    type: str
    default: Any
    effect: str
    limit: int | None = None  # values of an enumeration

    @property
    def acts(self) -> bool:
        return self.effect.startswith("acts")


_COMPILER = "no effect: decides how Poplar compiles, not what is computed"
_LOGS = "no effect: names a log or a drawing of the original compiler"
_STATE = "no effect: state of an optimizer is kept, and planned, in float32"
_ALWAYS = "no effect: openipu always works so"


def _same(kind: str, default: Any, effect: str, *names: str) -> dict[str, Option]:
    return {name: Option(kind, default, effect) for name in names}


OPTIONS: dict[str, Option] = {
    "is_training": Option("bool", True, "acts: training or inference"),
    "need_avg_shard": Option("bool", False, "acts: ops are spread evenly over the IPUs"),
    "enable_fp16": Option("bool", False, "acts: float32 feeds of a half program are converted"),
    "use_no_bias_optimizer": Option("bool", False, "acts: Adam and Lamb without bias correction"),
    "scaled_optimizer_state": Option("bool", False, "no effect: results are the same; it saves range of half states"),
    "is_dynamic": Option("bool", False, "acts: set by dynamic-to-static"),
    "enable_model_runtime_executor": Option("bool", False, "no effect: another way to the same results"),
    "enable_distribution": Option("bool", False, "no effect: one process; use poprun for several"),
    "runtime_options.enable_eval": Option("bool", False, "acts: runs without an update"),
    "enable_manual_shard": Option("bool", False, "acts: ops run where ipu_shard_guard says"),
    "enable_half_partial": Option("bool", False, "acts: half products are summed in half"),
    "num_ipus": Option("uint64", 1, "acts: IPUs of all replicas together"),
    "batches_per_step": Option("uint64", 1, "acts: batches of one run"),
    "micro_batch_size": Option("uint64", 1, "acts: the size of an open batch dimension"),
    "random_seed": Option("uint64", UNSET_SEED, "acts: seed of dropout and random ops"),
    "tiles_per_ipu": Option("uint64", 4, "no effect: of the original's simulator; choose a system with --system"),
    "num_buffers": Option("uint64", 10, "no effect: buffers of the model runtime"),
    "available_memory_proportion": Option("double", 0.0, "acts: memory for temporary values of products"),
    "loss_scaling": Option("double", 1.0, "acts: scales the loss before backward; the update undoes it"),
    "max_weight_norm": Option("double", 65504.0, "acts: limit of a weight's norm in Lamb"),
    "timeout_ms": Option("double", 0.0, "no effect: of the model runtime"),
    "lr": Option("double", 0.0, "acts: learning rate of dynamic-to-static"),
    **_same("string", "FLOAT", _STATE, "accl1_type", "accl2_type", "accl3_type"),
    "onnx_dump_path": Option("string", "", "acts: the program is written there"),
    "weight_decay_mode": Option("string", "", "no effect: weights decay as the program's own optimizer op says"),
    "accumulation_and_replication_reduction_type": Option("uint64", 1, "acts: 0 sum, 1 mean of gradients", 3),
    "mean_accumulation_and_replication_reduction_strategy": Option("uint64", 1, _ALWAYS, 3),
    "auto_recomputation": Option("uint64", 0, "acts: which activations are made again", 5),
    "synthetic_data_mode": Option("uint64", 0, "acts: no stream from the host in the plan", 4),
    "autodiff_settings.stitch_strategy": Option("uint64", 2, _COMPILER, 5),
    "batch_serialization_settings.batch_schedule": Option("uint64", 1, _COMPILER, 4),
    "batch_serialization_settings.method": Option("uint64", 0, _COMPILER, 2),
    "batch_serialization_settings.transform_context": Option("uint64", 0, _COMPILER, 3),
    "merge_var_update": Option("uint64", 0, _COMPILER, 4),
    "subgraph_copying_strategy": Option("uint64", 0, _COMPILER, 2),
    "virtual_graph_mode": Option("uint64", 0, "no effect: enable_manual_shard and need_avg_shard decide", 5),
    "accumulation_factor": Option("uint64", 1, "acts: batches whose gradients are added up"),
    "replicated_graph_count": Option("uint64", 1, "acts: replicas"),
    "num_io_tiles": Option("uint64", 0, "acts: tiles for streams"),
    "compilation_progress_total": Option("uint64", 100, "acts: what the progress logger counts to"),
    "default_prefetch_buffering_depth": Option("uint64", 1, _COMPILER),
    **_same("uint64", 0, _COMPILER, "batch_serialization_settings.factor", "execution_phase_settings.phases"),
    "execution_phase_settings.stages": Option("uint64", 2, _COMPILER),
    **_same("uint64", 0, _LOGS, "first_dot_op"),
    "final_dot_op": Option("uint64", 10000, _LOGS),
    **_same("uint64", 0, "no effect: one process", "global_replica_offset"),
    "global_replication_factor": Option("uint64", 1, "no effect: one process"),
    "loose_threshold_at_peak": Option("uint64", 8000, _COMPILER),
    "merge_var_update_mem_threshold": Option("uint64", 1000000, _COMPILER),
    "swap_limit_scheduler": Option("uint64", 1000000000, _COMPILER),
    "transitive_closure_optimization_threshold": Option("uint64", 100000, _COMPILER),
    "automatic_loss_scaling_settings.bin_edge_location": Option("double", 0.125, "acts: with automatic loss scaling"),
    "automatic_loss_scaling_settings.threshold_upper_count_proportion": Option(
        "double", 1e-7, "acts: with automatic loss scaling"
    ),
    "outline_sequence_break_cost": Option("double", 10000.0, _COMPILER),
    "outline_threshold": Option("double", 1.0, _COMPILER),
    "time_limit_scheduler": Option("double", 1e9, _COMPILER),
    "cache_path": Option("string", "session_cache", "acts: with enable_engine_caching, where programs are kept"),
    **_same("string", "", _LOGS, "log_dir", "serialized_poprithms_shift_graphs_dir"),
    **_same("string", "", _COMPILER, "custom_codelet_compile_flags", "kahn_tie_breaker"),
    "partials_type_matmuls": Option("string", "", "acts: half for sums in half"),
    "automatic_loss_scaling_settings.enabled": Option("bool", False, "acts: the loss scale follows the gradients"),
    "enable_engine_caching": Option("bool", False, "acts: with cache_path"),
    "enable_floating_point_checks": Option("bool", False, "acts: arithmetic that makes infinities stops the run"),
    "enable_gradient_accumulation": Option("bool", False, "acts: with accumulation_factor"),
    "enable_pipelining": Option("bool", False, "acts: stages work at the same time"),
    "enable_replicated_graphs": Option("bool", False, "acts: with replicated_graph_count"),
    "enable_stochastic_rounding": Option("bool", False, "acts: half results are rounded stochastically"),
    "enable_outlining": Option("bool", True, _COMPILER),
    **_same(
        *("bool", False, _COMPILER, "alias_zero_copy", "batch_serialization_settings.concat_on_execution_phase_change"),
        *("batch_serialization_settings.concat_on_pipeline_stage_change", "delay_var_updates", "decompose_grad_sum"),
        *("batch_serialization_settings.concat_on_virtual_graph_change", "disable_grad_accumulation_tensor_streams"),
        *("enable_explicit_main_loops", "enable_non_stable_softmax", "enable_serialized_matmuls", "enable_stable_norm"),
        *("explicit_recomputation", "group_host_sync", "group_norm_strided_channel_grouping", "use_host_copy_ops"),
        *("schedule_non_weight_update_gradient_consumers_early", "enable_supported_data_type_casting"),
    ),
    **_same(
        *("bool", True, _COMPILER, "compile_engine", "constant_weights", "enable_fully_connected_pass"),
        *("enable_merge_exchange", "enable_outlining_copy_cost_pruning", "enable_prefetch_datastreams"),
        *("rearrange_anchors_on_host",),
    ),
    **_same(
        *("bool", False, _LOGS, "dot_op_names", "export_poplar_computation_graph", "export_poplar_vertex_graph"),
        *("instrument_with_hardware_cycle_counter", "opx_alias_checking", "opx_modify_checking"),
        *("separate_call_op_pdfs", "strict_op_versions"),
    ),
    "enable_distributed_replicated_graphs": Option("bool", False, "no effect: one process"),
    "dot_checks": Option("vector", [], _LOGS),
    "hardware_instrumentations": Option("vector", [], _LOGS),
    "custom_codelets": Option("vector", [], "no effect: codelets of the original cannot run here"),
    "custom_ops": Option("vector", [], "acts: read only, lists what add_custom_op added"),
    "engine_options": Option("map", {}, "acts: autoReport.directory names the profile's place"),
    "report_options": Option("map", {}, _LOGS),
    "convolution_options": Option("map", {}, _COMPILER),
    "lstm_options": Option("map", {}, _COMPILER),
    "gcl_options": Option("map", {}, _COMPILER),
}

LOCATIONS = ("location_activation", "location_weight", "location_optimizer", "location_accumulator")
LOCATION_FIELDS = (
    *("on_chip", "use_replicated_tensor_sharding", "use_io_tiles_to_load", "use_io_tiles_to_store"),
    *("min_elements_for_off_chip", "min_elements_for_replicated_tensor_sharding"),
    *("sharding_domain_with_all", "sharding_domain_with_consecutive", "sharding_domain_with_orthogonal"),
)
# dictionaries and functions that are set and not read back
SPECIAL: dict[str, str] = {
    **dict.fromkeys(LOCATIONS, "acts: on_chip, use_replicated_tensor_sharding and the sizes from which they hold"),
    "accumulate_outer_fragment": _COMPILER,
    "replicated_collectives_settings": _COMPILER,
    "custom_op": "acts: what an op is called by PopART or by openipu.register_custom_op",
    "compilation_progress_logger": "acts: is called with the progress of a compilation",
}
