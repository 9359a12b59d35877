"""Half as applications use it, against our own float32: `python -m bench.half_options`, a minute.

In: models in the number formats of an application: half; with stochastic rounding; with half partials and half state
as well, as Optimum's configurations and the public BERT have them. Out: milliseconds of a step of four micro-batches in
each, all in turns in one process and with one engine, and the time over float32. The native rounding is waited for.

    python -m bench.half_options [--models bert_small] [--rounds 8] [--threads 2] [--engine operators]
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

import poptorch
from bench.models import MODELS, Model
from bench.ratios import compare, show, summarize
from bench.work.shared_code import SharedCode

ACCUMULATION = 4
ROUND_SECONDS = 1.0


@dataclass(frozen=True)
class Numbers:
    """Number formats of a program."""

    half: bool = True
    stochastic_rounding: bool = False
    half_partials: bool = False
    half_state: bool = False


CONFIGURATIONS = {
    "float32": Numbers(half=False),
    "half": Numbers(),
    "half, stochastic rounding": Numbers(stochastic_rounding=True),
    "half, as applications": Numbers(stochastic_rounding=True, half_partials=True, half_state=True),
}


def make_step(model: Model, numbers: Numbers) -> Callable[[], None]:
    """A function that trains for one step."""
    torch.manual_seed(0)
    body = model.build().train()
    inputs, labels = model.make_inputs(model.batch * ACCUMULATION)
    if numbers.half:
        body = body.half()
        inputs = inputs.half() if inputs.is_floating_point() else inputs
    options = poptorch.Options()
    options.showCompilationProgressBar(False)
    options.Training.gradientAccumulation(ACCUMULATION)
    options.Precision.enableStochasticRounding(numbers.stochastic_rounding)
    if numbers.half_partials:
        options.Precision.setPartialsType(torch.half)
    formats = (
        {
            "accum_type": torch.float16,
            "first_order_momentum_accum_type": torch.float16,
            "second_order_momentum_accum_type": torch.float32,
        }
        if numbers.half_state
        else {}
    )
    loss_scaling = 128.0 if numbers.half else 1.0
    optimizer = poptorch.optim.AdamW(body.parameters(), lr=1e-4, loss_scaling=loss_scaling, **formats)
    trainer = poptorch.trainingModel(body, options=options, optimizer=optimizer)
    trainer.compile(inputs, labels)
    return lambda: trainer(inputs, labels)


def measure(model: Model, rounds: int) -> dict[str, list[float]]:
    """Seconds of a step of each configuration, by round."""
    SharedCode().compile()
    steps = {name: make_step(model, numbers) for name, numbers in CONFIGURATIONS.items()}
    counts = {}
    for name, step in steps.items():
        for _ in range(3):
            step()
        started = time.perf_counter()
        step()
        counts[name] = max(1, round(ROUND_SECONDS / (time.perf_counter() - started)))
    found: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(rounds):
        for name, step in steps.items():
            step()  # after another program's turn, caches are cold: no run of one program is like that
            started = time.perf_counter()
            for _ in range(counts[name]):
                step()
            found[name].append((time.perf_counter() - started) / counts[name])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=["bert_small"], choices=list(MODELS))
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--engine", choices=("operators", "kernels", "auto"), default="operators")
    options = parser.parse_args()
    os.environ["OPENIPU_ENGINE"] = options.engine
    torch.set_num_threads(options.threads)
    print("| model | numbers | ms a step | times float32 |\n|---|---|---:|---:|")
    for name in options.models:
        found = measure(MODELS[name], options.rounds)
        for configuration, seconds in found.items():
            over = show(compare(seconds, found["float32"]))
            print(
                f"| {MODELS[name].title} | {configuration} | {show(summarize(seconds), 1e3, '.1f')} | {over} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
