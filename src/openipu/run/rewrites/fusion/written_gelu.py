"""GELU that a model writes out with a tanh, as one operator of PyTorch: one way through memory instead of eight.

GPT-2, GPT-J and T5 1.1 of Transformers write it so. Behind a packed product of inference it takes no way through memory
at all.
"""

from __future__ import annotations

import math

import torch
from torch import fx

from openipu.run.drafts.rules import Match, Rule, Value, Writer, op

aten = torch.ops.aten

_SCALE, _ADD = (aten.mul.Tensor, aten.mul.Scalar), (aten.add.Tensor, aten.add.Scalar)
_X = Value("x", torch.float32)
_CUBE = op(_SCALE, op(aten.pow.Tensor_Scalar, _X, 3), 0.044715)
_TANH = op(aten.tanh.default, op(_SCALE, op(aten.add.Tensor, _X, _CUBE), math.sqrt(2 / math.pi)))
WRITTEN_GELU = op(aten.mul.Tensor, op(_SCALE, _X, 0.5), op(_ADD, _TANH, 1))


def _call_gelu(match: Match, writer: Writer) -> fx.Node:
    return writer.call(aten.gelu.default, match["x"], approximate="tanh")


RULES = (Rule("written-out GELU", WRITTEN_GELU, _call_gelu),)
