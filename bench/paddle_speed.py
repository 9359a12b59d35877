"""Paddle's own CPU executor and predictor against the same programs on openipu: `make bench-paddle`, some minutes.

In: three training programs (the models of tests/paddle, Adam) and ResNet-50 for inference. Out: a table of milliseconds
a step with quartiles, and the ratio; both sides in turns in one process, one thread each. Then the seconds from the
start of a process to its first result, each in processes of their own. It needs the environment with Paddle.

    python -m bench.paddle_speed [--rounds 20] [--firsts 3] [--only CNN]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from bench.ratios import compare, find_geometric_mean, show, summarize

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "paddle"))

ROUND_SECONDS = 0.05  # of each side
RESNET = "ResNet-50"
TRAINED = ("MNIST CNN", "small BERT", "small LSTM")
Step = Callable[[], Any]


def make_training(name: str, on_ipu: bool) -> Step:
    """A step of training."""
    import models
    import paddle
    from paddle import static

    make, feeds = models.MODELS[name]
    feed = feeds(1)[0]
    scope = static.Scope()
    main, startup, loss = models.build(make, models.OPTIMIZERS["adam"])
    executor = static.Executor(paddle.CPUPlace())
    with static.scope_guard(scope):
        executor.run(startup)
        program = main
        if on_ipu:
            compiler = static.IpuCompiledProgram(main, scope=scope, ipu_strategy=models.make_strategy())
            program = compiler.compile(list(feed), [loss])

    def step() -> Any:
        with static.scope_guard(scope):
            return executor.run(program, feed=feed, fetch_list=[loss])[0]

    return step


def save_resnet(folder: Path, batch: int) -> None:
    import paddle
    from paddle import static

    main, startup = static.Program(), static.Program()
    paddle.seed(1)
    with paddle.utils.unique_name.guard(), static.program_guard(main, startup):
        image = static.data("image", [batch, 3, 224, 224], "float32")
        network = paddle.vision.models.resnet50()
        network.eval()
        result = network(image)
        executor = static.Executor(paddle.CPUPlace())
        executor.run(startup)
        static.save_inference_model(str(folder / "resnet"), [image], [result], executor, program=main)


def make_inference(folder: Path, batch: int, on_ipu: bool) -> Step:
    """One call of a predictor."""
    from paddle import inference

    data = np.random.RandomState(0).rand(batch, 3, 224, 224).astype("float32")
    form = next(folder / name for name in ("resnet.json", "resnet.pdmodel") if (folder / name).is_file())
    config = inference.Config(str(form), str(folder / "resnet.pdiparams"))
    config.set_cpu_math_library_num_threads(1)
    if on_ipu:
        config.enable_ipu(ipu_micro_batch_size=batch)
    predictor = inference.create_predictor(config)
    handle = predictor.get_input_handle(predictor.get_input_names()[0])

    def call() -> Any:
        handle.copy_from_cpu(data)
        predictor.run()
        return predictor.get_output_handle(predictor.get_output_names()[0]).copy_to_cpu()

    return call


def take_turns(sides: tuple[Step, Step], rounds: int) -> tuple[list[float], list[float]]:
    """Seconds a step of both in each round, after what is compiled in the background is there."""
    from bench.work.process_figures import wait_until_idle

    first = [np.ravel(side()) for side in sides]
    np.testing.assert_allclose(*first, rtol=1e-3, atol=1e-5)
    for side in sides:
        for _ in range(3):
            side()
    wait_until_idle(60, alone=True)
    steps = []
    for side in sides:
        side()
        started = time.perf_counter()
        side()
        steps.append(max(1, round(ROUND_SECONDS / (time.perf_counter() - started))))
    found: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        for times, count, side in zip(found, steps, sides, strict=True):
            started = time.perf_counter()
            for _ in range(count):
                side()
            times.append((time.perf_counter() - started) / count)
    return found


def measure_first(name: str, on_ipu: bool, folder: Path) -> float:
    """Seconds from the start of a process to its first result: imports, building, compiling, one run."""
    environment = {**os.environ, "FLAGS_enable_pir_api": "1", "OPENIPU_CACHE_DIR": str(folder / "cache")}
    command = [
        sys.executable,
        "-W",
        "ignore",
        "-m",
        "bench.paddle_speed",
        "--first",
        name,
        str(int(on_ipu)),
        str(folder),
    ]
    started = time.perf_counter()
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        if not any("first result" in line for line in process.stdout):
            raise SystemExit(f"{' '.join(command)} has no result.")
        seconds = time.perf_counter() - started
        process.kill()
    return seconds


def run_first(name: str, on_ipu: bool, folder: Path) -> None:
    if on_ipu:
        import openipu_paddle  # noqa: F401
    import paddle

    paddle.enable_static()
    step = make_inference(folder, 1, on_ipu) if name == RESNET else make_training(name, on_ipu)
    step()
    print("first result", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--firsts", type=int, default=3, help="processes of each side for the first result")
    parser.add_argument("--only", default="", help="a part of a program's name")
    parser.add_argument("--first", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.first:
        run_first(options.first[0], options.first[1] == "1", Path(options.first[2]))
        return
    import openipu_paddle  # noqa: F401 (puts IPUs into Paddle)
    import paddle

    paddle.enable_static()
    names = [name for name in (*TRAINED, RESNET) if options.only in name]
    started = time.perf_counter()
    ratios: list[float] = []
    with tempfile.TemporaryDirectory(prefix="paddle-speed-") as place:
        folder = Path(place)
        if RESNET in names:
            save_resnet(folder, 1)
        print("| program | openipu ms | Paddle ms | times as fast |\n|---|---:|---:|---:|", flush=True)
        for name in names:
            if name == RESNET:
                sides = make_inference(folder, 1, True), make_inference(folder, 1, False)
            else:
                sides = make_training(name, True), make_training(name, False)
            own, other = take_turns(sides, options.rounds)
            ratio = compare(other, own)
            cells = [show(summarize(own), 1e3), show(summarize(other), 1e3), show(ratio)]
            print(f"| {name} | {' | '.join(cells)} |", flush=True)
            if name != RESNET and ratio is not None:
                ratios.append(ratio.median)
        if ratios:
            print(f"\ntraining, geometric mean: {find_geometric_mean(ratios):.2f}\n", flush=True)
        print("| first result | openipu s | Paddle s | later by s |\n|---|---:|---:|---:|", flush=True)
        for name in names if options.firsts else ():
            turns = [[measure_first(name, on_ipu, folder) for on_ipu in (True, False)] for _ in range(options.firsts)]
            own, other = (list(side) for side in zip(*turns, strict=True))
            later = summarize([mine - theirs for mine, theirs in turns])
            print(f"| {name} | {show(summarize(own))} | {show(summarize(other))} | {show(later)} |", flush=True)
    print(f"\n{time.perf_counter() - started:.0f} s in all")


if __name__ == "__main__":
    main()
