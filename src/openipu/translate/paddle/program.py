"""A program of Paddle as plain data, whichever of its two forms it was written in.

In: nothing. Out: the types between the readers, the slicing of a program and its translation. Names of ops, slots and
attributes are those of the legacy form.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from openipu.graph import SourceLine

# Numbers of VarType.Type
DTYPES: dict[int, torch.dtype] = {
    0: torch.bool,
    1: torch.int16,
    2: torch.int32,
    3: torch.int64,
    4: torch.float16,
    5: torch.float32,
    6: torch.float64,
    19: torch.int64,
    20: torch.uint8,
    21: torch.int8,
    22: torch.bfloat16,
    23: torch.complex64,
    24: torch.complex128,
    32: torch.float8_e4m3fn,
    33: torch.float8_e5m2,
}
NUMBERS = {dtype: number for number, dtype in reversed(DTYPES.items())}


@dataclass(frozen=True, slots=True)
class PaddleVariable:
    """A tensor that a block declares."""

    name: str
    dtype: torch.dtype | None  # None: no tensor, such as the list of feeds
    shape: tuple[int, ...]  # -1: known when it is fed
    persistable: bool = False
    is_parameter: bool = False
    stop_gradient: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class PaddleOp:
    """One op: names of its tensors by slot."""

    type: str
    inputs: Mapping[str, tuple[str, ...]]
    outputs: Mapping[str, tuple[str, ...]]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    number: int = 0  # its place in its block
    line: SourceLine | None = None  # of the user's code, for programs of this process

    @property
    def role(self) -> int:
        """What the op is for: bits of OpRole."""
        role = self.attributes.get("op_role", 0)
        return role if isinstance(role, int) else 0

    def list_inputs(self) -> list[str]:
        return [name for names in self.inputs.values() for name in names]

    def list_outputs(self) -> list[str]:
        return [name for names in self.outputs.values() for name in names]

    def one_input(self, slot: str) -> str | None:
        """The name in a slot that holds one tensor."""
        names = self.inputs.get(slot, ())
        return names[0] if names else None


@dataclass(frozen=True, slots=True, eq=False)
class PaddleBlock:
    """Ops in the order in which they run."""

    variables: Mapping[str, PaddleVariable]
    ops: tuple[PaddleOp, ...]
    parent: int = -1


@dataclass(frozen=True, slots=True, eq=False)
class PaddleProgram:
    """Blocks; the first is the program itself, the others are bodies of its control flow."""

    blocks: tuple[PaddleBlock, ...]
    file: str = ""

    @property
    def main(self) -> PaddleBlock:
        return self.blocks[0]
