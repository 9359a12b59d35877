"""Poplar programs: building, running and planning, against what they must not exceed.

In: nothing. Out: a table of seconds (processor time of this process, so that neighbours do not count; of a page in
Chromium the browser's own clock), memory, and the limit of each row; the exit status says whether all hold.

    python -m bench.poplar_speed [--compute-sets 1000] [--no-browser]
"""

from __future__ import annotations

import argparse
import io
import resource
import runpy
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

import poplar
import poplin
import poputil
from poplar import FLOAT, InOut, Input, Output, Vector, Vertex
from poplar.program import Execute, Sequence

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "poplar" / "tut7_matrix_vector_opt.py"
ROWS, COLUMNS, SPLIT = 10_000, 1_000, 7
TILES, WORKERS, PIECE = 1472, 6, 8
PRODUCT = 1024


class Polynomial(Vertex):
    """A loop over elements in Python: what a codelet in C++ is compared with."""

    x: Input[Vector[FLOAT]]
    y: Output[Vector[FLOAT]]

    def compute(self):
        for place in range(len(self.x)):
            value = self.x[place]
            self.y[place] = (value * 2 + 1) * value - 3
        return True


NATIVE = """
#include <poplar/Vertex.hpp>
class NativePolynomial : public poplar::Vertex {
public:
  poplar::Input<poplar::Vector<float>> x;
  poplar::Output<poplar::Vector<float>> y;
  bool compute() {
    for (unsigned i = 0; i < x.size(); ++i)
      y[i] = (x[i] * 2 + 1) * x[i] - 3;
    return true;
  }
};
"""


class Step(Vertex):
    x: InOut[Vector[FLOAT]]

    @staticmethod
    def computeAll(fields):
        fields["x"] += 1


def multiply_by_vector() -> None:
    """80,000 vertices: 70,000 products and 10,000 sums, as the tutorial's example builds and runs them."""
    example = runpy.run_path(str(EXAMPLE))
    left, right = DATA
    _, found = example["multiply"](example["make_device"](), left, right, SPLIT)
    assert np.allclose(found, left @ right, rtol=1e-3)


DATA = (
    np.random.default_rng(0).random((ROWS, COLUMNS), np.float32),
    np.random.default_rng(1).random(COLUMNS, np.float32),
)


def compare_codelets(vertices: int = 200, elements: int = 500) -> tuple[float, float]:
    """Seconds of one compute set on the clock: in C++, which runs in another process, and as a loop in Python."""
    device = poplar.IPUModel().createDevice()
    graph = poplar.Graph(device)
    graph.addCodelets(Polynomial)
    graph.addCodelets(io.StringIO(NATIVE))
    x, y = (graph.addVariable(FLOAT, [vertices, elements], name) for name in "xy")
    poputil.mapTensorLinearly(graph, poplar.concat([x, y]))
    programs = []
    for codelet in ("Polynomial", "NativePolynomial"):
        compute_set = graph.addComputeSet(codelet)
        graph.addVertices(compute_set, codelet, {"x": x, "y": y}, np.arange(vertices))
        programs.append(Execute(compute_set))
    graph.createHostWrite("x", x)
    graph.createHostRead("y", y)
    engine = poplar.Engine(graph, programs)
    engine.load(device)
    values = np.random.default_rng(2).random((vertices, elements), np.float32)
    engine.writeTensor("x", values)
    found = []
    for number, repeats in ((0, 2), (1, 20)):
        engine.run(number)  # starts the process
        assert np.allclose(engine.readTensor("y"), (values * 2 + 1) * values - 3, atol=1e-5)
        times = []
        for _ in range(repeats):
            started = time.perf_counter()
            engine.run(number)
            times.append(time.perf_counter() - started)
        found.append(min(times))
    return found[1], found[0]


