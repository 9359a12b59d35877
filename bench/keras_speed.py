"""Stock Keras on TensorFlow against the same models on openipu: `make bench-keras`, some minutes.

In: `fit` of a CNN, an LSTM classifier, a small transformer and ResNet-50. Out: a table of milliseconds a step with
quartiles, and the ratio; both sides in turns in one process, with the same threads and the same steps for an execution.
A call of `fit` is measured from its beginning to the end of training, as a callback sees it. What TensorFlow takes then
to shut its pipeline of data down is not counted: up to half a second and more, while nothing computes.
Then the seconds from the start of a process to the end of its first step, each in a process of its own that finds
nothing compiled; and the data of an epoch as `fit` reads them, against `tf.data` alone. It needs the environment with
TensorFlow. `--update-docs` puts what was measured into `docs/performance.md`.

    python -m bench.keras_speed [--rounds 10] [--firsts 3] [--only CNN] [--threads 2] [--update-docs]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bench.keras_models import CASES, Case
from bench.page import PAGE, update_page
from bench.ratios import compare, find_geometric_mean, show, summarize

ROUND_SECONDS = 0.5  # of each side
READY = "the first step is done"


def set_threads(threads: int) -> None:
    """The same number for both sides. To be called before either has computed anything."""
    os.environ["OMP_NUM_THREADS"] = str(threads)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(threads)


def find_scope(on_ipu: bool) -> Any:
    """Where a model is made: in that of one IPU, or in none."""
    import tensorflow as tf

    if not on_ipu:
        return tf.distribute.get_strategy().scope()
    from tensorflow.python import ipu

    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()
    return ipu.ipu_strategy.IPUStrategy().scope()


def make_side(case: Case, on_ipu: bool) -> Callable[[int], float]:
    """A function that trains for so many executions, and says the loss."""
    import keras

    with find_scope(on_ipu):
        model = case.compile()
    ended: list[float] = []
    notice_end = keras.callbacks.LambdaCallback(on_train_end=lambda logs: ended.append(time.perf_counter()))

    def run(executions: int) -> float:
        x, y = case.draw(case.batch * case.steps)
        parts = [np.concatenate([part] * executions) for part in (x, y)]
        started = time.perf_counter()
        history = model.fit(*parts, batch_size=case.batch, shuffle=False, verbose=0, callbacks=[notice_end])
        run.seconds = ended[-1] - started  # type: ignore[attr-defined]
        return float(history.history["loss"][0])

    return run


def take_turns(case: Case, rounds: int) -> tuple[list[float], list[float]]:
    """Seconds a step of both in each round, after each has run long enough to be as quick as it gets."""
    from bench.work.process_figures import wait_until_idle

    sides = make_side(case, True), make_side(case, False)
    first = [side(1) for side in sides]
    np.testing.assert_allclose(*first, rtol=0.1)  # dropouts differ
    for side in sides:
        side(1)
    wait_until_idle(60, alone=True)
    executions = []
    for side in sides:
        side(1)
        executions.append(max(1, round(ROUND_SECONDS / side.seconds)))  # type: ignore[attr-defined]
    count = min(executions)
    found: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        for times, side in zip(found, sides, strict=True):
            side(count)
            times.append(side.seconds / (count * case.steps))  # type: ignore[attr-defined]
    return found


def measure_first(name: str, on_ipu: bool, threads: int) -> float:
    """Seconds from the start of a process to the end of its first step: imports, building, compiling, one step."""
    command = [sys.executable, "-W", "ignore", "-m", "bench.keras_speed", "--first", name, str(int(on_ipu))]
    with tempfile.TemporaryDirectory(prefix="keras-speed-") as cache:
        environment = {**os.environ, "OPENIPU_CACHE_DIR": cache, "TF_CPP_MIN_LOG_LEVEL": "2"}
        started = time.perf_counter()
        with subprocess.Popen(
            [*command, "--threads", str(threads)],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as process:
            assert process.stdout is not None
            if not any(READY in line for line in process.stdout):
                raise SystemExit(f"{' '.join(command)} has no result.")
            seconds = time.perf_counter() - started
            process.kill()
    return seconds


def run_first(name: str, on_ipu: bool) -> None:
    case = CASES[name]
    with find_scope(on_ipu):
        model = case.compile(steps_per_execution=1)
    x, y = case.draw(case.batch)
    model.fit(x, y, batch_size=case.batch, verbose=0)
    print(READY, flush=True)


def make_dataset(images: int, batch: int) -> Any:
    """Images of CIFAR-10's size, shuffled, flipped and scaled by the host."""
    import tensorflow as tf

    generator = np.random.default_rng(0)
    x = generator.integers(0, 256, (images, 32, 32, 3)).astype("uint8")
    y = generator.integers(0, 10, images)

    def prepare(image: Any, label: Any) -> Any:
        return tf.image.random_flip_left_right(tf.cast(image, tf.float32) / 255), label

    shuffled = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(1000, seed=1)
    return shuffled.map(prepare, num_parallel_calls=2).batch(batch, drop_remainder=True)


