"""Predictors of micro-benchmarks: each asks the cost rules or the planner that price users' programs."""

from openipu.explore.validation.micro.constants import CONSTANT_PREDICTORS
from openipu.explore.validation.micro.exchange import EXCHANGE_PREDICTORS
from openipu.explore.validation.micro.kernels import KERNEL_PREDICTORS
from openipu.explore.validation.micro.matmul import MATMUL_PREDICTORS
from openipu.explore.validation.micro.memory import MEMORY_PREDICTORS
from openipu.explore.validation.micro.reductions import REDUCTION_PREDICTORS
from openipu.explore.validation.micro.sparse import SPARSE_PREDICTORS
from openipu.explore.validation.micro.streams import STREAM_PREDICTORS
from openipu.explore.validation.outcome import Predictor

MICRO_PREDICTORS: tuple[Predictor, ...] = (
    *CONSTANT_PREDICTORS,
    *SPARSE_PREDICTORS,
    *MATMUL_PREDICTORS,
    *KERNEL_PREDICTORS,
    *EXCHANGE_PREDICTORS,
    *MEMORY_PREDICTORS,
    *REDUCTION_PREDICTORS,
    *STREAM_PREDICTORS,
)

__all__ = ["MICRO_PREDICTORS"]
