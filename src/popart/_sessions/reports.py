"""What a session reports: profiles as `pva` reads them, summaries, cycles.

In: a compiled program, and the device it is for. Out: reports of its plan; errors where PopART would have none.
"""

from __future__ import annotations

import json
from typing import Any

from openipu.environment.engine_options import EngineOptions
from openipu.report import build_profile, render_text
from openipu.report import summarise as summarise_profile
from openipu.session import Compiled
from popart._device_manager import DeviceInfo
from popart._enumerations.devices import DeviceType
from popart._exceptions import popart_exception, poplar_exception

NOT_PREPARED = "Session must have been prepared before a report can be fetched"


def require_report(compiled: Compiled | None, device: DeviceInfo, engine: EngineOptions) -> Compiled:
    """What is reported on, or an error that says why there is nothing."""
    if compiled is None:
        raise popart_exception(NOT_PREPARED)
    if device.type is DeviceType.Cpu:
        raise poplar_exception("Profiling is disabled for current device type.")
    return compiled


def open_report(compiled: Compiled, run_name: str = "") -> Any:
    """The profile as `pva.Report`. `run_name`: what the program called its last run."""
    from pva._report import Report

    return Report(build_profile(compiled.plan), run_name)


def summarise(compiled: Compiled) -> str:
    """The plan in words."""
    return render_text(summarise_profile(build_profile(compiled.plan)))


def serialise_graph(compiled: Compiled) -> str:
    """The ops of the plan as JSON."""
    program = compiled.program
    nodes = [
        {"name": node.name, "op": str(node.target), "inputs": [source.name for source in node.all_input_nodes]}
        for node in program.micro.module.graph.nodes
        if node.op == "call_function"
    ]
    return json.dumps({"name": program.name, "nodes": nodes})
