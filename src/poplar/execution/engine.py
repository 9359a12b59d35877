"""`Engine` and `Executable`: programs that are loaded on a device and run.

In: a graph with its programs, or an executable. Out: results in the user's own buffers. Variables keep their values
from run to run.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import numpy.typing as npt

from openipu.errors import MappedRunError
from openipu.graph.mapped import StreamKind, View
from openipu.plan import Plan
from openipu.plan.mapped import price_leaves
from openipu.report import build_profile, write_profile
from openipu.run.mapped import MappedEngine
from poplar import program as programs
from poplar._errors import (
    application_runtime_error,
    control_program_error,
    poplar_error,
    runtime_error,
    stream_connection_error,
    tensor_io_state_error,
)
from poplar._graph import Graph
from poplar._host import EngineHost
from poplar._target import Device, TargetType
from poplar.execution.compile import compile_programs
from poplar.execution.executable import Executable
from poplar.execution.options import read_options
from poplar.execution.profile import plan_runs, refuse_overflow, refuse_too_large, write_summary
from poplar.execution.streams import HostCallback, StreamCallback

__all__ = ["Engine", "Executable", "compileGraph"]

_PROFILED_RUNS = 2  # what `autoReport` writes again: later runs are like these

AnyPrograms = programs.Program | Sequence[programs.Program]


def compileGraph(
    graph: Graph,
    given: AnyPrograms,
    options: Mapping[str, str] | None = None,
    progressCallback: Callable[[int, int], None] | None = None,
    debugContext: str = "",
) -> Executable:
    """Compile programs, to be loaded later or saved."""
    read = read_options(options or {})
    every = [given] if isinstance(given, programs.Program) else list(given)
    if progressCallback is not None:
        progressCallback(0, 1)
    compiled = compile_programs(graph, every, check_races=read.check_races, name=debugContext or "poplar")
    if progressCallback is not None:
        progressCallback(1, 1)
    return Executable(compiled, options or {}, graph._target.getTargetType())


class Engine:
    """`Engine(graph, program or programs, options)`, or `Engine(executable, options)`."""

    def __init__(self, source: Graph | Executable, *rest: Any, **named: Any) -> None:
        if isinstance(source, Executable):
            options = named.get("options", rest[0] if rest else None)
            self._executable = source
            self._given = {**source.options, **(options or {})}
        else:
            given = named.get("programs", named.get("program", rest[0] if rest else ()))
            options = named.get("options", rest[1] if len(rest) > 1 else None)
            self._given = dict(options or {})
            self._executable = compileGraph(source, given, self._given, debugContext=named.get("name", ""))
        self.options = read_options(self._given)
        self._kind = self._executable.kind
        self._program = self._executable.compiled.program
        self._host = EngineHost(self._program, prefetches=self.options.prefetches)
        self._host.print_format = self.options.print_format
        self._loaded: MappedEngine | None = None
        self._device: Device | None = None
        self.runs: list[int] = []  # programs, in order
        self._profiled = True
        if self._program.mapped and (self.options.wants_profile or _stops_when_full(self._kind)):
            self._check_memory()

    def _check_memory(self) -> None:
        """Hardware stops where a tile is too full; a model does not."""
        plan = plan_runs(self._program, (), None)
        path = str(write_profile(plan, self.options.report_directory)) if self.options.wants_profile else ""
        if _stops_when_full(self._kind) and not self.options.allow_out_of_memory:
            refuse_overflow(self._program, plan, path)

    # -- running ---------------------------------------------------------------------------------------------------

    def load(self, device: Device) -> None:
        """Bring the program to a device. Memory is fresh afterwards."""
        target = device.getTarget()
        if target.getTargetType() is TargetType.IPU and not device.isAttached():
            raise poplar_error(
                f"Device {device.getId()} is not attached. Call device.attach() first; it says whether the IPU is free."
            )
        tiles = self._program.tiles * self._program.replicas
        if self._program.mapped and target.getNumTiles() < tiles:
            raise poplar_error(
                f"The program was compiled for {tiles} tiles, and the device has {target.getNumTiles()}. Make the "
                "graph for this device's target."
            )
        self._device = device
        refuse_too_large(self._program)
        self._loaded = MappedEngine(
            self._program,
            self._host,
            self._executable.compiled.conflicts,
            watched=self.options.check_written,
            price=lambda: price_leaves(self._program),
        )

    def prepare(self, device: Device) -> None:
        self.load(device)

    def deploy(self) -> None:
        """The program is on the device as soon as it is loaded."""

    def run(self, prog: int = 0, debugName: str = "") -> None:
        """Run one program."""
        loaded = self._require_loaded()
        if not 0 <= prog < len(self._program.programs):
            raise control_program_error(
                f"There is no program {prog}: the engine was made with {len(self._program.programs)}."
            )
        try:
            loaded.run(prog)
        except MappedRunError as error:
            raise application_runtime_error(str(error)) from error.__cause__
        if self.options.wants_profile and self._profiled:
            self.runs.append(prog)
            if len(self.runs) <= _PROFILED_RUNS:
                self.writeProfile()
        elif self._profiled:
            self.runs.append(prog)

    def loadAndRun(self, device: Device, prog: int = 0) -> None:
        self.load(device)
        self.run(prog)

    def stop(self) -> None:
        """A run is over when `run` returns."""

    def _require_loaded(self) -> MappedEngine:
        if self._loaded is None:
            raise runtime_error("The engine is not loaded. Call engine.load(device) first.")
        return self._loaded

    # -- host access -----------------------------------------------------------------------------------------------

    def writeTensor(self, handle: str, values: Any, end: Any = None, replicaIndex: int | None = None) -> None:
        """Write a tensor that `createHostWrite` named."""
        view = _find_view(handle, self._program.host_writes, "createHostWrite")
        array = np.asarray(values)
        if array.dtype != view.type.dtype and not isinstance(values, (list, tuple, int, float)):
            raise tensor_io_state_error(
                f"writeTensor({handle!r}): the tensor has {view.type} ({view.type.dtype}), the array {array.dtype}."
            )
        array = array.astype(view.type.dtype, copy=False)
        loaded = self._require_loaded()
        replicas = range(self._program.replicas) if replicaIndex is None else [replicaIndex]
        whole = replicaIndex is None and array.size == view.elements * self._program.replicas
        if not whole and array.size != view.elements:
            raise tensor_io_state_error(
                f"writeTensor({handle!r}): the tensor has {view.elements} elements, the array {array.size}."
            )
        rows = array.reshape(-1, *view.shape)
        for replica in replicas:
            loaded.write(view, rows[replica if whole else 0], replica)

    def readTensor(self, handle: str, buffer: npt.NDArray[Any] | None = None, end: Any = None) -> npt.NDArray[Any]:
        """Read a tensor that `createHostRead` named, into a buffer if there is one."""
        view = _find_view(handle, self._program.host_reads, "createHostRead")
        loaded = self._require_loaded()
        rows = [loaded.read(view, replica) for replica in range(self._program.replicas)]
        found = rows[0] if len(rows) == 1 else np.stack(rows)
        if buffer is None:
            return found
        if buffer.size != found.size or buffer.dtype != found.dtype:
            raise tensor_io_state_error(
                f"readTensor({handle!r}): the tensor has {found.size} elements of {found.dtype}, the buffer "
                f"{buffer.size} of {buffer.dtype}."
            )
        buffer.reshape(-1)[...] = found.reshape(-1)
        return buffer

    def connectStream(self, handle: str, buffer: Any, end: Any = None, replica: int = 0) -> None:
        """A numpy array as a stream's host side: a ring, where each transfer goes on behind the last one."""
        if isinstance(buffer, (StreamCallback,)) or callable(buffer):
            self.connectStreamToCallback(handle, buffer, replica)
            return
        if not isinstance(buffer, np.ndarray):
            raise stream_connection_error(
                f"Stream {handle!r}: connect a numpy array, of which the run uses the memory itself; got "
                f"{type(buffer).__name__}."
            )
        self._host.connect(self._find_stream(handle), replica, buffer, circular=end is not False)

    def connectStreamToCallback(self, handle: str, callback: Any, replica: int = 0) -> None:
        """A `StreamCallback`, or a function of a buffer."""
        if not isinstance(callback, StreamCallback) and not callable(callback):
            raise stream_connection_error(f"Stream {handle!r}: {callback!r} is no callback.")
        self._host.connect(self._find_stream(handle), replica, callback, circular=False)

    def connectHostFunction(self, handle: str, index: Any, function: Any = None) -> None:
        """A function of (inputs, outputs), or a `HostCallback`."""
        numbers = [n for n, entry in enumerate(self._program.host_functions) if entry.handle == handle]
        if not numbers:
            raise stream_connection_error(f"There is no host function {handle!r} in the program.")
        chosen = index if function is None else function
        if not callable(chosen) and not isinstance(chosen, HostCallback):
            raise stream_connection_error(f"The host function {handle!r}: {chosen!r} cannot be called.")
        self._host.connect_function(numbers[0], chosen)

    def _find_stream(self, handle: str) -> int:
        for number, stream in enumerate(self._program.streams):
            if stream.handle == handle:
                return number
        known = ", ".join(repr(stream.handle) for stream in self._program.streams) or "none"
        raise stream_connection_error(f"There is no stream {handle!r} in the program. Streams: {known}.")

    def copyToRemoteBuffer(self, values: Any, handle: str, index: int = 0, replica: int = 0) -> None:
        """Write one row of a remote buffer."""
        memory = self._find_remote(handle, index, replica)
        memory[index] = np.asarray(values, dtype=memory.dtype).reshape(-1)

    def copyFromRemoteBuffer(
        self, handle: str, buffer: npt.NDArray[Any] | None = None, index: int = 0, replica: int = 0
    ) -> npt.NDArray[Any]:
        """Read one row of a remote buffer."""
        found: npt.NDArray[Any] = self._find_remote(handle, index, replica)[index]
        if buffer is None:
            return found.copy()
        buffer.reshape(-1)[...] = found
        return buffer

    def _find_remote(self, handle: str, index: int, replica: int) -> npt.NDArray[Any]:
        loaded = self._require_loaded()
        for number, entry in enumerate(self._program.remote_buffers):
            if entry.handle == handle:
                if not 0 <= index < entry.rows:
                    raise poplar_error(f"The remote buffer {handle!r} has {entry.rows} rows; {index} is none of them.")
                found: npt.NDArray[Any] = loaded.remote[replica][number]
                return found
        raise poplar_error(f"There is no remote buffer {handle!r} in the program.")

    def setPrintTensorStream(self, stream: TextIO) -> None:
        """Where PrintTensor writes; the standard error without this."""
        self._host.print_stream = stream

    def setPrintStream(self, stream: TextIO) -> None:
        self._host.print_stream = stream

    def listStreams(self) -> list[tuple[str, str]]:
        """Handles, and whether each goes to the device."""
        return [(stream.handle, stream.kind.value) for stream in self._program.streams]

    def listInputs(self) -> list[str]:
        return [one.handle for one in self._program.streams if one.kind is StreamKind.TO_DEVICE]

    # -- profile ---------------------------------------------------------------------------------------------------

    def getPlan(self) -> Plan:
        """What the runs since the last reset cost; before the first one, each program once."""
        return plan_runs(self._program, self.runs, None if self._loaded is None else self._loaded.executions)

    def getReport(self) -> Any:
        """The profile by the names of `pva`."""
        import importlib

        report: Any = importlib.import_module("pva").Report
        return report(build_profile(self.getPlan()))

    def printProfileSummary(self, stream: TextIO | None = None, options: Mapping[str, Any] | None = None) -> None:
        """Target, graph, memory and execution, as text."""
        (stream or sys.stdout).write(write_summary(self._program, self.getPlan(), self.runs, options or {}))

    def writeProfile(self, directory: str | Path | None = None) -> Path:
        """Write `profile.pop`; reports and `pva.openReport` read it."""
        return write_profile(self.getPlan(), Path(directory or self.options.report_directory))

    def disableExecutionProfiling(self) -> None:
        """Runs from here on do not count."""
        self._profiled = False

    def enableExecutionProfiling(self) -> None:
        self._profiled = True

    def resetExecutionProfile(self) -> None:
        """Count executions from here on."""
        self.runs.clear()
        if self._loaded is not None:
            for key in self._loaded.executions:
                self._loaded.executions[key] = 0


def _stops_when_full(kind: TargetType) -> bool:
    return kind is TargetType.IPU


def _find_view(handle: str, known: Mapping[str, View], maker: str) -> View:
    if handle not in known:
        listed = ", ".join(repr(one) for one in known) or "none"
        raise tensor_io_state_error(f"There is no handle {handle!r}: make it with graph.{maker}. Handles: {listed}.")
    return known[handle]
