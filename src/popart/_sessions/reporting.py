"""What a session tells about its program: cycles, reports, the graph as text.

In: a session, compiled. Out: modelled cycles, `pva.Report`s, words, JSON.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from openipu.session import Compiled
from popart._enumerations.sessions import Instrumentation, IrSerializationFormat
from popart._exceptions import popart_exception
from popart._sessions import ir_text, reports
from popart._sessions.base import Session
from popart._sessions.streams import INPUT, OUTPUT
from popart._sessions.translation import read_engine


class ReportingSession(Session):
    """A session that can be asked about its program."""

    def _serializeIr(self, format: IrSerializationFormat) -> str:
        return ir_text.serialise(self._model.onnx.graph)

    def getCycleCount(self, id: str = "") -> int:
        """Modelled cycles of one step."""
        if not self._options.instrumentWithHardwareCycleCounter:
            raise popart_exception(
                "SessionOption 'instrumentWithHardwareCycleCounter' must be set to True in order to measure cycle count"
            )
        compiled = self._require("getCycleCount")
        if not self._has_run:
            raise popart_exception("Must call run before getCycleCount.")
        if id.startswith("inner") != (Instrumentation.Inner in self._options.hardwareInstrumentations and bool(id)):
            raise popart_exception(
                f"There is no cycle counter {id!r}. Make sure you have set SessionOption::hardwareInstrumentations "
                "correctly."
            )
        return int(compiled.plan.timing.call_cycles)

    def getReport(self) -> Any:
        """The plan as `pva.Report`."""
        return reports.open_report(self._require_report(), self._run_name)

    def getSummaryReport(self, resetProfile: bool = True) -> str:
        """The plan in words."""
        return reports.summarise(self._require_report())

    def getSerializedGraph(self) -> bytes:
        """The program as JSON."""
        return reports.serialise_graph(self._require_report()).encode()

    def _require_report(self) -> Compiled:
        if not self._options.compileEngine:
            raise popart_exception(reports.NOT_PREPARED)
        if self._from_file:
            raise popart_exception("Unable to get reports when using a cached executable.")
        return reports.require_report(self._compiled, self._device, read_engine(self._options))

    def checkInplacingAmbiguity(self) -> bool:
        """Never: programs are functional."""
        return False

    def connectStreamToCallback(self, streamHandle: str, callback: Callable[..., object], index: int = 0) -> None:
        """Let a function fill, or get, the micro-batches of a stream: `h2d_<input>` or `d2h_<anchor>` of a replica."""
        known = {f"{INPUT}{entry.name}" for entry in self._model.inputs}
        known |= {f"{OUTPUT}{anchor}" for anchor in self._flow.anchors()}
        self._streams.connect(streamHandle, callback, index, known, self.replicationFactor)
