"""popxl on openipu: programs as explicit graphs, run and planned on any machine. Unofficial.

In: scripts that `import popxl`. Out: graphs, ops, transforms and sessions of popxl 3.4 on openipu's pipeline: a
finished program is captured once, planned, and run by openipu's engine.
"""

import os as _os

from openipu.capture import register_internal_directory as _register_internal_directory
from popxl import transforms
from popxl.context import (
    gcg,
    get_current_graph,
    get_ir,
    get_main_graph,
    gir,
    gmg,
    in_sequence,
    io_tiles,
    ipu,
    name_scope,
)
from popxl.dtypes import (
    bool,
    complex64,
    complex128,
    double,
    dtype,
    float,
    float8_143,
    float8_152,
    float16,
    float32,
    float64,
    half,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from popxl.graph import Graph
from popxl.ir import Ir
from popxl.module import Module
from popxl.random_seed import create_seeds
from popxl.remote_buffer import RemoteBuffer, remote_buffer
from popxl.replica_grouping import ReplicaGrouping
from popxl.session import Session
from popxl.streams import DeviceToHostStream, HostToDeviceStream, d2h_stream, h2d_stream
from popxl.tensor import Constant, Tensor, TensorByRef, TensorSpec, Variable, constant, graph_input, graph_output
from popxl.tensorlocation import ExecutionContext, ReplicatedTensorSharding, TensorLocation, TensorStorage, TileSet
from popxl.variables import (
    remote_replica_sharded_variable,
    remote_variable,
    replica_sharded_buffer,
    replica_sharded_variable,
    variable,
)

__version__ = "3.4.0"  # the version of the interface that these names are of

__all__ = [
    "Constant",
    "DeviceToHostStream",
    "ExecutionContext",
    "Graph",
    "HostToDeviceStream",
    "Ir",
    "Module",
    "RemoteBuffer",
    "ReplicaGrouping",
    "ReplicatedTensorSharding",
    "Session",
    "Tensor",
    "TensorByRef",
    "TensorLocation",
    "TensorSpec",
    "TensorStorage",
    "TileSet",
    "Variable",
    "bool",
    "complex64",
    "complex128",
    "constant",
    "create_seeds",
    "d2h_stream",
    "double",
    "dtype",
    "float",
    "float8_143",
    "float8_152",
    "float16",
    "float32",
    "float64",
    "gcg",
    "get_current_graph",
    "get_ir",
    "get_main_graph",
    "gir",
    "gmg",
    "graph_input",
    "graph_output",
    "h2d_stream",
    "half",
    "in_sequence",
    "int8",
    "int16",
    "int32",
    "int64",
    "io_tiles",
    "ipu",
    "name_scope",
    "remote_buffer",
    "remote_replica_sharded_variable",
    "remote_variable",
    "replica_sharded_buffer",
    "replica_sharded_variable",
    "transforms",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "variable",
]

_register_internal_directory(_os.path.dirname(__file__))
