"""`popxl_addons`: modules with variables, and transformations of graphs, on top of PopXL.

In: the names of Graphcore's popxl-addons 3.4. Out: programs of `popxl`.
"""

import os as _os

from openipu.capture import register_internal_directory as _register_internal_directory
from popxl_addons.array_munging import (
    handle_negative_axis,
    pad_axis,
    repeat,
    repeat_axis,
    repeat_shard,
    shard,
    shard2D,
    split2D,
    squeeze_safe,
    tensor_parallel_input,
    unshard,
    unshard2D,
    unshard_arrays,
)
from popxl_addons.debugging import print_tensor, print_text
from popxl_addons.graph import BoundGraph, GraphWithNamedArgs
from popxl_addons.graph_cache import GraphCache, function
from popxl_addons.module import Module
from popxl_addons.named_tensors import NamedTensorData, NamedTensors
from popxl_addons.ops import cross_entropy, cross_entropy_with_grad, fp8_amax_scale, host_load, host_store
from popxl_addons.performance_utils import (
    evaluate_FLOPs,
    evaluate_ir_FLOPs,
    format_flops_scientific,
    print_FLOPs,
    total_FLOPs,
)
from popxl_addons.remote import (
    create_remote_buffer,
    load_remote_graph,
    named_buffers,
    named_variable_buffers,
    store_remote_graph,
)
from popxl_addons.route_tensor import is_subgraph, route_tensor_into_graph
from popxl_addons.seed_variable import seed_variable
from popxl_addons.streams import InputStreams, OutputStreams
from popxl_addons.task_session import TaskSession, write_variables_pb
from popxl_addons.transforms import (
    RemoteHandle,
    autodiff,
    autodiff_with_accumulation,
    batch_serial_buffer,
    batch_serialise,
    batch_serialise_fwd_and_grad,
    disable_fc_pass,
    enable_fc_pass,
    pipelined_execution,
    recompute_graph,
    set_available_memory_proportion_by_ipu,
    set_graph_available_memory_proportion_by_ipu,
)
from popxl_addons.utils import OrderedDict, WeightsDict, timer
from popxl_addons.variable_factory import (
    NamedVariableFactories,
    VariableFactory,
    add_replica_sharded_variable_input,
    add_variable_input,
)

from . import dot_tree, layers, module, ops, optimizers, transforms, utils

GIT_COMMIT = None  # the original's revision, which this is not

__all__ = [
    "GIT_COMMIT",
    "BoundGraph",
    "GraphCache",
    "GraphWithNamedArgs",
    "InputStreams",
    "Module",
    "NamedTensorData",
    "NamedTensors",
    "NamedVariableFactories",
    "OrderedDict",
    "OutputStreams",
    "RemoteHandle",
    "TaskSession",
    "VariableFactory",
    "WeightsDict",
    "add_replica_sharded_variable_input",
    "add_variable_input",
    "autodiff",
    "autodiff_with_accumulation",
    "batch_serial_buffer",
    "batch_serialise",
    "batch_serialise_fwd_and_grad",
    "create_remote_buffer",
    "cross_entropy",
    "cross_entropy_with_grad",
    "disable_fc_pass",
    "dot_tree",
    "enable_fc_pass",
    "evaluate_FLOPs",
    "evaluate_ir_FLOPs",
    "format_flops_scientific",
    "fp8_amax_scale",
    "function",
    "handle_negative_axis",
    "host_load",
    "host_store",
    "is_subgraph",
    "layers",
    "load_remote_graph",
    "module",
    "named_buffers",
    "named_variable_buffers",
    "ops",
    "optimizers",
    "pad_axis",
    "pipelined_execution",
    "print_FLOPs",
    "print_tensor",
    "print_text",
    "recompute_graph",
    "repeat",
    "repeat_axis",
    "repeat_shard",
    "route_tensor_into_graph",
    "seed_variable",
    "set_available_memory_proportion_by_ipu",
    "set_graph_available_memory_proportion_by_ipu",
    "shard",
    "shard2D",
    "split2D",
    "squeeze_safe",
    "store_remote_graph",
    "tensor_parallel_input",
    "timer",
    "total_FLOPs",
    "transforms",
    "unshard",
    "unshard2D",
    "unshard_arrays",
    "utils",
    "write_variables_pb",
]

_register_internal_directory(_os.path.dirname(__file__))  # lines that a plan shows are the user's