def measure_infeed(rounds: int) -> tuple[list[float], list[float]]:
    """Seconds a batch: as `fit` on an IPU takes them, and as `for batch in dataset` does."""
    from openipu_tensorflow.keras.data.epochs import Feeding, IpuEpochIterator

    batch, steps, images = 50, 20, 10000
    dataset = make_dataset(images, batch)
    found: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        iterator = IpuEpochIterator(Feeding(), x=dataset, steps_per_execution=steps)
        started = time.perf_counter()
        taken = 0
        for _, _, execution in iterator:
            source = execution.open()
            for number in range(steps):
                image, _ = source.take(number, 1)
                taken += len(image)
        found[0].append((time.perf_counter() - started) / (images // batch))
        assert taken == images
        plain = dataset.prefetch(2)
        started = time.perf_counter()
        for image, _ in plain:
            taken -= len(image)
        found[1].append((time.perf_counter() - started) / (images // batch))
        assert taken == 0
    return found


def print_speeds(names: Sequence[str], rounds: int) -> list[str]:
    """Steps of both sides. The lines of the table, as they come."""
    lines = ["| fit | openipu ms | Keras ms | times as fast |", "|---|---:|---:|---:|"]
    print("\n".join(lines), flush=True)
    ratios: list[float] = []
    for name in names:
        own, other = take_turns(CASES[name], rounds)
        ratio = compare(other, own)
        cells = [show(summarize(own), 1e3), show(summarize(other), 1e3), show(ratio)]
        lines.append(f"| {name} | {' | '.join(cells)} |")
        print(lines[-1], flush=True)
        if ratio is not None:
            ratios.append(ratio.median)
    lines.append(f"| geometric mean | | | {find_geometric_mean(ratios):.2f} |")
    print(lines[-1], flush=True)
    return lines


def print_firsts(names: Sequence[str], processes: int, threads: int) -> list[str]:
    """First steps of both sides."""
    lines = ["| first step | openipu s | Keras s | later by s |", "|---|---:|---:|---:|"]
    print("\n".join(lines), flush=True)
    for name in names:
        turns = [[measure_first(name, on_ipu, threads) for on_ipu in (True, False)] for _ in range(processes)]
        own, other = (list(side) for side in zip(*turns, strict=True))
        later = summarize([mine - theirs for mine, theirs in turns])
        lines.append(f"| {name} | {show(summarize(own))} | {show(summarize(other))} | {show(later)} |")
        print(lines[-1], flush=True)
    return lines


def print_infeeds(rounds: int) -> list[str]:
    """Data of both sides."""
    own, other = measure_infeed(rounds)
    cells = [show(summarize(own), 1e3), show(summarize(other), 1e3), show(compare(other, own))]
    lines = ["| data of a batch | fit on an IPU ms | tf.data ms | times as fast |", "|---|---:|---:|---:|"]
    lines.append(f"| CIFAR-10 | {' | '.join(cells)} |")
    print("\n".join(lines), flush=True)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--firsts", type=int, default=3, help="processes of each side for the first step")
    parser.add_argument("--infeeds", type=int, default=10, help="epochs of each side for the infeed")
    parser.add_argument("--only", default="", help="a part of a model's name")
    parser.add_argument("--threads", type=int, default=2, help="of both sides")
    parser.add_argument("--update-docs", action="store_true", help="put what was measured into the page")
    parser.add_argument("--first", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    set_threads(options.threads)
    if options.first:
        run_first(options.first[0], options.first[1] == "1")
        return
    import torch

    torch.set_num_threads(options.threads)
    names = [name for name in CASES if options.only in name]
    started = time.perf_counter()
    parts: dict[str, list[str]] = {}
    if options.rounds:
        parts["keras"] = print_speeds(names, options.rounds)
    if options.firsts:
        parts["keras-first"] = print_firsts(names, options.firsts, options.threads)
    if options.infeeds:
        parts["keras-infeed"] = print_infeeds(options.infeeds)
    if options.update_docs:
        tables = {name: "\n".join(lines) for name, lines in parts.items()}
        PAGE.write_text(update_page(PAGE.read_text(encoding="utf-8"), tables), encoding="utf-8")
    print(f"\n{time.perf_counter() - started:.0f} s in all")


if __name__ == "__main__":
    main()
