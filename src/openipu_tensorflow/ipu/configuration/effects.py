"""What each option of `IPUConfig` does here, and each argument of pipelines, stages, scopes and queues.

In: nothing. Out: `EFFECTS`, by their names. An option either acts ("acts: …") or says why results and plan are
the same without it ("no effect: …"); one that is refused says so where it is set to more than its default.
"""

from __future__ import annotations

from collections.abc import Mapping

_COMPILER = "no effect: decides how Poplar compiles, not what is computed"
_BUFFERS = "no effect: the plan merges no transfers, so that there is nothing to limit"
_MERGED = "no effect: the plan prices each op and each copy by itself"
_EXACT = "no effect: arithmetic is PyTorch's, and is not simplified beyond what is exact"

CONFIG_EFFECTS: Mapping[str, str] = {
    "allow_recompute": "acts: activations are made again in backward; in a pipeline all but each stage's inputs",
    "selection_order": "no effect: IPUs are numbered along their links, which is what AUTO chooses for pipelines",
    "serialization_output_folder": "no effect: files for other runtimes; executable_cache_path of TF_POPLAR_FLAGS "
    "keeps what openipu compiles",
    "compilation_poplar_options": "acts: autoReport.* says which profile is written, and where; others are checked by "
    "name and have no effect",
    "gcl_poplar_options": "no effect: collectives are planned as rings over the links of the machine",
    "auto_select_ipus": "acts: a device for each number, with so many IPUs of the virtual pod",
    "select_ipus": "acts: a device for each number, the IPU of the virtual pod with it",
    "convolutions.poplar_options": "acts: availableMemoryProportion and partialsType; the smaller proportion of "
    "convolutions and matmuls counts for both. Others are checked by name and have no effect",
    "matmuls.clear_pass_type": "no effect: forward and backward products are planned by their shapes alone",
    "matmuls.poplar_options": "acts: as convolutions.poplar_options",
    "slices.poplar_options": "no effect: slices are planned by their shapes alone; names are checked",
    "pooling.poplar_options": "no effect: pooling is planned by its shapes alone; names are checked",
    "device_connection.type": "acts: IPUs are held from the configuration on, from the first program on, or not at all",
    "device_connection.version": "acts: the machine that programs are planned for",
    "device_connection.enable_remote_buffers": "no effect: the machine of the plan always has memory beside its IPUs",
    "experimental.always_rearrange_copies_on_the_host": _COMPILER,
    "experimental.enable_remote_buffer_embedding": "no effect: host embeddings are looked up on the host",
    "experimental.enable_prng_stability": "no effect: random numbers follow from the seed and the op alone",
    "experimental.multi_replica_distribution.process_index": "no effect: the launcher, poprun, says which process this "
    "is; the range is checked",
    "experimental.multi_replica_distribution.process_count": "acts: so many instances of poprun share every update; "
    "popdist.tensorflow.set_ipu_config sets it",
    "floating_point_behaviour.inv": "acts: a run stops where arithmetic makes an infinity or NaN of ordinary numbers",
    "floating_point_behaviour.div0": "acts: as inv; the three are one switch here",
    "floating_point_behaviour.oflo": "acts: as inv; the three are one switch here",
    "floating_point_behaviour.esr": "acts: half results are rounded by chance; REPLICA_IDENTICAL_ONLY as ON",
    "floating_point_behaviour.nanoo": "acts: a half result that is too large becomes NaN",
    "floating_point_behaviour.set_all": "acts: all of them",
    "io_tiles.num_io_tiles": "acts: tiles that the plan sets aside for streams of the host",
    "io_tiles.place_ops_on_io_tiles": "acts: streams of the host run on them while the other tiles compute",
    "io_tiles.available_memory_proportion": "no effect: the plan puts no other ops on these tiles",
    "ipu_model.compile_ipu_code": "no effect: no code is compiled for IPUs",
    "ipu_model.tiles_per_ipu": "acts: with --use_ipu_model, the tiles of the machine that programs are planned for",
    "ipu_model.version": "acts: with --use_ipu_model, the machine that programs are planned for",
    "norms.use_stable_statistics": "no effect: statistics are always taken from differences to the mean",
    "norms.experimental.distributed_batch_norm_replica_group_size": "acts: more than 1 is refused when a program with "
    "several replicas is compiled",
    "optimizations.math.fast": _EXACT,
    "optimizations.math.dot_strength": _COMPILER,
    "optimizations.prefetch_data_streams": "no effect: the host always has the next data ready",
    "optimizations.combine_embedding_lookups": _MERGED,
    "optimizations.combine_matmuls": _MERGED,
    "optimizations.enable_graph_outlining": "no effect: equal ops always share their code in the plan",
    "optimizations.merge_infeed_io_copies": _MERGED,
    "optimizations.maximum_cross_replica_sum_buffer_size": _BUFFERS,
    "optimizations.maximum_reduce_scatter_buffer_size": _BUFFERS,
    "optimizations.maximum_inter_ipu_copies_buffer_size": _BUFFERS,
    "optimizations.maximum_send_recv_cluster_size": _BUFFERS,
    "optimizations.maximum_reduce_many_buffer_size": _BUFFERS,
    "optimizations.maximum_all_gather_buffer_size": _BUFFERS,
    "optimizations.minimum_remote_tensor_size": "acts: the smallest tensor that offload options take off the IPU",
    "optimizations.merge_remote_buffers": _MERGED,
    "optimizations.enable_gather_simplifier": _COMPILER,
    "optimizations.triangular_solve_expander_block_size": _COMPILER,
    "optimizations.cholesky_block_size": _COMPILER,
    "optimizations.enable_fast_math": _EXACT,
    "optimizations.enable_dynamic_slice_replacement": _COMPILER,
    "scheduling.algorithm": "no effect: ops run in the order of the captured graph",
    "scheduling.maximum_scheduler_lookahead_depth": "no effect: as scheduling.algorithm",
    "scheduling.maximum_scheduler_search_space_size": "no effect: as scheduling.algorithm",
}

