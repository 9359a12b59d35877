"""Small programs of Paddle's new form (PIR), run on Paddle's own executor and as IPU programs.

`test_new_form.py` starts this in a process of its own, because a process has one of the two forms.

    python new_form.py FOLDER    prints a JSON object: what differs from Paddle, by check
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ["FLAGS_enable_pir_api"] = "1"  # noqa: SIM112 (Paddle's own spelling)
import dynamic_training
import numpy as np
from paddle.nn import functional as F  # noqa: N812

import openipu_paddle
import paddle
from models import MODELS, OPTIMIZERS, SEED, build, image_feeds, make_strategy, measure_kept, run_steps, word_feeds
from paddle import static

START, ORDER = 8, 1  # as in test_training.py


def digits() -> Any:
    """A classifier of digits, on two IPUs where the strategy says so."""
    image, label = static.data("image", [8, 1, 28, 28], "float32"), static.data("label", [8, 1], "int64")
    with static.ipu_shard_guard(index=0, stage=0):
        hidden = F.max_pool2d(F.relu(paddle.nn.Conv2D(1, 4, 5)(image)), 2, 2)
        hidden = F.max_pool2d(F.relu(paddle.nn.Conv2D(4, 8, 5, bias_attr=False)(hidden)), 2, 2)
    with static.ipu_shard_guard(index=1, stage=1):
        logits = paddle.nn.Linear(128, 10)(paddle.flatten(paddle.nn.BatchNorm2D(8)(hidden), 1))
        return paddle.mean(F.cross_entropy(logits, label))


def tied() -> Any:
    """One table of words at both ends: its gradient is a sum."""
    words, labels = static.data("words", [2, 8], "int64"), static.data("labels", [2, 8, 1], "int64")
    table, layer = paddle.nn.Embedding(20, 16), paddle.nn.Linear(16, 16)
    hidden = paddle.tanh(layer(layer(paddle.nn.LayerNorm(16)(table(words))) * 2.0))
    logits = paddle.matmul(hidden, table.weight, transpose_y=True)
    return paddle.mean(F.softmax_with_cross_entropy(logits, labels))


def transformer() -> Any:
    words = static.data("words", [2, 8], "int64")
    layer = paddle.nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, activation="gelu")
    hidden = paddle.nn.TransformerEncoder(layer, 2)(paddle.nn.Embedding(20, 16)(words))
    return F.softmax(paddle.nn.Linear(16, 20)(hidden))


def compare(
    make: Callable[[], Any], feeds: list[Any], optimizer: Any = None, strategy: Any = None, seed: int = SEED
) -> list[float]:
    """The largest relative difference of what is fetched, and the largest share of what may differ in what is held."""
    wanted, kept = run_steps(make, feeds, optimizer=optimizer, seed=seed)
    found, held = run_steps(make, feeds, optimizer=optimizer, strategy=strategy, seed=seed, on_ipu=True)
    rest = max(measure_kept(held, kept).values())
    return [float(max(np.abs(np.ravel(a) / np.ravel(b) - 1).max() for a, b in zip(found, wanted, strict=True))), rest]


def save(folder: Path) -> None:
    """A model as files, its input, and what Paddle's own executor makes of it."""
    scope = static.Scope()
    main, startup, result = build(transformer)
    with static.scope_guard(scope):
        executor = static.Executor(paddle.CPUPlace())
        executor.run(startup)
        words = next(op.result(0) for op in main.global_block().ops if op.name() == "pd_op.data")
        static.save_inference_model(str(folder / "transformer"), [words], [result], executor, program=main)
        feed = {"words": word_feeds(1)[0]["words"]}
        wanted = executor.run(main, feed=feed, fetch_list=[result])[0]
    np.savez(folder / "values.npz", wanted=wanted, **feed)


def predict(folder: Path) -> list[float]:
    values = np.load(folder / "values.npz")
    config = paddle.inference.Config(str(folder / "transformer.json"), str(folder / "transformer.pdiparams"))
    config.enable_ipu()
    (found,) = paddle.inference.create_predictor(config).run([values["words"]])
    return [float(np.abs(found / values["wanted"] - 1).max()), 0.0]


def main(folder: Path) -> None:
    paddle.enable_static()
    results: dict[str, Any] = {
        f"{network} {name}": compare(make, feeds(30, ORDER), optimizer, seed=START)
        for network, (make, feeds) in MODELS.items()
        for name, optimizer in OPTIMIZERS.items()
    }
    sharded = make_strategy(num_ipus=2, enable_manual_shard=True)
    results["sharded"] = compare(digits, image_feeds(2), OPTIMIZERS["adam"], sharded)
    program = openipu_paddle.backend.IpuBackend.get_instance().current
    results["ipus"] = sorted({node.place.ipu for node in program.prepared.graph.nodes})
    results["lines"] = [
        [node.op, *([None] if node.line is None else [Path(node.line.file).name, node.line.function])]
        for node in program.prepared.graph.nodes
    ]
    results["tied"] = compare(tied, word_feeds(30), OPTIMIZERS["adamw"])
    words = [{"words": feed["words"]} for feed in word_feeds(2)]
    results["transformer"] = compare(transformer, words)
    save(folder)
    results["predictor"] = predict(folder)
    paddle.disable_static()
    results |= {f"dynamic {name}": dynamic_training.compare(name, folder) for name in dynamic_training.OPTIMIZERS}
    results["reloaded"] = dynamic_training.reload_while_running()
    print(json.dumps(results))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
