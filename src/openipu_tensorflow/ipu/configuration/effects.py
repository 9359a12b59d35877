"""What each option of `IPUConfig` does here.

In: nothing. Out: `EFFECTS`, by the options' names. An option either acts ("acts: …") or says why results and plan are
the same without it ("no effect: …"); one that is refused says so where it is set to more than its default.
"""

from __future__ import annotations

from collections.abc import Mapping

_COMPILER = "no effect: decides how Poplar compiles, not what is computed"
_BUFFERS = "no effect: the plan merges no transfers, so that there is nothing to limit"
_MERGED = "no effect: the plan prices each op and each copy by itself"
_EXACT = "no effect: arithmetic is PyTorch's, and is not simplified beyond what is exact"

EFFECTS: Mapping[str, str] = {
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
    "experimental.multi_replica_distribution.process_count": "acts: more than 1 is refused when a program is compiled; "
    "popdist is the way to several processes",
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
