"""Operations: what the user's graph asked for, with the programs and variables that came of it.

In: a report. Out: `Operation`s in order of execution, named by the module path of the user's model.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from openipu.report.profile import OpRecord, Profile
from pva._lists import LazyList
from pva._programs import Program
from pva._variables import LoweredVariable

if TYPE_CHECKING:
    from pva._report import Report


@dataclass(frozen=True)
class Location:
    """A line of the user's code."""

    fileName: str
    lineNumber: int


class DebugContext:
    """Where an operation comes from."""

    layer = "poptorch"
    parents: tuple[DebugContext, ...] = ()

    def __init__(self, profile: Profile, record: OpRecord) -> None:
        self._profile, self._record = profile, record
        self.id = record.index

    @property
    def location(self) -> Location | None:
        line = self._record.line
        return None if line is None else Location(line.file, line.line)

    @cached_property
    def json(self) -> str:
        record, variables = self._record, self._profile.variables
        content: dict[str, Any] = {
            "category": "op",
            "layer": self.layer,
            "op_name": name_operation(record),
            "opName": name_operation(record),
            "op_type": record.op,
            "instanceId": str(record.index),
            "inputs": [variables[index].name for index in record.reads],
            "outputs": [variables[index].name for index in record.writes],
            "phase": record.phase,
        }
        if record.line is not None:
            content["location"] = {"fileName": record.line.file, "lineNumber": record.line.line}
        return json.dumps(content)


@dataclass(frozen=True, eq=False)
class Operation:
    """One op of the graph."""

    name: str
    debugContext: DebugContext
    firstStepIndex: int
    lastStepIndex: int
    flops: int
    _report: Report
    _record: OpRecord
    replacedDebugContext: tuple[DebugContext, ...] = ()

    def programs(self) -> list[Program]:
        """The programs that it executes, each once."""
        steps = self._report._programs.of_step[self.firstStepIndex : self.lastStepIndex + 1]
        return list({program._id: program for program in steps}.values())

    @property
    def vars(self) -> list[LoweredVariable]:
        """The pieces of memory that it reads and writes, tile by tile."""
        lowered = self._report.compilation.loweredVariables
        indices = dict.fromkeys((*self._record.reads, *self._record.writes, *self._report._scratch_of(self._record)))
        return [piece for index in indices for piece in lowered.of_variable(index)]


def name_operation(record: OpRecord) -> str:
    """Module path and node, separated by slashes: `bert/encoder/layer/0/output/dense/addmm`."""
    return "/".join(part for part in (record.module.replace(".", "/"), record.name) if part)


class OperationAnalysis:
    """The operations of a report."""

    def __init__(self, report: Report) -> None:
        profile = report._profile

        def make(index: int) -> Operation:
            record = profile.ops[index]
            return Operation(
                name=name_operation(record),
                debugContext=DebugContext(profile, record),
                firstStepIndex=record.first_step,
                lastStepIndex=record.first_step + record.step_count - 1,
                flops=record.flops,
                _report=report,
                _record=record,
            )

        self.operations: LazyList[Operation] = LazyList(len(profile.ops), make)
