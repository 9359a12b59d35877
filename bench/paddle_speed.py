"""Paddle's own CPU executor and predictor against the same programs on openipu: `make bench-paddle`.

In: small training programs (the models of tests/paddle) and ResNet-50 for inference. Out: a table of seconds a step and
the ratio of medians, both taken in turns in one process; first results apart. It needs the environment with Paddle.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import openipu_paddle  # noqa: F401 (puts IPUs into Paddle)
import paddle
from paddle import inference, static

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "paddle"))
import models

TRAINED: dict[str, tuple[Callable[[], Any], Callable[[int], Any]]] = {
    "MNIST CNN": (models.convolutions, models.image_feeds),
    "small BERT": (models.bert, models.word_feeds),
    "small LSTM": (models.lstm, models.lstm_feeds),
}


def prepare(make: Callable[[], Any], feed: dict[str, Any], on_ipu: bool) -> tuple[Callable[[], Any], float]:
    """A step of training, and the seconds until the first one was done."""
    scope = static.Scope()
    main, startup, loss = models.build(make, lambda: paddle.optimizer.Adam(learning_rate=1e-3))
    executor = static.Executor(paddle.CPUPlace())
    with static.scope_guard(scope):
        executor.run(startup)
        started = time.perf_counter()
        program = main
        if on_ipu:
            compiler = static.IpuCompiledProgram(main, scope=scope, ipu_strategy=models.make_strategy())
            program = compiler.compile(list(feed), [loss.name])

    def step() -> None:
        with static.scope_guard(scope):
            executor.run(program, feed=feed, fetch_list=[loss])

    step()
    return step, time.perf_counter() - started


def compare(own: Callable[[], Any], other: Callable[[], Any], rounds: int) -> tuple[float, float]:
    """Medians of both, taken in turns."""
    found: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        for times, call in zip(found, (own, other), strict=True):
            started = time.perf_counter()
            call()
            times.append(time.perf_counter() - started)
    return statistics.median(found[0]), statistics.median(found[1])


def prepare_resnet(folder: Path, batch: int) -> tuple[Callable[[], Any], Callable[[], Any], float, float]:
    main, startup = static.Program(), static.Program()
    with paddle.utils.unique_name.guard(), static.program_guard(main, startup):
        image = static.data("image", [batch, 3, 224, 224], "float32")
        network = paddle.vision.models.resnet50()
        network.eval()
        result = network(image)
        executor = static.Executor(paddle.CPUPlace())
        executor.run(startup)
        static.save_inference_model(str(folder / "resnet"), [image], [result], executor, program=main)
    data = np.random.RandomState(0).rand(batch, 3, 224, 224).astype("float32")
    calls, firsts = [], []
    for on_ipu in (True, False):
        started = time.perf_counter()
        config = inference.Config(str(folder / "resnet.pdmodel"), str(folder / "resnet.pdiparams"))
        config.set_cpu_math_library_num_threads(1)
        if on_ipu:
            config.enable_ipu(ipu_micro_batch_size=batch)
        predictor = inference.create_predictor(config)
        handle = predictor.get_input_handle(predictor.get_input_names()[0])

        def call(predictor: Any = predictor, handle: Any = handle) -> Any:
            handle.copy_from_cpu(data)
            predictor.run()
            return predictor.get_output_handle(predictor.get_output_names()[0]).copy_to_cpu()

        call()
        firsts.append(time.perf_counter() - started)
        calls.append(call)
    return calls[0], calls[1], firsts[0], firsts[1]


def write_line(name: str, own: float, other: float, own_first: float, other_first: float) -> str:
    steps = f"{name:15}{own * 1e3:12.2f}{other * 1e3:12.2f}{other / own:8.2f}"
    return f"{steps}   {own_first:6.2f} {other_first:6.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--skip-resnet", action="store_true")
    arguments = parser.parse_args()
    paddle.enable_static()
    print("program          openipu ms   Paddle ms   ratio   first result s: openipu, Paddle")
    ratios = []
    for name, (make, feeds) in TRAINED.items():
        feed = feeds(1)[0]
        (own, own_first), (other, other_first) = (prepare(make, feed, on_ipu) for on_ipu in (True, False))
        mine, theirs = compare(own, other, arguments.rounds)
        ratios.append(theirs / mine)
        print(
            f"{name:15}{mine * 1e3:12.2f}{theirs * 1e3:12.2f}{theirs / mine:8.2f}   {own_first:6.2f} {other_first:6.2f}"
        )
    print(f"training, geometric mean: {math.exp(statistics.mean(map(math.log, ratios))):.2f}")
    if not arguments.skip_resnet:
        with tempfile.TemporaryDirectory() as folder:
            own, other, own_first, other_first = prepare_resnet(Path(folder), 1)
            mine, theirs = compare(own, other, max(5, arguments.rounds // 10))
        print(write_line("ResNet-50", mine, theirs, own_first, other_first))


if __name__ == "__main__":
    main()
