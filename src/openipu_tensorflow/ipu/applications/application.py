"""An application: a program as a file, with what it is given when it starts and what for each call.

In: a captured program and its signature. Out: one file of JSON and plain tensors, and no code; read back within limits,
and checked before anything of it runs. What runs is compiled again where the file is read.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import torch

import tensorflow as tf
from openipu.admission import Limits, check_program, read_program
from openipu.errors import ArchiveError, ExportError
from openipu.files.origin import Origin
from openipu.files.values import convert
from openipu.graph import InputKind, OutputKind, Program, RunOptions
from openipu.graph.serial import Archive, dump_program, read_archive, write_archive
from openipu.numerics import Overflow
from openipu.session import compile_program
from openipu.translate.foreign import TensorType
from openipu.translate.tensorflow.steps import StepProgram
from openipu_tensorflow.engine.step import Port, Step, StepVariable
from openipu_tensorflow.graphs.formats import find_format

KIND = "tensorflow application"
_GRAPH, _CONSTANTS = "program.json", "program.bin"
_NEXT = "Write it again with experimental_application_compile_op."


class TensorInfo(msgspec.Struct, frozen=True):
    """A tensor that goes in or out: its name, its shape, and TensorFlow's name of its type."""

    name: str
    shape: list[int]
    dtype: str

    def as_port(self) -> Port:
        return Port(self.name, tf.as_dtype(self.dtype), tuple(self.shape))


class Signature(msgspec.Struct, frozen=True):
    """`inputs` and variables are given when it starts, what is streamed for each call."""

    inputs: list[TensorInfo] = []
    streamed_inputs: list[TensorInfo] = []
    outputs: list[TensorInfo] = []
    streamed_outputs: list[TensorInfo] = []


class Arithmetic(msgspec.Struct, frozen=True):
    """How the device that it was compiled for computes; see `RunOptions`."""

    half_partials: bool = False
    stochastic_rounding: bool = False
    half_overflow: Overflow = Overflow.SATURATE
    floating_point_exceptions: bool = False


class _Values(msgspec.Struct, frozen=True):
    name: str
    signature: Signature
    frozen: list[TensorInfo]
    arithmetic: Arithmetic


@dataclass(frozen=True, eq=False)
class Application:
    """What a file holds."""

    name: str
    signature: Signature
    program: Program
    frozen: Sequence[TensorInfo] = ()  # variables whose values are part of the file
    arithmetic: Arithmetic = field(default_factory=Arithmetic)
    values: Mapping[str, torch.Tensor] = field(default_factory=dict)


def write_application(path: Path, application: Application) -> None:
    """Write a file that `read_application` of this version reads."""
    try:
        check_program(application.program, Limits(memory_bytes=sys.maxsize))  # another machine may have more
        serial = dump_program(application.program)
    except (ArchiveError, ExportError) as error:
        raise NotImplementedError(
            f"{application.name!r} cannot be an application, because it holds what no file can: {error}"
        ) from error
    values = msgspec.to_builtins(
        _Values(application.name, application.signature, list(application.frozen), application.arithmetic)
    )
    blobs = {_GRAPH: serial.document, _CONSTANTS: serial.tensors}
    write_archive(path, Archive(KIND, values, dict(application.values), blobs))


def read_application(path: Path) -> Application:
    """Read a file of anybody's; ArchiveError says why it cannot be used."""
    archive = read_archive(path, KIND)
    origin = Origin(str(path), ArchiveError, _NEXT)
    values = convert(archive.values, _Values, origin)
    if _GRAPH not in archive.blobs or _CONSTANTS not in archive.blobs:
        raise origin.fail("is damaged: it has no program")
    program = read_program(archive.blobs[_GRAPH], archive.blobs[_CONSTANTS])
    held = dict(archive.tensors)
    application = Application(values.name, values.signature, program, values.frozen, values.arithmetic, held)
    reason = _find_fault(application)
    if reason:
        raise origin.fail(f"is damaged: {reason}")
    return application


def _find_fault(application: Application) -> str:
    """Why a file does not speak of its own program."""
    signature, program = application.signature, application.program
    held = [*signature.inputs, *application.frozen]
    streams, results = signature.streamed_inputs, [*signature.streamed_outputs, *signature.outputs]
    for info in (*held, *streams, *results):
        if not _is_type(info.dtype):
            return f"a tensor of type {info.dtype[:40]!r} is none of an IPU"
    inputs = program.micro.inputs
    wanted = {entry.name: entry for entry in inputs if entry.kind in (InputKind.PARAMETER, InputKind.BUFFER)}
    if len({info.name for info in held}) != len(held) or set(wanted) != {info.name for info in held}:
        return "its inputs are not those of its program"
    leaves = [entry for entry in inputs if entry.kind is InputKind.INPUT]
    made = [entry for entry in program.micro.outputs if entry.kind is OutputKind.OUTPUT]
    pairs = [(info, wanted[info.name]) for info in held]
    if program.training or len(leaves) > len(streams) or len(made) != len(results):
        return "its signature is not that of its program"
    pairs += [(streams[entry.index], entry) for entry in leaves if entry.index < len(streams)]
    if len(pairs) != len(held) + len(leaves):
        return "its signature is not that of its program"
    for info, entry in pairs:
        if tuple(info.shape) != entry.shape or find_format(tf.as_dtype(info.dtype)) != entry.dtype:
            return f"{info.name[:100]!r} is another tensor in its program"
    for info in application.frozen:
        value = application.values.get(info.name)
        if value is None or value.is_meta or list(value.shape) != info.shape:
            return f"the value of {info.name[:100]!r} is missing"
    return ""


def _is_type(name: str) -> bool:
    try:
        return find_format(tf.as_dtype(name)) is not None
    except TypeError:
        return False


def start_application(application: Application) -> Step:
    """Compile it; `Step.load` then takes values by name."""
    inputs = application.program.micro.inputs
    held = [*application.signature.inputs, *application.frozen]
    captured = StepProgram(
        application.program,
        tuple(entry.name for entry in inputs if entry.kind is InputKind.PARAMETER),
        tuple(entry.name for entry in inputs if entry.kind is InputKind.BUFFER),
        {},
        (),
    )
    ports = [info.as_port() for info in held]
    signature = application.signature
    options = RunOptions(training=False, **msgspec.structs.asdict(application.arithmetic))
    return Step(
        compile_program(application.program, options=options),
        captured,
        {port.name: StepVariable(port.name, port.dtype, port.shape, False, False) for port in ports},
        [info.as_port() for info in signature.streamed_inputs],
        [info.as_port() for info in (*signature.streamed_outputs, *signature.outputs)],
        [],
        {port.name: TensorType(_format(port.dtype), port.shape) for port in ports},
    )


def _format(dtype: Any) -> torch.dtype:
    found = find_format(dtype)
    assert found is not None  # checked when it was read
    return found
