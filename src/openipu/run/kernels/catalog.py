"""All kernels: one record each, and the structs that their functions read.

Each struct is that of the same name in the C++ file. A test compares the fields, and the loader the sizes.
"""

from __future__ import annotations

import ctypes
from typing import Any

import torch

from openipu.numerics import CHUNKS
from openipu.run.kernels.kernel import Function, Kernel
from openipu.run.optimization import Accuracy

_POINTER, _COUNT, _CHOICE = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32
_FLOAT, _DOUBLE = ctypes.c_float, ctypes.c_double

Fields = list[tuple[str, Any]]


def _list(kind: Any, names: str) -> Fields:
    return [(name, kind) for name in names.split()]


class RoundingArguments(ctypes.Structure):
    _fields_ = [
        *_list(_POINTER, "values results seeds places"),
        *_list(_COUNT, "seed_count sample first_row rows columns"),
        *_list(_CHOICE, "overflow wide threads"),
    ]


class DropoutArguments(ctypes.Structure):
    _fields_ = [
        *_list(_POINTER, "values results seeds"),
        *_list(_COUNT, "seed_count sample rounding_sample rows columns"),
        ("factor", _FLOAT),
        *_list(_CHOICE, "quantile threads"),
    ]


class GeluArguments(ctypes.Structure):
    _fields_ = [*_list(_POINTER, "values gradients results"), ("count", _COUNT), ("threads", _CHOICE)]


class ProductArguments(ctypes.Structure):
    _fields_ = [
        *_list(_POINTER, "left right result"),
        *_list(_COUNT, "left_stride right_stride depth height width"),
        ("factor", _FLOAT),
        *_list(_CHOICE, "adds threads"),
    ]


class HalfProductArguments(ctypes.Structure):
    _fields_ = [
        *_list(_POINTER, "left right addend result seed scratch"),
        *_list(_COUNT, "left_input_stride left_row_stride right_input_stride right_column_stride"),
        *_list(_COUNT, "depth height width chunk first_sample last_sample addend_sample strip_columns"),
        *_list(_CHOICE, "left_half right_half result_half overflow threads"),
    ]


class NormArguments(ctypes.Structure):
    _fields_ = [
        *_list(_POINTER, "images weight bias other result mean inverse"),
        *_list(_POINTER, "old_mean old_variance new_mean new_variance scratch"),
        *_list(_COUNT, "rows channels"),
        *_list(_DOUBLE, "momentum epsilon"),
        *_list(_CHOICE, "rectifies threads"),
    ]


class NormGradientArguments(ctypes.Structure):
    _fields_ = [
        *_list(_POINTER, "gradient results images weight mean inverse blocked result"),
        *_list(_POINTER, "weight_gradient bias_gradient scratch"),
        *_list(_COUNT, "rows channels"),
        ("threads", _CHOICE),
    ]


class FilterTransformArguments(ctypes.Structure):
    _fields_ = [
        *_list(_POINTER, "filter transformed"),
        *_list(_COUNT, "results channels result_step channel_step"),
        *_list(_CHOICE, "rotated threads"),
    ]


class WinogradArguments(ctypes.Structure):
    _fields_ = [
        *_list(_POINTER, "images transformed bias other result scratch"),
        *_list(_COUNT, "count height width channels results pad block"),
        *_list(_CHOICE, "relu threads"),
    ]


class WinogradStripsArguments(ctypes.Structure):
    _fields_ = [
        *_list(_POINTER, "images filter bias result scratch"),
        *_list(_COUNT, "count height width channels results pad result_step channel_step"),
        *_list(_CHOICE, "rotated threads"),
    ]


class FilterGradientArguments(ctypes.Structure):
    _fields_ = [
        *_list(_POINTER, "images gradient result scratch"),
        *_list(_COUNT, "count height width channels results pad block"),
        ("threads", _CHOICE),
    ]


class GemvArguments(ctypes.Structure):
    _fields_ = [*_list(_POINTER, "vector weight bias results"), *_list(_COUNT, "count width"), ("threads", _CHOICE)]


class LstmFormat(ctypes.Structure):
    _fields_ = [("lanes", _COUNT), ("exponents", _FLOAT * 4)]


class LstmArguments(ctypes.Structure):
    _fields_ = [
        *_list(_POINTER, "source input_weights state_weights bias first_state first_cells given cells states"),
        *_list(_COUNT, "step_stride sample_stride steps held samples features width"),
        *_list(_CHOICE, "finite reverse threads"),
    ]


class DirectConvolutionArguments(ctypes.Structure):
    _fields_ = [*_list(_POINTER, "images weight bias results"), ("count", _COUNT), ("threads", _CHOICE)]


