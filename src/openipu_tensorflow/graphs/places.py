"""Where an op of a TensorFlow graph belongs: its layer, its IPU, its pipeline stage, its part of a step.

In: an op's name and attributes. Out: these. Gradients carry the names of what they differentiate: TensorFlow 2 puts
`gradient_tape/` in front, TensorFlow 1 `gradients/`, and `_grad` behind.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from openipu.graph import Phase
from openipu.translate.foreign import Place

SHARD = "_ipu_shard"  # attributes of ops
STAGE = "_ipu_stage"
OUTSIDE = "_ipu_outside"  # runs on the host while the program waits
CHECKPOINT = "_ipu_checkpoint"  # its value is kept where others are made again
PARTIALS = "_ipu_attribute_PARTIALS_TYPE"  # of products: "half" or "float"
_BACKWARD = re.compile(r"(^|/)(gradient_tape|gradients(_\d+)?)(/|$)")
_OF_OP = re.compile(r"_grad(_\d+)?$")


@dataclass(frozen=True, slots=True)
class Position:
    """What a node's record says of its place."""

    scope: str
    place: Place
    part: Phase


def find_position(name: str, attributes: Any) -> Position:
    """`attributes`: those of the op, as TensorFlow holds them."""
    backward = _BACKWARD.search(name)
    part = Phase.FORWARD if backward is None else Phase.BACKWARD
    return Position(find_scope(name), Place(_read(attributes, SHARD), _read(attributes, STAGE)), part)


def find_scope(name: str) -> str:
    """The layer that an op belongs to: "functional/dense" of ".../gradient_tape/functional/dense/MatMul/MatMul_1"."""
    backward = _BACKWARD.search(name)
    if backward is None:
        return name.rpartition("/")[0].replace("/", ".")
    rest = name[backward.end() :].split("/")
    for place, word in enumerate(rest):
        if _OF_OP.search(word):  # of TensorFlow 1: gradients/dense/MatMul_grad/MatMul
            return ".".join(rest[:place])
    return ".".join(rest[:-2])  # of TensorFlow 2: the op that is differentiated, then the op itself


def _read(attributes: Any, name: str) -> int | None:
    if name not in attributes:
        return None
    value = attributes[name]
    kind = value.WhichOneof("value")
    if kind == "list":
        return int(value.list.i[0]) if len(value.list.i) and value.list.i[0] >= 0 else None
    number = int(value.i) if kind == "i" else int(value.s or b"-1")
    return number if number >= 0 else None
