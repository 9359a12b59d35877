"""Programs of PaddlePaddle, legacy and PIR -> a module over torch ops. No Paddle is needed."""

from openipu.translate.paddle.building import build_graph, find_type
from openipu.translate.paddle.custom import CustomName, name_custom_ops
from openipu.translate.paddle.halving import halve_ops
from openipu.translate.paddle.legacy import read_legacy
from openipu.translate.paddle.loading import PaddleModel, find_shape, open_model, read_model, read_weights
from openipu.translate.paddle.module import PaddleModule
from openipu.translate.paddle.optimizers import OptimizerDescription, ParameterGroup, Rate, describe_updates
from openipu.translate.paddle.parameters import read_parameters
from openipu.translate.paddle.pir import read_pir
from openipu.translate.paddle.program import PaddleOp, PaddleProgram
from openipu.translate.paddle.sharding import INDEX, STAGE, check_places, shard_evenly
from openipu.translate.paddle.slicing import slice_program

__all__ = [
    "INDEX",
    "STAGE",
    "CustomName",
    "OptimizerDescription",
    "PaddleModel",
    "PaddleModule",
    "PaddleOp",
    "PaddleProgram",
    "ParameterGroup",
    "Rate",
    "build_graph",
    "check_places",
    "describe_updates",
    "find_shape",
    "find_type",
    "halve_ops",
    "name_custom_ops",
    "open_model",
    "read_legacy",
    "read_model",
    "read_parameters",
    "read_pir",
    "read_weights",
    "shard_evenly",
    "slice_program",
]