_BUFFERED = "no effect: the host always has the next data ready, and takes every result"
_NAMED = "no effect: names an op that is not there"
_QUEUED = "no effect: a queue belongs to the program that it is given to; the number is checked"

PROGRAM_EFFECTS: Mapping[str, str] = {
    "pipeline.computational_stages": "acts: the stages, or several functions side by side in one",
    "pipeline.gradient_accumulation_count": "acts: micro-batches of an update",
    "pipeline.gradient_accumulation_dtype": "acts: the type that gradients are added up in",
    "pipeline.gradient_accumulation_for_captured_grads": "acts: captured gradients go out as their sums over the "
    "micro-batches of an update, or those of each",
    "pipeline.repeat_count": "acts: updates of a run",
    "pipeline.batch_serialization_iterations": "acts: so many times as many micro-batches of an update, stage after "
    "stage on one IPU",
    "pipeline.inputs": "acts: what the first stage gets in every micro-batch",
    "pipeline.infeed_queue": "acts: what the first stage gets besides",
    "pipeline.outfeed_queue": "acts: where results of the last stage go",
    "pipeline.optimizer_function": "acts: the loss and its optimizer; none for inference",
    "pipeline.device_mapping": "acts: the IPU of each stage in the plan",
    "pipeline.pipeline_schedule": "acts: Grouped and Interleaved overlap stages, and are planned alike; Sequential "
    "runs one after the other",
    "pipeline.recomputation_mode": "acts: with RecomputeThenBackpropagate, which Auto is unless the schedule is "
    "Sequential, recomputation_checkpoint keeps nothing. The order of recomputation is the plan's own: each op where "
    "backward first needs it",
    "pipeline.forward_propagation_stages_poplar_options": "acts: see PipelineStageOptions",
    "pipeline.backward_propagation_stages_poplar_options": "acts: see PipelineStageOptions; the smaller proportion of "
    "forward and backward counts for both",
    "pipeline.weight_update_poplar_options": "no effect: an update is planned with the options of its IPU; names are "
    "checked",
    "pipeline.offload_weight_update_variables": "acts: optimizer state is kept beside the IPU; None means on the IPU",
    "pipeline.replicated_optimizer_state_sharding": "acts: each replica keeps one share of the optimizer state",
    "pipeline.offload_activations": "acts: activations are kept beside the IPU; None means on the IPU",
    "pipeline.offload_gradient_accumulation_buffers": "acts: sums of gradients are kept beside the IPU; None means on "
    "the IPU",
    "pipeline.replicated_weight_sharding": "acts: each replica keeps one share of the weights",
    "pipeline.offload_weights": "acts: weights are kept beside the IPU; None means on the IPU",
    "pipeline.continuous_weight_updates": "acts: is refused, as in the original",
    "pipeline.outfeed_loss": "acts: the loss alone goes to the outfeed",
    "pipeline.accumulate_outfeed": "acts: sums over the micro-batches of an update go to the outfeed",
    "pipeline.accumulate_outfeed_dtype": "acts: the type of these sums",
    "pipeline.outfeed_mask": "acts: which results stay off the outfeed",
    "pipeline.reduction_method": "acts: sum, mean or running mean of gradients",
    "pipeline.name": _NAMED,
    "PipelineStageOptions.convolution_options": "acts: availableMemoryProportion for the IPU of the stage, the "
    "smallest of its stages; partialsType half for the whole program. Others are checked by name and have no effect",
    "PipelineStageOptions.matmul_options": "acts: as convolution_options",
    "PipelineStageOptions.slice_options": "no effect: slices are planned by their shapes alone; names are checked",
    "pipelining_ops.recomputation_checkpoint": "acts: the tensor is kept where others are made again, with "
    "RecomputeAndBackpropagateInterleaved",
    "scopes.ipu_scope": "acts: programs compiled inside are for that device",
    "scopes.ipu_shard": "acts: the IPU of ops in the plan; of several the first",
    "scopes.ipu_jit_scope": "no effect: a compiled function is one program, whatever its groups",
    "scopes.outside_compilation_scope": "acts: each op inside is a call of the host, which TensorFlow computes; loops, "
    "branches and variables stay on the device",
    "scopes.frontend_attribute": "acts: PARTIALS_TYPE as scopes.partials_type; other names stay in the graph, and the "
    "plan reads none of them",
    "scopes.stochastic_rounding": "acts: is refused where it differs from the configuration",
    "scopes.partials_type": "acts: half partials for the whole program, where any of its ops asks for them; float32 "
    "inside a program with half partials does not take them back",
    "IPUInfeedQueue.dataset": "acts: where data come from",
    "IPUInfeedQueue.device_ordinal": _QUEUED,
    "IPUInfeedQueue.prefetch_depth": _BUFFERED,
    "IPUInfeedQueue.optimise_latency": _BUFFERED,
    "IPUOutfeedQueue.outfeed_mode": "acts: all values since the last time, or the last one",
    "IPUOutfeedQueue.device_ordinal": _QUEUED,
    "IPUOutfeedQueue.buffer_depth": _BUFFERED,
    "IPUOutfeedQueue.optimise_latency": _BUFFERED,
    "loops.use_while_v1": "no effect: chooses between two loops of TensorFlow; here it is one of the device either way",
}

EFFECTS: Mapping[str, str] = {**CONFIG_EFFECTS, **PROGRAM_EFFECTS}
