"""The IPU's number formats and arithmetic: formats as data, a slow reference, quick functions on tensors."""

from openipu.numerics.float8 import (
    cast_from_float8,
    cast_to_float8,
    choose_float8_scale,
    float8_matmul,
    quantise_gradient_to_float8,
    quantise_to_float8,
)
from openipu.numerics.formats import (
    FLOAT8_143,
    FLOAT8_152,
    FLOAT16,
    FLOAT32,
    FORMATS,
    Format,
    Overflow,
    Rounding,
)
from openipu.numerics.partials import CHUNKS, choose_chunk, multiply_with_half_partials
from openipu.numerics.reference import decode_code, encode_number
from openipu.numerics.rounding import decode_tensor, encode_tensor, round_to_format

__all__ = [
    "CHUNKS",
    "FLOAT8_143",
    "FLOAT8_152",
    "FLOAT16",
    "FLOAT32",
    "FORMATS",
    "Format",
    "Overflow",
    "Rounding",
    "cast_from_float8",
    "cast_to_float8",
    "choose_chunk",
    "choose_float8_scale",
    "decode_code",
    "decode_tensor",
    "encode_number",
    "encode_tensor",
    "float8_matmul",
    "multiply_with_half_partials",
    "quantise_gradient_to_float8",
    "quantise_to_float8",
    "round_to_format",
]
