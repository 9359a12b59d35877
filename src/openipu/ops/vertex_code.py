"""Bytes of code and descriptors that a program's steps need on a tile.

In: a vertex type or a step. Out: estimated bytes. No vendor document lists these sizes, so all are guessed or derived,
each with its reason; `PROVENANCE` says so for reports. They are small beside weights and activations, but always live.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from openipu.machine import Provenance, Source
from openipu.ops.cost import CostStep, StepKind
from openipu.ops.rule import ceil_divide

INSTRUCTION_BYTES = 4  # published: the tile's instructions are 32 bits wide
SEND_INSTRUCTION_BYTES = 256  # published: osmarks/ipu-stack, at most 64 words a send instruction
POINTER_BYTES = 4  # derived: full pointers; Poplar packs some of them into two bytes
SPAN_BYTES = 8  # derived: a pointer and a size

# Code of one vertex type, by the start of its name, longest match first.
# Guessed from the length of the inner loops that the cycle formulas describe, four bytes an instruction.
_CODE_BYTES: Mapping[str, int] = {
    "poplin::ConvPartial1x1Out": 1400,  # supervisor loops over groups, worker with 4 cases of rows
    "poplin::ConvPartialnx1": 2200,  # the same with work lists and kernel positions
    "poplin::ConvPartialHorizontalMac": 1200,
    "poplin::ReduceAdd": 400,
    "poplin::Transpose2D": 500,
    "popops::Reduce": 500,
    "popops::MultiSlice": 450,
    "popops::MultiUpdate": 450,
    "popops::DynamicSlice2D": 350,
    "popops::DynamicUpdateSlice2D": 350,
    "popops::Copy": 120,
    "popops::Fill": 100,
    "popops::Cast": 300,
    "popops::Pool": 900,
    "popops::Sin": 1500,  # range reduction and a polynomial
    "popops::Erf": 700,
    "popops::LogGamma": 900,
}
_OTHER_CODE_BYTES = 260  # an elementwise vertex: about 65 instructions for set-up, vector loop and remainder

# Edges of one vertex instance, by the start of its name: pointers and spans.
_STATE_BYTES: Mapping[str, int] = {
    "poplin::ConvPartial1x1Out": 3 * POINTER_BYTES + SPAN_BYTES + 16,  # in, weights, out, work list, 8 half-word sizes
    "poplin::ConvPartialnx1": 3 * POINTER_BYTES + SPAN_BYTES + 24,
    "poplin::ConvPartialHorizontalMac": 3 * POINTER_BYTES + SPAN_BYTES + 16,
    "popops::Reduce": POINTER_BYTES + SPAN_BYTES + 8,
    "popops::MultiSlice": 3 * POINTER_BYTES + 12,  # indices, table, result, sizes
    "popops::MultiUpdate": 3 * POINTER_BYTES + 12,
    "popops::MultiUpdateAdd": 4 * POINTER_BYTES + 12,
    "popops::Pool": 2 * POINTER_BYTES + SPAN_BYTES + 12,
}
_OTHER_STATE_BYTES = 2 * POINTER_BYTES + SPAN_BYTES  # two operands and a result with its size

# Control code of one step, on each tile.
_CONTROL_INSTRUCTIONS: Mapping[StepKind, int] = {
    StepKind.COMPUTE: 5,  # point at the vertex state, run the supervisor, wait
    StepKind.EXCHANGE: 4,  # call the exchange routine and return
    StepKind.SYNC: 2,
    StepKind.HOST: 12,  # descriptors of the stream packets
    StepKind.LINK: 12,
}
_LOOP_INSTRUCTIONS = 4  # count down and branch, for a step that repeats
PIECE_INSTRUCTIONS = 6  # derived: osmarks/ipu-stack, 3 controls a received fragment, and the set-up of its address
_EXCHANGE_SETUP_INSTRUCTIONS = 3  # base address and multiplexer before the first word

PROVENANCE: Mapping[str, Source] = {
    "vertex code": Source(Provenance.GUESSED, "loop lengths of the Poplibs cycle formulas, 4 bytes an instruction"),
    "vertex state": Source(Provenance.DERIVED, "edges of each vertex: 4 bytes a pointer, 8 a span"),
    "exchange code": Source(
        Provenance.DERIVED, "Poplibs' embedding planner: one instruction for each incoming piece; 64 words a send"
    ),
    "control code": Source(Provenance.GUESSED, "instructions to start one phase"),
}


@lru_cache(maxsize=1024)
def estimate_vertex_code_bytes(vertex: str) -> int:
    """Code of one vertex type: one copy on each tile that has any such vertex."""
    return _find_longest(_CODE_BYTES, vertex, _OTHER_CODE_BYTES)


@lru_cache(maxsize=1024)
def estimate_vertex_state_bytes(vertex: str) -> int:
    """State of one vertex instance."""
    return _find_longest(_STATE_BYTES, vertex, _OTHER_STATE_BYTES)


def estimate_step_state_bytes(step: CostStep) -> int:
    """State of all instances that one compute step has on a tile; none for other steps."""
    if step.kind is not StepKind.COMPUTE or not step.vertex:
        return 0
    return step.vertices_per_tile * estimate_vertex_state_bytes(step.vertex)


def estimate_exchange_code_bytes(step: CostStep) -> int:
    """Instructions of one exchange step on a tile: one for each incoming piece, and sends of at most 64 words.

    Repetitions share their code.
    """
    if step.kind is not StepKind.EXCHANGE:
        return 0
    sent_bytes = ceil_divide(step.moved_bytes, max(1, step.tiles))
    sends = ceil_divide(sent_bytes, SEND_INSTRUCTION_BYTES)
    return INSTRUCTION_BYTES * (_EXCHANGE_SETUP_INSTRUCTIONS + step.messages_per_tile + sends)


def estimate_control_code_bytes(step: CostStep) -> int:
    """Instructions that start one step on a tile."""
    loop = _LOOP_INSTRUCTIONS if step.repeats > 1 else 0
    return INSTRUCTION_BYTES * (_CONTROL_INSTRUCTIONS[step.kind] + loop)


def _find_longest(sizes: Mapping[str, int], vertex: str, otherwise: int) -> int:
    matches = [prefix for prefix in sizes if vertex.startswith(prefix)]
    return sizes[max(matches, key=len)] if matches else otherwise
