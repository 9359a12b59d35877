"""How the web report bears a large program: 1,472 tiles, 16 IPUs, 5,000 steps on each of them.

In: nothing. Out: a report in a directory, and its size, its time to open and its frame times in Chromium.

    python -m bench.report_scale [DIRECTORY] [--json FILE]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from openipu.machine import resolve_system
from openipu.report import Profile, find_insights, write_html
from openipu.report.profile import (
    FitRecord,
    LineRecord,
    MemoryRecord,
    OpRecord,
    StepColumns,
    TimingRecord,
    VariableRecord,
)

IPUS, TILES, STEPS_OF_AN_IPU, STEPS_OF_AN_OP = 16, 1472, 5000, 4
KINDS = ("sync", "exchange", "compute", "compute")
FRAMES = 90
MOST_OPEN_SECONDS, MOST_FRAME_MS, MOST_INSIGHT_SECONDS = 2.0, 50.0, 1.0  # on a machine that does nothing else
# One gesture a frame: zoom in and out, then pan. Frames are timed by the browser's own clock.
MOVE = """
const done = arguments[arguments.length - 1];
const canvases = [...document.querySelectorAll('main canvas')];
const canvas = canvases.filter((one) => one.offsetParent && one.tabIndex >= 0).at(-1);
const times = []; let last = performance.now(); let left = arguments[0];
const keys = ['+', '+', '+', 'PageDown', 'PageDown', 'PageUp', '-', 'PageDown', '-', '0'];
const next = (now) => {
  times.push(now - last); last = now;
  if (!left--) return done(times.slice(5));
  canvas.dispatchEvent(new KeyboardEvent('keydown', {key: keys[left % keys.length], bubbles: true}));
  requestAnimationFrame(next);
};
requestAnimationFrame(next);
"""


def build_large_profile(ipus: int = IPUS, steps_of_an_ipu: int = STEPS_OF_AN_IPU, seed: int = 0) -> Profile:
    """A training step over a pipeline of IPUs, with figures drawn at random but of a real program's shape."""
    draw = np.random.default_rng(seed)
    count = ipus * steps_of_an_ipu
    system = resolve_system("bow-pod16")
    ipu = np.repeat(np.arange(ipus), steps_of_an_ipu)
    op_of_step = np.arange(count) // STEPS_OF_AN_OP
    kinds = tuple(KINDS[step % STEPS_OF_AN_OP] for step in range(count))
    phases = tuple("forward" if step % steps_of_an_ipu < steps_of_an_ipu // 2 else "update" for step in range(count))
    cycles = np.where(np.array(kinds) == "sync", 126.0, np.round(draw.gamma(2.0, 400.0, count)))
    compute = np.array([kind == "compute" for kind in kinds])
    nothing = np.zeros(count, dtype=np.int64)
    steps = StepColumns(
        kind=kinds,
        name=tuple("sync" if kind == "sync" else f"{kind} of the op" for kind in kinds),
        phase=phases,
        cycles=cycles,
        tiles=np.full(count, TILES, dtype=np.int64),
        moved_bytes=np.where(compute, 0, draw.integers(1000, 10**7, count)),
        flops=np.where(compute, draw.integers(10**6, 10**9, count), 0),
        op=op_of_step,
        repeats=nothing + 1,
        per_call=nothing,
        ipu=ipu,
        stage=ipu,
        program=np.arange(count) % 1200,
        first_tile=nothing,
        vertex=tuple("poplin::ConvPartial1x1Out<half>" if one else "" for one in compute),
        vertices_per_tile=compute.astype(np.int64) * 6,
        state_bytes=compute.astype(np.int64) * 288,
        exchange_code_bytes=np.where(compute, 0, 96),
        control_code_bytes=nothing + 16,
    )
    ops, variables = _build_ops(steps, ipus, steps_of_an_ipu, draw)
    memory = tuple(_build_memory(place, count, steps_of_an_ipu, draw) for place in range(ipus))
    peak = np.stack([record.peak for record in memory])
    worst = np.unravel_index(int(peak.argmax()), peak.shape)
    limit = system.target.usable_tile_bytes
    over = np.maximum(peak - limit, 0)
    total = float(cycles.sum())
    return Profile(
        openipu_version="0",
        created="2026-01-01T00:00:00+00:00",
        name=f"scale: {ipus} IPUs, {TILES:,} tiles, {steps_of_an_ipu:,} steps each",
        micro_batch=4,
        system=system,
        options={"training": True, "device_iterations": 1, "gradient_accumulation": 1},
        ops=ops,
        steps=steps,
        variables=variables,
        memory=memory,
        fit=FitRecord(
            fits=not over.any(),
            limit_bytes=limit,
            peak_bytes=int(peak.max()),
            peak_tile=int(worst[1]),
            peak_ipu=int(worst[0]),
            peak_step=int(memory[int(worst[0])].peak_step_by_tile[worst[1]]),
            tiles_over=int((over > 0).sum()),
            bytes_over=int(over.sum()),
            needed_bytes=int(peak.sum()),
            culprits=(),
        ),
        timing=TimingRecord(total / 2, total / 2, 0.0, total, system.target.clock_hz, 4, 0.0),
        guesses={},
        planning_seconds=1.0,
        passes={"lower": 1.0},
        warnings=(),
    )


def _build_ops(
    steps: StepColumns, ipus: int, steps_of_an_ipu: int, draw: np.random.Generator
) -> tuple[tuple[OpRecord, ...], tuple[VariableRecord, ...]]:
    """One op for every four steps; each reads what the op before it wrote, and a weight."""
    names = ("aten.addmm.default", "aten.gelu.default", "aten.native_layer_norm.default", "aten.bmm.default")
    families = ("matmul", "elementwise", "norm", "matmul")
    ops: list[OpRecord] = []
    variables: list[VariableRecord] = []
    count = len(steps) // STEPS_OF_AN_OP
    for index in range(count):
        first = index * STEPS_OF_AN_OP
        ipu = int(steps.ipu[first])
        own = slice(first, first + STEPS_OF_AN_OP)
        layer = index * 24 // count
        last = min(first + int(draw.integers(4, 900)), (ipu + 1) * steps_of_an_ipu - 1)
        size = int(draw.integers(1, 400)) * TILES * 8
        ops.append(
            OpRecord(
                index=index,
                name=f"op_{index}",
                op=names[index % 4],
                family=families[index % 4],
                phase=steps.phase[first],
                module=f"model.layers.{layer}.block{index % 7}.part{index % 5}",
                line=LineRecord("/home/ada/project/model.py", 40 + index % 200, "forward"),
                cycles=float(steps.cycles[own].sum()),
                flops=int(steps.flops[own].sum()),
                moved_bytes=int(steps.moved_bytes[own].sum()),
                scratch_bytes_per_tile=0,
                first_step=first,
                step_count=STEPS_OF_AN_OP,
                provenance="derived",
                basis="drawn at random",
                ipu=ipu,
                stage=ipu,
                plan={},
                reads=(2 * index - 1, 2 * index) if index else (0,),
                writes=(2 * index + 1,),
            )
        )
        place = {"grain_bytes": 8, "op": index, "ipu": ipu, "tiles": TILES, "dtype": "float16", "shape": (size // 2,)}
        weight = {"name": f"{ops[-1].module}.weight_{index}", "kind": "parameter", "total_bytes": size // 64 * 8}
        result = {"name": f"op_{index}", "kind": "activation", "total_bytes": size}
        always = {"always_live": True, "first_tile": 0, "first_step": 0, "last_step": -1}
        while_read = {"always_live": False, "first_tile": index % TILES, "first_step": first, "last_step": last}
        variables.append(VariableRecord(index=2 * index, **weight, **always, **place))
        variables.append(VariableRecord(index=2 * index + 1, **result, **while_read, **place))
    return tuple(ops), tuple(variables)


def _build_memory(ipu: int, count: int, steps_of_an_ipu: int, draw: np.random.Generator) -> MemoryRecord:
    own = slice(ipu * steps_of_an_ipu, (ipu + 1) * steps_of_an_ipu)
    live, fullest = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
    hill = np.sin(np.linspace(0, np.pi, steps_of_an_ipu)) * 2e8
    live[own] = np.maximum(0, hill + draw.normal(0, 4e6, steps_of_an_ipu)).astype(np.int64)
    fullest[own] = live[own] // TILES
    names = ("vertexCode", "vertexInstanceState", "internalExchangeCode", "hostExchangeCode", "controlCode")
    return MemoryRecord(
        ipu=ipu,
        always_live=draw.integers(150_000, 180_000, TILES),
        categories={name: draw.integers(2000, 20_000, TILES) for name in names},
        peak_not_always_live=draw.integers(120_000, 180_000, TILES),
        peak_step_by_tile=draw.integers(own.start, own.stop, TILES),
        live_by_step=live,
        fullest_by_step=fullest,
    )


def measure(path: Path) -> dict[str, Any]:
    """Open the page in Chromium: seconds to the first view, and frame times while zooming and panning."""
    with open_browser() as page:
        return {"open_seconds": time_opening(page, path), "views": {v: _time_view(page, v) for v in VIEWS}}


@contextlib.contextmanager
def open_browser() -> Iterator[Any]:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    browser, driver = shutil.which("chromium") or shutil.which("google-chrome"), shutil.which("chromedriver")
    if not (browser and driver):
        sys.exit("Measuring needs Chromium and chromedriver.")
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        for flag in ("--headless=new", "--no-sandbox", "--window-size=1400,1000", f"--user-data-dir={folder}"):
            options.add_argument(flag)
        page = webdriver.Chrome(service=Service(driver), options=options)
        try:
            yield page
        finally:
            page.quit()


VIEWS = ("summary", "insights", "memory", "liveness", "programs", "trace", "operations", "graph")
MOVING = ("memory", "liveness", "trace", "graph")


def time_opening(page: Any, path: Path) -> float:
    """Median of five: from navigation to the painted summary."""
    found = []
    for _ in range(5):
        page.get("about:blank")
        page.get(path.as_uri())
        script = (
            "const done = arguments[0]; const look = () => document.querySelector('h1')"
            " ? requestAnimationFrame(() => done(performance.now())) : setTimeout(look, 4); look();"
        )
        found.append(page.execute_async_script(script) / 1000)
    return float(np.median(found))


def _time_view(page: Any, view: str) -> dict[str, float]:
    start = time.perf_counter()
    page.execute_async_script(
        "const done = arguments[1]; location.hash = '#view=' + arguments[0];"
        "setTimeout(() => requestAnimationFrame(() => requestAnimationFrame(() => done())), 0);",
        view,
    )
    result = {"show_seconds": time.perf_counter() - start}
    if view in MOVING:
        times = np.array(page.execute_async_script(MOVE, FRAMES))
        result |= {"frame_ms_median": float(np.median(times)), "frame_ms_95": float(np.percentile(times, 95))}
    return result


def list_missed(figures: dict[str, Any]) -> list[str]:
    """The aims that were missed."""
    found = []
    if figures["open_seconds"] > MOST_OPEN_SECONDS:
        found.append(f"opens in {figures['open_seconds']:.2f} s, not {MOST_OPEN_SECONDS} s")
    if figures["insight_seconds"] > MOST_INSIGHT_SECONDS:
        found.append(f"is judged in {figures['insight_seconds']:.2f} s, not {MOST_INSIGHT_SECONDS} s")
    for view, times in figures["views"].items():
        if times.get("frame_ms_median", 0.0) > MOST_FRAME_MS:
            found.append(f"a frame of {view} takes {times['frame_ms_median']:.0f} ms, not {MOST_FRAME_MS:.0f} ms")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", nargs="?", type=Path, default=Path(tempfile.gettempdir()) / "openipu-report-scale")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures to FILE")
    arguments = parser.parse_args()
    profile = build_large_profile()
    start = time.perf_counter()
    path = write_html(profile, arguments.directory / "report.html")
    written = time.perf_counter()
    find_insights(profile)
    figures: dict[str, Any] = {
        "steps": len(profile.steps),
        "ops": len(profile.ops),
        "variables": len(profile.variables),
        "write_seconds": written - start,
        "insight_seconds": time.perf_counter() - written,
        "megabytes": path.stat().st_size / 1e6,
        **measure(path),
    }
    figures["missed"] = list_missed(figures)
    sys.stdout.write(json.dumps(figures, indent=1) + "\n")
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
