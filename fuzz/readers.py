"""What a user's command does with each kind of file, to the end and without writing anything.

Imports stand inside: a worker imports only what its kind needs.
"""

from __future__ import annotations

import json
import traceback
from pathlib import Path
from typing import Any

_MOST_TURNS = 100


def show_profile(path: Path) -> None:
    """As `openipu report`, and as a script with pva."""
    from openipu.report import find_insights, read_profile, render_insights, render_text, summarise, to_json
    from openipu.report.html import pack_data
    from pva._report import Report

    profile = read_profile(path)
    render_text(summarise(profile))
    render_insights(find_insights(profile))
    json.dumps(to_json(profile), allow_nan=False)
    pack_data(profile)  # what the page holds
    report = Report(profile)
    for program in report.compilation.programs:
        str(program)
    for step in report.compilation.livenessProgramSteps:
        step.notAlwaysLiveMemory.bytes  # noqa: B018
    for tile in report.compilation.tiles:
        tile.memory.total.includingGaps  # noqa: B018


def show_trace(path: Path) -> None:
    """As `openipu trace`."""
    from openipu.report.system import describe_trace, render_trace_text, to_chrome_trace
    from openipu.report.system.page import pack_trace
    from openipu.trace.read import read_trace

    trace = read_trace(path)
    render_trace_text(trace)
    json.dumps(describe_trace(trace), allow_nan=False)
    pack_trace(trace)
    json.dumps(to_chrome_trace(trace), allow_nan=False)


def read_system(path: Path) -> None:
    from openipu.machine import resolve_system

    system = resolve_system(path)
    target = system.target
    values = (target.mean_latency_cycles, target.farthest_latency_cycles, target.peak_flops(2), target.peak_flops(4))
    json.dumps([*values, target.usable_tile_bytes, system.boards], allow_nan=False)


def read_pod(path: Path) -> None:
    from openipu.pod.description import read_pod_file

    read_pod_file(path).find_partition(None)


def read_fabric(path: Path) -> None:
    from openipu.machine import resolve_system
    from openipu.pod.description import read_fabric_file

    read_fabric_file(path, resolve_system("bow-2000"))


def read_hosts(path: Path) -> None:
    from poprun.hosts import parse_hosts, read_host_file

    for host in read_host_file(path):
        parse_hosts(host)


def read_poprun_options(path: Path) -> None:
    from poprun.options import list_without_effect, parse_options

    list_without_effect(parse_options(["--import-config", str(path), "train.py"]))


def read_trace_variable(path: Path) -> None:
    from openipu.trace.options import read_trace_options

    read_trace_options(_read_variable(path))


def read_engine_variable(path: Path) -> None:
    from openipu.environment.engine_options import read_engine_environment

    read_engine_environment({"POPLAR_ENGINE_OPTIONS": _read_variable(path)})


def _read_variable(path: Path) -> str:
    """Options in an environment variable, of which job scripts of others are full. No shell holds more than this."""
    if not path.is_file() or path.stat().st_size > 1 << 20:
        return ""
    return path.read_text(encoding="utf-8", errors="replace").replace("\0", "")


def read_attachment(path: Path) -> None:
    """What cannot be read counts as gone."""
    from openipu.errors import PodError
    from openipu.pod.attachment import _read_attachment

    if _read_attachment(path) is None:
        raise PodError(f"{path} is not the file of a program that holds IPUs.")


def read_figures(path: Path) -> None:
    from openipu.validation.figures.rows import read_rows

    read_rows(path)


def read_golden_plan(path: Path) -> None:
    from openipu.explore.golden import _read

    _read(path)


def read_ipu_config(path: Path) -> None:
    """Wrong values of fields are TypeErrors and ValueErrors with a message, as Optimum's users know them."""
    from openipu.errors import OptionError
    from optimum.graphcore import IPUConfig

    try:
        IPUConfig.from_pretrained(str(path)) if path.is_file() else IPUConfig._dict_from_json_file(path)
    except (TypeError, ValueError) as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        if "optimum/graphcore" not in frame.filename or not (frame.line or "").startswith("raise"):
            raise
        raise OptionError(f"{path}: {error}"[:1000]) from error


def read_options(path: Path) -> None:
    """Options of a model in JSON, or a setter a line."""
    import poptorch

    options = poptorch.Options()
    if path.is_file() and path.stat().st_size < 1 << 20 and path.read_bytes()[:1] == b"{":
        options.from_json(path.read_bytes().decode("utf-8", errors="replace"))
    else:
        options.loadFromFile(str(path))


def plan_onnx_model(path: Path) -> None:
    """As `openipu plan`, up to the program."""
    from openipu.jobs import capture_job
    from openipu.model_files import load_file_job

    capture_job(load_file_job(path))


def read_paddle_weights(path: Path) -> None:
    """As `openipu run` of the model that they belong to."""
    from openipu.translate.paddle.loading import read_model, read_weights

    model = Path(__file__).parents[1] / "tests" / "data" / "paddle" / "small.pdmodel"
    for weight in read_weights(read_model(model), path).values():
        weight.read()


def read_executable(path: Path) -> None:
    """As `loadExecutable`, up to the graphs, which are compiled only for a model of the same signature."""
    from poptorch._files.export import read_program

    read_program(str(path)).read_graphs()


def run_poplar_executable(path: Path) -> None:
    """Reads, plans, loads and runs; loops are cut short, because a file may say how often they turn."""
    import poplar
    from fuzz.poplar_codelets import Increment
    from openipu.errors import ArchiveError

    try:
        executable = poplar.Executable.deserialize(path, codelets=[Increment])
        if _count_turns(executable.compiled.program) > _MOST_TURNS:
            return
        engine = poplar.Engine(executable)
        engine.getPlan()
        model = poplar.IPUModel()
        model.tilesPerIPU = 4
        engine.loadAndRun(model.createDevice())
    except poplar.poplar_error as error:
        raise ArchiveError(str(error)) from error


def _count_turns(program: Any) -> int:
    from openipu.plan.mapped.walk import count_executions

    return max(count_executions(program, dict.fromkeys(range(len(program.programs)), 1)).values(), default=0)
