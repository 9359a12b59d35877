"""Predictors of micro-benchmarks: each asks the cost rules or the planner that price users' programs."""

from openipu.validation.figures.micro.constants import CONSTANT_PREDICTORS
from openipu.validation.figures.micro.exchange import EXCHANGE_PREDICTORS
from openipu.validation.figures.micro.kernels import KERNEL_PREDICTORS
from openipu.validation.figures.micro.matmul import MATMUL_PREDICTORS
from openipu.validation.figures.micro.memory import MEMORY_PREDICTORS
from openipu.validation.figures.micro.reductions import REDUCTION_PREDICTORS
from openipu.validation.figures.micro.sparse import SPARSE_PREDICTORS
from openipu.validation.figures.micro.streams import STREAM_PREDICTORS
from openipu.validation.figures.outcome import Predictor

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
