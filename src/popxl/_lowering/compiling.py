"""A program that is compiled, and its runs.

In: an `Ir`; arrays for its streams, with dimensions for transfers and replicas in front where there are several.
Out: a `CompiledProgram`; arrays of the streams that it stores to.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from openipu.environment.engine_options import read_engine_options
from openipu.explore import make_advisor
from openipu.graph import RunOptions, Strategy
from openipu.plan import Plan
from openipu.session import FrontEnd, compile_program
from popart._sessions.machine import choose_machine
from popxl._lowering.devices import Attachment
from popxl._lowering.memory import Memory
from popxl._lowering.program import LoweredProgram, lower
from popxl._lowering.traffic import shape_transfers
from popxl.dtypes import from_held, to_held
from popxl.ir import Ir
from popxl.streams import DeviceToHostStream, HostToDeviceStream, Stream

Array = np.ndarray[Any, Any]


class CompiledProgram:
    """One program, with its memory on the device."""

    def __init__(self, ir: Ir, lowered: LoweredProgram, compiled: Any) -> None:
        self.ir, self.lowered, self.compiled = ir, lowered, compiled
        self.memory = Memory(ir, lowered, compiled.executable)

    @property
    def plan(self) -> Plan:
        """What an IPU would do."""
        found: Plan = self.compiled.plan
        return found

    def run(self, given: Mapping[HostToDeviceStream, Array]) -> dict[DeviceToHostStream, Array]:
        """One run of the main graph."""
        leaves = [to_held(self._order(given[stream], stream), stream.dtype) for stream in self.lowered.inputs]
        found = self.compiled.executable.run(leaves).outputs
        outputs = zip(self.lowered.outputs, found, strict=True)
        return {stream: self._restore(_as_array(value, stream), stream) for stream, value in outputs}

    def _order(self, array: Array, stream: Stream) -> Array:
        """[transfer, replica, …] -> [device iteration, replica, transfer, …], on one dimension."""
        iterations, transfers, replicas = self._sizes
        if iterations * transfers > 1:
            array = array[: iterations * transfers]
        full = array.reshape(iterations, transfers, replicas, *stream.shape)
        ordered = full.swapaxes(1, 2) if transfers > 1 and replicas > 1 else full
        first, *rest = shape_transfers(stream, transfers)
        return np.ascontiguousarray(ordered).reshape(iterations * replicas * first, *rest)

    def _restore(self, array: Array, stream: Stream) -> Array:
        iterations, transfers, replicas = self._sizes
        full = array.reshape(iterations, replicas, transfers, *stream.shape)
        return full.swapaxes(1, 2) if transfers > 1 and replicas > 1 else full

    @property
    def _sizes(self) -> tuple[int, int, int]:
        return self.lowered.iterations, self.lowered.transfers, self.ir.instance_replication_factor


def _as_array(value: Any, stream: DeviceToHostStream) -> Array:
    tensor = value if isinstance(value, torch.Tensor) else torch.as_tensor(value)
    return from_held(tensor.to(stream.dtype._held), stream.dtype)


def compile_ir(ir: Ir, attachment: Attachment) -> CompiledProgram:
    """Capture a program, plan it, and make it executable."""
    lowered = lower(ir, name="popxl")
    wished = ir._pb_ir.getSessionOptions()
    options = RunOptions(
        device_iterations=lowered.iterations,
        replicas=ir.instance_replication_factor,
        instances=ir._instances,
        broadcast_buffers=False,
        batching=False,
        strategy=Strategy.SHARDED,
        remote_buffers=frozenset(lowered.remote.values()),
        io_tiles=int(getattr(wished.numIOTiles, "value", wished.numIOTiles)),
        half_partials=str(wished.partialsTypeMatMuls).lower() == "half",
        stochastic_rounding=bool(wished.enableStochasticRounding),
        floating_point_exceptions=bool(wished.enableFloatingPointChecks),
    )
    engine = read_engine_options(wished.engineOptions)
    caches = bool(wished.enableEngineCaching) and bool(wished.cachePath)
    compiled = compile_program(
        lowered.program,
        options=options,
        system=choose_machine(attachment.device),
        profile_directory=engine.report_directory / lowered.program.name if engine.wants_profile else None,
        show_progress=False,
        front_end=FrontEnd(advise=make_advisor("popart")),
        cache_directory=Path(wished.cachePath) if caches else None,
    )
    return CompiledProgram(ir, lowered, compiled)
