"""ONNX: files and bytes become a `ForeignGraph`, and a table of ops says what each node is in torch."""

from openipu.translate.onnx.graphcore.domain import DOMAIN
from openipu.translate.onnx.graphcore.layers import STRIDED_CHANNELS
from openipu.translate.onnx.reading import OnnxModel, read_model
from openipu.translate.onnx.table import FAMILIES, GRAPHCORE, TABLE

__all__ = [
    "DOMAIN",
    "FAMILIES",
    "GRAPHCORE",
    "STRIDED_CHANNELS",
    "TABLE",
    "OnnxModel",
    "read_model",
]
