"""Inference of ONNX files against ONNX Runtime on this machine, in turns.

In: nothing; ResNet-50, BERT-base and a small CNN are exported by torch.onnx, with random weights. Out: a table of
speeds over ONNX Runtime. Needs `pip install onnxruntime`, which nothing else here does.

    python -m bench.onnx_speed [--models cnn resnet50 bert_base] [--threads 2] [--rounds 10] [--engines operators]
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import warnings
from contextlib import ExitStack
from pathlib import Path

from bench.processes import WorkerProcess
from bench.ratios import compare, find_geometric_mean, summarize
from bench.turns import Budget, Player, choose_steps, take_turns

MODELS = ("cnn", "resnet50", "bert_base")
RIVAL = "onnxruntime"
CLOSE = 1e-3  # largest difference of results, over the largest result


def export(name: str, batch: int, place: Path) -> Path:
    """A model of the benchmark as a file."""
    import torch

    from bench.models import MODELS as KNOWN

    torch.manual_seed(0)
    model = KNOWN[name]
    module = model.build().eval()
    x, _ = model.make_inputs(batch or model.batch)
    path = place / f"{name}.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(module, (x,), path, dynamo=False, input_names=["x"], output_names=["y"])
    return path


def measure(path: Path, engines: list[str], threads: int, budget: Budget, place: Path) -> dict[str, list[float | None]]:
    """Seconds a step of each way in each round."""
    usual = {**os.environ, "OMP_NUM_THREADS": str(threads), "OPENIPU_CACHE_DIR": str(place / "cache")}
    with ExitStack() as stack:
        arguments = {"path": str(path), "threads": threads}
        workers = {
            RIVAL: stack.enter_context(
                WorkerProcess("bench.work.onnx_files:OnnxRuntimeSteps", usual, place / "ort.log", **arguments)
            )
        }
        for engine in engines:
            workers[engine] = stack.enter_context(
                WorkerProcess(
                    "bench.work.onnx_files:OpenIpuSteps",
                    {**usual, "OPENIPU_ENGINE": engine},
                    place / f"{engine}.log",
                    **arguments,
                )
            )
        wanted = workers[RIVAL].call("compute")
        for engine in engines:
            check(wanted, workers[engine].call("compute"), f"{path.stem} {engine}")
        for worker in workers.values():
            worker.call("measure", steps=2)
        steps = choose_steps({name: worker.call("measure", steps=1) for name, worker in workers.items()})
        players = {
            name: Player(lambda worker=worker: float(worker.call("measure", steps=steps)))  # type: ignore[misc]
            for name, worker in workers.items()
        }
        return take_turns(players, budget)


def check(wanted: list[list[float]], found: list[list[float]], what: str) -> None:
    """Both must compute the same."""
    for one, other in zip(wanted, found, strict=True):
        largest = max(map(abs, one))
        worst = max(abs(a - b) for a, b in zip(one, other, strict=True))
        if not worst <= CLOSE * largest:
            raise SystemExit(f"{what}: results differ by {worst:g}, and the largest is {largest:g}.")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--engines", nargs="+", default=["operators", "kernels"])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batch", type=int, default=0, help="of all models; 0: the benchmark's own")
    parser.add_argument("--rounds", type=int, default=10)
    options = parser.parse_args()
    print(f"| model | {RIVAL} ms | " + " | ".join(options.engines) + " |")
    print("|---|---:|" + "---:|" * len(options.engines))
    best: list[float] = []
    with tempfile.TemporaryDirectory(prefix="onnx-speed-") as folder:
        for name in options.models:
            path = export(name, options.batch, Path(folder))
            budget = Budget(options.rounds, min(options.rounds, 5), 60.0)
            seconds = measure(path, options.engines, options.threads, budget, Path(folder))
            own = summarize(seconds[RIVAL])
            ratios = {engine: compare(seconds[RIVAL], seconds[engine]) for engine in options.engines}
            cells = [f"{r.median:.2f} ({r.lower:.2f} to {r.upper:.2f})" if r else "-" for r in ratios.values()]
            print(f"| {name} | {own.median * 1e3 if own else 0:.2f} | " + " | ".join(cells) + " |", flush=True)
            best.append(max(r.median for r in ratios.values() if r))
    print(f"geometric mean of the faster engine: {find_geometric_mean(best):.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
