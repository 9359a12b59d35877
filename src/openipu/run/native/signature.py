"""What a compiled graph takes and returns, and its file format.

In: a draft. Out: a `Signature`: every placeholder in order, the constants among them, the results. It is stored beside
the native code as JSON and tensors, so that a program that was compiled before needs no drafting.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import torch

from openipu.errors import ArchiveError
from openipu.files.documents import parse_json
from openipu.files.origin import Origin
from openipu.files.values import Count, Whole
from openipu.graph import GraphInput, GraphOutput, InputKind, OutputKind
from openipu.graph.serial import pack_tensors, unpack_tensors
from openipu.graph.serial.values import DTYPES
from openipu.run.aliasing import draws_random_numbers
from openipu.run.draft import Draft

_Row = tuple[str, str, list[Count], str, Whole]  # kind, name, shape, number format, index


class _Document(msgspec.Struct, frozen=True):
    placeholders: list[_Row | None]
    outputs: list[_Row]
    shared_states: dict[str, str]
    random: bool


@dataclass(frozen=True, eq=False)
class Signature:
    """The outside of one compiled graph."""

    placeholders: tuple[GraphInput | None, ...]  # None: the next constant
    constants: tuple[torch.Tensor, ...]
    outputs: tuple[GraphOutput, ...]
    shared_states: Mapping[str, str]  # state -> the one that stands for it
    random: bool  # draws from PyTorch's generator

    @classmethod
    def read(cls, draft: Draft) -> Signature:
        """The signature of a draft."""
        entries = {entry.node: entry for entry in draft.inputs}
        names = [node.name for node in draft.graph.find_nodes(op="placeholder")]
        return cls(
            tuple(None if name in draft.bound else entries[name] for name in names),
            tuple(draft.bound[name].contiguous() for name in names if name in draft.bound),
            draft.outputs,
            dict(draft.shared_states),
            any(draws_random_numbers(node) for node in draft.graph.nodes),
        )

    def write(self) -> tuple[bytes, bytes]:
        """JSON, and the bytes of the constants."""
        document = {
            "placeholders": [None if entry is None else _describe(entry) for entry in self.placeholders],
            "outputs": [_describe(entry) for entry in self.outputs],
            "shared_states": dict(self.shared_states),
            "random": self.random,
        }
        constants = pack_tensors({str(index): value for index, value in enumerate(self.constants)})
        return json.dumps(document, separators=(",", ":")).encode(), constants

    @classmethod
    def parse(cls, text: bytes, tensors: bytes) -> Signature:
        """What `write` wrote."""
        origin = Origin("The signature of a compiled program", ArchiveError, "The program is compiled again.")
        document = parse_json(text, _Document, origin)
        try:
            return cls(
                tuple(
                    None if row is None else GraphInput("", InputKind(row[0]), *_parse(row))
                    for row in document.placeholders
                ),
                tuple(unpack_tensors(tensors).values()),
                tuple(GraphOutput(OutputKind(row[0]), *_parse(row)) for row in document.outputs),
                document.shared_states,
                document.random,
            )
        except (ValueError, KeyError) as error:
            raise origin.fail(f"cannot be read ({error})") from error


def _describe(entry: GraphInput | GraphOutput) -> list[Any]:
    dtype = str(entry.dtype).removeprefix("torch.")
    return [entry.kind.value, entry.name, list(entry.shape), dtype, entry.index]


def _parse(row: _Row) -> tuple[str, tuple[int, ...], torch.dtype, int]:
    _, name, shape, dtype, index = row
    return name, tuple(shape), DTYPES[dtype], index
