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
import numpy as np
from paddle.nn import functional as F  # noqa: N812

import openipu_paddle  # noqa: F401
import paddle
from models import build, image_feeds, lstm, lstm_feeds, make_strategy, word_feeds
from paddle import static

TRAINING = {
    "sgd": lambda: paddle.optimizer.SGD(0.05),
    "nesterov": lambda: paddle.optimizer.Momentum(0.01, 0.8, use_nesterov=True),
    "l2": lambda: paddle.optimizer.Momentum(0.01, weight_decay=paddle.regularizer.L2Decay(0.1)),
    "adam": lambda: paddle.optimizer.Adam(1e-3, weight_decay=0.05),
    "adamw": lambda: paddle.optimizer.AdamW(1e-3, weight_decay=0.1, grad_clip=paddle.nn.ClipGradByGlobalNorm(0.5)),
    "lamb": lambda: paddle.optimizer.Lamb(1e-3, lamb_weight_decay=0.05),
    "rmsprop": lambda: paddle.optimizer.RMSProp(1e-3, momentum=0.3, centered=True),
    "adamax": lambda: paddle.optimizer.Adamax(1e-3),
    "adagrad": lambda: paddle.optimizer.Adagrad(1e-2),
    "adadelta": lambda: paddle.optimizer.Adadelta(0.5, rho=0.9),
}


def smooth() -> Any:
    image, label = static.data("image", [8, 1, 28, 28], "float32"), static.data("label", [8, 1], "int64")
    hidden = paddle.tanh(paddle.nn.Conv2D(1, 4, 5, stride=2, bias_attr=False)(image))
    hidden = paddle.tanh(paddle.nn.BatchNorm2D(4)(F.avg_pool2d(hidden, 2, 2)))
    return paddle.mean(F.cross_entropy(paddle.nn.Linear(144, 10)(paddle.flatten(hidden, 1)), label))


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


def run(
    make: Callable[[], Any], feeds: list[Any], optimizer: Any = None, strategy: Any = None
) -> tuple[list[np.ndarray], dict[str, np.ndarray], Any]:
    """What is fetched, what is held afterwards, and what ran: with a strategy an IPU program."""
    scope = static.Scope()
    main, startup, result = build(make, optimizer)
    with static.scope_guard(scope):
        executor = static.Executor(paddle.CPUPlace())
        executor.run(startup)
        program = main
        if strategy is not None:
            compiler = static.IpuCompiledProgram(main, scope=scope, ipu_strategy=strategy)
            program = compiler.compile(list(feeds[0]), [result])
        found = [executor.run(program, feed=feed, fetch_list=[result])[0] for feed in feeds]
        if strategy is not None:
            compiler._backend.weights_to_host()
        kept = [op.result(0) for op in main.global_block().ops if op.name() in ("builtin.parameter", "pd_op.data")]
        held = {value.name: np.array(scope.find_var(value.name).get_tensor()) for value in kept if value.persistable}
    return found, held, program


def compare(make: Callable[[], Any], feeds: list[Any], optimizer: Any = None, strategy: Any = None) -> list[float]:
    """The largest relative difference of what is fetched, and the largest difference of what is held."""
    wanted, kept, _ = run(make, feeds, optimizer)
    found, held, program = run(make, feeds, optimizer, strategy or make_strategy(training=optimizer is not None))
    assert set(held) == set(kept)
    assert kept
    compare.last = program._openipu_program
    rest = max(float(np.abs(held[name] - kept[name]).max(initial=0)) for name in kept)
    return [float(max(np.abs(a / b - 1).max() for a, b in zip(found, wanted, strict=True))), rest]


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
    results: dict[str, Any] = {name: compare(smooth, image_feeds(10), make) for name, make in TRAINING.items()}
    results["digits"] = compare(digits, image_feeds(10), TRAINING["adam"])
    sharded = make_strategy(num_ipus=2, enable_manual_shard=True)
    results["sharded"] = compare(digits, image_feeds(2), TRAINING["adam"], sharded)
    results["ipus"] = sorted({node.place.ipu for node in compare.last.prepared.graph.nodes})
    results["tied"] = compare(tied, word_feeds(10), TRAINING["adamw"])
    results["lstm"] = compare(lstm, lstm_feeds(10), TRAINING["adam"])
    words = [{"words": feed["words"]} for feed in word_feeds(2)]
    results["transformer"] = compare(transformer, words)
    save(folder)
    results["predictor"] = predict(folder)
    print(json.dumps(results))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
