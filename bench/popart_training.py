"""Training of an ONNX model through `popart.TrainingSession` against the same model in eager PyTorch, in turns.

In: the number of rounds and of steps. Out: milliseconds a step of each way, the ratio of the medians for each model,
and their geometric mean, which is to be 1.2 at least. Models are exported by `torch.onnx` with their loss and without
dropout, so that both ways compute the same; their losses after the last step are compared. Each run has a process of
its own, because openipu tunes the allocator of its process. Start it on a machine that does nothing else:

    python -m bench.popart_training
    python -m bench.popart_training --rounds 9 --steps 200 --engine operators
"""

from __future__ import annotations

import argparse
import io
import json
import math
import os
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from bench.models import MODELS, build_bert, build_cnn

AIM = 1.2
WARM_UP = 20
RATE, MOMENTUM = 1e-3, 0.9
Step = Callable[[], Any]


def build_plain_bert() -> nn.Module:
    """The small BERT, without dropout: its masks would differ."""
    return build_bert(
        hidden_size=256,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=1024,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )


BUILDERS: dict[str, Callable[[], nn.Module]] = {"cnn": build_cnn, "bert_small": build_plain_bert}


def make_case(name: str) -> tuple[nn.Module, Tensor, Tensor]:
    torch.manual_seed(0)
    model, entry = BUILDERS[name](), MODELS[name]
    inputs, labels = entry.make_inputs(entry.batch)
    return model.train(), inputs, labels


def start_eager(name: str) -> tuple[Step, Callable[[], float]]:
    """A step, and the loss of the last one."""
    model, inputs, labels = make_case(name)
    if name == "cnn":
        optimizer: torch.optim.Optimizer = torch.optim.SGD(model.parameters(), lr=RATE, momentum=MOMENTUM)
    else:
        optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, eps=1e-6, weight_decay=0.0)
    last = torch.zeros(())

    def step() -> None:
        nonlocal last
        optimizer.zero_grad()
        last = model(inputs, labels)
        last.backward()
        optimizer.step()

    return step, lambda: last.item()


def start_popart(name: str) -> tuple[Step, Callable[[], float]]:
    """A step, and the loss of the last one."""
    import popart

    model, inputs, labels = make_case(name)
    if name == "cnn":
        optimizer: Any = popart.SGD({"defaultLearningRate": (RATE, False), "defaultMomentum": (MOMENTUM, True)})
    else:
        optimizer = popart.Adam({"defaultLearningRate": (RATE, False), "defaultEps": (1e-6, True)})
    session = popart.TrainingSession(
        fnModel=export(model, inputs, labels),
        dataFlow=popart.DataFlow(1, {"loss": popart.AnchorReturnType("All")}),
        loss="loss",
        optimizer=optimizer,
        deviceInfo=popart.DeviceManager().createIpuModelDevice({"numIPUs": 1, "tilesPerIPU": 1472}),
    )
    session.prepareDevice()
    session.weightsFromHost()
    anchors = session.initAnchorArrays()
    stepio = popart.PyStepIO({"inputs": inputs.numpy(), "labels": labels.numpy()}, anchors)
    return lambda: session.run(stepio), lambda: float(anchors["loss"])


def export(model: nn.Module, inputs: Tensor, labels: Tensor) -> bytes:
    """The model as PopART reads it."""
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            model,
            (inputs, labels),
            file,
            dynamo=False,
            opset_version=17,
            input_names=["inputs", "labels"],
            output_names=["loss"],
            training=torch.onnx.TrainingMode.PRESERVE,
            do_constant_folding=False,
        )
    return file.getvalue()


def train(way: str, name: str, steps: int) -> dict[str, float]:
    """Milliseconds a step in this process, and the last loss."""
    step, read_loss = (start_popart if way == "popart" else start_eager)(name)
    for _ in range(WARM_UP):
        step()
    started = time.perf_counter()
    for _ in range(steps):
        step()
    return {"ms": 1e3 * (time.perf_counter() - started) / steps, "loss": read_loss()}


def measure(name: str, rounds: int, steps: int, engine: str) -> dict[str, list[dict[str, float]]]:
    """Every run, by way. A run before them fills the cache of compiled code, and does not count."""
    found: dict[str, list[dict[str, float]]] = {"eager": [], "popart": []}
    environment = {**os.environ, "OPENIPU_ENGINE": engine}
    for number in range(-1, rounds):
        for way, runs in found.items():
            command = [sys.executable, "-m", "bench.popart_training", "--way", way, "--model", name]
            done = subprocess.run(
                [*command, "--steps", str(steps)], capture_output=True, text=True, check=True, env=environment
            )
            if number >= 0:
                runs.append(json.loads(done.stdout.splitlines()[-1]))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--model", choices=tuple(BUILDERS), help="only this model")
    parser.add_argument("--engine", choices=("operators", "kernels", "auto"), default="auto")
    parser.add_argument("--way", choices=("eager", "popart"), help="one run in this process: prints its figures")
    chosen = parser.parse_args()
    if chosen.way:
        print(json.dumps(train(chosen.way, chosen.model, chosen.steps)))
        return
    ratios = []
    for name in [chosen.model] if chosen.model else BUILDERS:
        found = measure(name, chosen.rounds, chosen.steps, chosen.engine)
        eager, popart = (statistics.median(run["ms"] for run in found[way]) for way in ("eager", "popart"))
        ratios.append(eager / popart)
        for way, runs in found.items():
            print(f"{name} {way}: {', '.join(format(run['ms'], '.2f') for run in runs)} ms a step")
        losses = [found[way][0]["loss"] for way in ("eager", "popart")]
        print(f"{name}: {ratios[-1]:.2f}x eager; losses after the last step {losses[0]:.6f} and {losses[1]:.6f}")
    mean = math.exp(statistics.mean(math.log(ratio) for ratio in ratios))
    print(f"{mean:.2f}x eager, geometric mean (aim: {AIM}x)")


if __name__ == "__main__":
    main()