ROUND = Function("round_stochastically", RoundingArguments)
STOCHASTIC_ROUNDING = Kernel(
    "stochastic rounding",
    "stochastic_rounding.cpp",
    (ROUND,),
    accuracy=Accuracy.SAME_BITS,
    fresh=True,
    dtypes=(torch.float32, torch.float16),
    gains=("perceptron_half_training", "bert_half_training"),
)

DROP = Function("apply_dropout", DropoutArguments)
DROPOUT = Kernel(
    "dropout",
    "dropout.cpp",
    (DROP,),
    accuracy=Accuracy.SAME_BITS,
    fresh=True,
    dtypes=(torch.float32,),
    gains=("tiny_gpt2_training", "bert_training"),
)

COMPUTE_GELU = Function("compute_gelu", GeluArguments)
GELU = Kernel(
    "GELU",
    "gelu.cpp",
    (COMPUTE_GELU,),
    accuracy=Accuracy.OTHER_ORDER,
    fresh=True,
    dtypes=(torch.float32,),
    gains=("gptj_training", "gpt2_training"),
)

MULTIPLY_TRANSPOSED = Function("multiply_transposed", ProductArguments)
WEIGHT_GRADIENTS = Kernel(
    "gradients of weights",
    "matrix_products.cpp",
    (MULTIPLY_TRANSPOSED,),
    accuracy=Accuracy.OTHER_ORDER,
    fresh=True,
    dtypes=(torch.float32,),
    gains=("bert_training", "checkpoint_training"),
)

MULTIPLY_IN_HALF = Function("multiply_in_half", HalfProductArguments)
HALF_PRODUCTS = Kernel(
    "products with half partials",
    "half_products.cpp",
    (MULTIPLY_IN_HALF,),
    accuracy=Accuracy.OTHER_ORDER,
    fresh=True,
    dtypes=(torch.float32, torch.float16),
    constants=(("MOST_CHUNKS", CHUNKS),),
    gains=("bert_partials_training", "perceptron_partials_training"),
)

NORMALIZE = Function("normalize_channels", NormArguments)
DIFFERENTIATE_NORM = Function("differentiate_norm", NormGradientArguments)
CHANNEL_NORMS = Kernel(
    "norms of images",
    "channel_norms.cpp",
    (NORMALIZE, DIFFERENTIATE_NORM),
    accuracy=Accuracy.OTHER_ORDER,
    fresh=False,  # a tuple of results, and a gradient may be written over
    dtypes=(torch.float32,),
    gains=("large_images_training", "checkpoint_images_training"),
)

TRANSFORM_FILTER = Function("transform_filter", FilterTransformArguments)
CONVOLVE_WINOGRAD = Function("convolve_winograd", WinogradArguments)
CONVOLVE_STRIPS = Function("convolve_winograd_strips", WinogradStripsArguments)
SUM_FILTER_GRADIENT = Function("sum_filter_gradient", FilterGradientArguments)
WINOGRAD = Kernel(
    "3 x 3 convolutions by Winograd's algorithm",
    "winograd.cpp",
    (TRANSFORM_FILTER, CONVOLVE_WINOGRAD, CONVOLVE_STRIPS, SUM_FILTER_GRADIENT),
    accuracy=Accuracy.OTHER_ORDER,
    fresh=True,
    dtypes=(torch.float32,),
    gains=("checkpoint_images_training", "large_images_inference"),
)

MULTIPLY_VECTOR = Function("multiply_vector", GemvArguments)
GEMV = Kernel(
    "matrix-vector products",
    "gemv.cpp",
    (MULTIPLY_VECTOR,),
    accuracy=Accuracy.OTHER_ORDER,
    fresh=True,
    dtypes=(torch.float32,),
    gains=("wide_row_inference", "generation_inference"),
)

DESCRIBE_LSTM = Function("describe_lstm", LstmFormat)
RUN_LSTM = Function("run_lstm", LstmArguments)
LSTM = Kernel(
    "LSTM layers",
    "lstm.cpp",
    (DESCRIBE_LSTM, RUN_LSTM),
    accuracy=Accuracy.OTHER_ORDER,
    fresh=True,
    dtypes=(torch.float32,),
    gains=("lstm_inference", "speech_inference"),
)

CONVOLVE_DIRECTLY = Function("convolve_directly", DirectConvolutionArguments)
DIRECT_CONVOLUTION = Kernel(  # compiled once for each geometry: `specialize`
    "convolutions with few channels",
    "direct_convolution.cpp",
    (CONVOLVE_DIRECTLY,),
    accuracy=Accuracy.OTHER_ORDER,
    fresh=True,
    dtypes=(torch.float32,),
    gains=("lenet_inference", "keyword_inference"),
)

KERNELS = (
    STOCHASTIC_ROUNDING,
    DROPOUT,
    GELU,
    WEIGHT_GRADIENTS,
    HALF_PRODUCTS,
    CHANNEL_NORMS,
    WINOGRAD,
    GEMV,
    LSTM,
    DIRECT_CONVOLUTION,
)