def compare_products() -> tuple[float, float]:
    """Seconds of a product through poplin, and of torch's: the best of many, in turns."""
    device = poplar.IPUModel().createDevice()
    graph = poplar.Graph(device)
    a, b = (graph.addVariable(FLOAT, [PRODUCT, PRODUCT], name) for name in "ab")
    for tensor in (a, b):
        poputil.mapTensorLinearly(graph, tensor)
    program = Sequence()
    poplin.matMul(graph, a, b, program)
    engine = poplar.Engine(graph, program)
    engine.load(device)
    left, right = torch.rand(PRODUCT, PRODUCT), torch.rand(PRODUCT, PRODUCT)
    engine.run()
    ours, theirs = [], []
    for _ in range(15):
        ours.append(_time(engine.run))
        theirs.append(_time(lambda: torch.mm(left, right)))
    return min(ours), min(theirs)


def build_long(compute_sets: int) -> poplar.Engine:
    """1,472 tiles x 6 vertices in each of many compute sets."""
    device = poplar.IPUModel().createDevice()
    graph = poplar.Graph(device)
    graph.addCodelets(Step)
    count = TILES * WORKERS
    values = graph.addVariable(FLOAT, [count, PIECE], "values")
    tiles = np.arange(count) % TILES
    for tile in range(TILES):
        graph.setTileMapping(values.flatten().slice(tile * WORKERS * PIECE, (tile + 1) * WORKERS * PIECE), tile)
    program = Sequence()
    for number in range(compute_sets):
        compute_set = graph.addComputeSet(f"step {number}")
        graph.addVertices(compute_set, "Step", {"x": values}, tiles, cycles=20 + number % 7)
        program.add(Execute(compute_set))
    return poplar.Engine(graph, program)


def _time(call: Callable[[], object]) -> float:
    started = time.process_time()
    call()
    return time.process_time() - started


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compute-sets", type=int, default=1000)
    parser.add_argument("--no-browser", dest="browser", action="store_false", help="do not open the page in Chromium")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    rows: list[tuple[str, float, float]] = []
    rows.append(("matrix x vector, 80,000 vertices: build and run", _time(multiply_by_vector), 2.0))
    ours, theirs = compare_products()
    rows.append((f"{PRODUCT} x {PRODUCT} product through poplin (torch {theirs * 1e3:.1f} ms)", ours, theirs + 1e-3))
    native, plain = compare_codelets()
    rows.append((f"100,000 elements in a codelet in C++ (loop in Python {plain * 1e3:.0f} ms)", native, plain / 20))
    started = time.process_time()
    engine = build_long(arguments.compute_sets)
    print(f"{arguments.compute_sets} compute sets built and compiled in {time.process_time() - started:.1f} s")
    started = time.process_time()
    plan = engine.getPlan()
    name = f"{TILES} tiles x {WORKERS} vertices x {arguments.compute_sets} compute sets: plan"
    rows.append((name, time.process_time() - started, 10.0))
    with tempfile.TemporaryDirectory() as place:
        from openipu.report import read_profile, write_profile
        from openipu.report.html import write_html

        path = write_profile(plan, Path(place))
        rows.append(("its profile, read", _time(lambda: read_profile(path)), 2.0))
        page = write_html(read_profile(path), Path(place) / "report.html")
        size = page.stat().st_size
        if arguments.browser:
            from bench.report_scale import open_browser, time_opening

            with open_browser() as browser:
                rows.append(("its page, opened in Chromium", time_opening(browser, page), 2.0))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    for label, seconds, limit in rows:
        print(f"{label:<75} {seconds:8.4f} s  (limit {limit:.4f} s)")
    print(f"{'its page':<75} {size / 2**20:8.1f} MB")
    print(f"{'largest memory of all of this':<75} {peak:8.0f} MB (limit 2048 MB)")
    return 0 if all(seconds <= limit for _, seconds, limit in rows) and peak < 2048 else 1


if __name__ == "__main__":
    sys.exit(main())
