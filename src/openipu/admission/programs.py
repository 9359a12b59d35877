"""A program from a file that somebody else may have written, as a `Program` that is safe to plan and to run.

In: the two parts of a file that `graph.serial` writes, and limits. Out: a `Program`, or a `ProgramFileError`. What is
checked: operators (`operators`), arguments (`schema`), shapes and types of every result (`graphs`), what kernels take
for granted (`relations`, `provenance`), the signature (`signature`), and the memory that it would need.
"""

from __future__ import annotations

from openipu.admission.geometry import Geometry
from openipu.admission.graphs import GraphChecker
from openipu.admission.limits import Limits
from openipu.admission.signature import check_signature
from openipu.errors import ArchiveError, ProgramFileError
from openipu.graph import InputKind, Program
from openipu.graph.collection import pause_collection
from openipu.graph.serial import load_program

_NEXT_STEP = "Do not run it: ask for the file again where it is from, or export the model again."


def read_program(document: bytes, tensors: bytes, limits: Limits | None = None) -> Program:
    """Read and check what `graph.serial.dump_program` wrote, by whomever."""
    limits = limits or Limits()
    try:
        if len(document) > limits.document_bytes:
            raise ProgramFileError(
                f"its description has {len(document):,} bytes; {limits.document_bytes:,} are allowed"
            )
        program = load_program(document, tensors, limits.nodes)
        check_program(program, limits)
    except ArchiveError as error:
        raise ProgramFileError(f"its program is refused: {error}. {_NEXT_STEP}") from error
    return program


def check_program(program: Program, limits: Limits | None = None) -> None:
    """Refuse a program that capture could not have written, or that would harm this machine."""
    limits = limits or Limits()
    check_signature(program)
    _check_constants(program)
    checker = GraphChecker(limits)
    with pause_collection():
        micro = checker.check(program.micro)
        update = None if program.update is None else checker.check(program.update)
    state = sum(slot.shape_bytes for slot in program.state_slots)
    peak = max(micro.peak_bytes + state, 0 if update is None else update.peak_bytes)
    if peak > limits.memory_bytes:
        raise ProgramFileError(
            f"one micro-batch needs {peak:,} bytes of memory at once, and this machine has {limits.memory_bytes:,}: "
            "use a machine with more memory, or compile the model with a smaller micro-batch"
        )


def _check_constants(program: Program) -> None:
    named = set[str]()
    for graph in filter(None, (program.micro, program.update)):
        for entry in graph.inputs_of(InputKind.CONSTANT):
            named.add(entry.name)
            held = program.constants.get(entry.name)
            if held is None or (tuple(held.shape), held.dtype) != (entry.shape, entry.dtype):
                raise ProgramFileError(f"constant {entry.name!r} is missing, or has another shape or type")
            if held.is_meta and Geometry.read(held).elements:
                raise ProgramFileError(f"constant {entry.name!r} has no values")
    unused = set(program.constants) - named
    if unused:
        raise ProgramFileError(f"constant {min(unused)!r} is used by no graph")
