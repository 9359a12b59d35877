"""Small static programs in both forms of Paddle, and a run of each on its own executor and as an IPU program."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from paddle.nn import functional as F  # noqa: N812

import paddle
from paddle import static

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "paddle"))

SEED = 7


def build(make: Callable[[], Any], optimizer: Any = None, seed: int = SEED) -> tuple[Any, Any, Any]:
    """Main and start-up program, and the loss that `make` returns."""
    main, startup = static.Program(), static.Program()
    paddle.seed(seed)
    main.random_seed = startup.random_seed = seed
    with paddle.utils.unique_name.guard(), static.program_guard(main, startup):
        loss = make()
        if optimizer is not None:
            optimizer().minimize(loss)
    return main, startup, loss


def run_steps(
    make: Callable[[], Any],
    feeds: list[dict[str, np.ndarray]],
    *,
    optimizer: Any = None,
    strategy: Any = None,
    on_ipu: bool = False,
    fetch: Callable[[Any], list[Any]] | None = None,
    seed: int = SEED,
) -> tuple[list[np.ndarray], dict[str, np.ndarray]]:
    """What is fetched in each step, and the variables afterwards."""
    scope = static.Scope()
    main, startup, loss = build(make, optimizer, seed)
    with static.scope_guard(scope):
        executor = static.Executor(paddle.IPUPlace() if on_ipu else paddle.CPUPlace())
        executor.run(startup)
        program = main
        fetched = [loss] if fetch is None else fetch(main)
        if on_ipu:
            chosen = strategy or make_strategy(training=optimizer is not None)
            compiler = static.IpuCompiledProgram(main, scope=scope, ipu_strategy=chosen)
            program = compiler.compile(list(feeds[0]), fetched)
        results = [executor.run(program, feed=feed, fetch_list=fetched)[0] for feed in feeds]
        if on_ipu:
            compiler._backend.weights_to_host()
        held = {name: scope.find_var(name) for name in list_held(main)}
        return results, {name: np.array(found.get_tensor()) for name, found in held.items() if found is not None}


def list_held(main: Any) -> list[str]:
    """The names of a program's variables: weights, statistics, states."""
    if hasattr(main, "list_vars") and not paddle.get_flags(["FLAGS_enable_pir_api"])["FLAGS_enable_pir_api"]:
        return [entry.name for entry in main.list_vars() if entry.persistable and entry.name not in ("feed", "fetch")]
    made = [op.result(0) for op in main.global_block().ops if op.name() in ("builtin.parameter", "pd_op.data")]
    return [value.name for value in made if value.persistable]


def measure_kept(held: dict[str, np.ndarray], kept: dict[str, np.ndarray]) -> dict[str, float]:
    """The distance of each variable, as a share of what is allowed: a thousandth of it, or 2e-4 an element.

    Of the whole variable, because Adamax and its like make a full step of a gradient that is nothing but rounding.
    """
    assert set(held) == set(kept)
    assert kept
    norm = np.linalg.norm
    return {
        name: float(norm(held[name] - value) / (1e-3 * norm(value) + 2e-4 * np.sqrt(value.size)))
        for name, value in kept.items()
    }


def make_strategy(*, training: bool = True, options: dict[str, Any] | None = None, **graph: Any) -> Any:
    strategy = static.IpuStrategy()
    strategy.set_graph_config(is_training=training, **graph)
    strategy.set_options(options or {})
    return strategy


def convolutions() -> Any:
    """A classifier of digits."""
    image, label = static.data("image", [16, 1, 28, 28], "float32"), static.data("label", [16, 1], "int64")
    hidden = F.max_pool2d(F.relu(paddle.nn.Conv2D(1, 8, 5)(image)), 2, 2)
    hidden = paddle.nn.BatchNorm2D(8)(hidden)
    hidden = F.max_pool2d(F.relu(paddle.nn.Conv2D(8, 16, 5)(hidden)), 2, 2)
    return paddle.mean(F.cross_entropy(paddle.nn.Linear(256, 10)(paddle.flatten(hidden, 1)), label))


@functools.cache
def load_digits() -> tuple[np.ndarray, np.ndarray]:
    import digits

    return digits.load()[0]


def digit_feeds(steps: int, seed: int = 0) -> list[dict[str, np.ndarray]]:
    """Digits that people wrote."""
    images, labels = load_digits()
    chosen = np.random.RandomState(seed).permutation(len(images))[: 16 * steps].reshape(steps, 16)
    return [{"image": images[rows], "label": labels[rows]} for rows in chosen]


def smooth() -> Any:
    """A classifier without kinks: rounding is not amplified by a maximum that changes its place."""
    image, label = static.data("image", [8, 1, 28, 28], "float32"), static.data("label", [8, 1], "int64")
    hidden = paddle.tanh(paddle.nn.Conv2D(1, 4, 5, stride=2, bias_attr=False)(image))
    hidden = paddle.tanh(paddle.nn.BatchNorm2D(4)(F.avg_pool2d(hidden, 2, 2)))
    return paddle.mean(F.cross_entropy(paddle.nn.Linear(144, 10)(paddle.flatten(hidden, 1)), label))


def image_feeds(steps: int, batch: int = 8) -> list[dict[str, np.ndarray]]:
    draw = np.random.RandomState(0)
    return [
        {
            "image": draw.rand(batch, 1, 28, 28).astype("float32"),
            "label": draw.randint(0, 10, (batch, 1)).astype("int64"),
        }
        for _ in range(steps)
    ]


def lstm() -> Any:
    """Which of three numbers is the largest in the mean of a sequence."""
    x, y = static.data("x", [8, 6, 3], "float32"), static.data("y", [8, 1], "int64")
    result, _ = paddle.nn.LSTM(3, 8, num_layers=2)(x)
    return paddle.mean(F.cross_entropy(paddle.nn.Linear(8, 3)(result[:, -1]), y))


def lstm_feeds(steps: int, seed: int = 0) -> list[dict[str, np.ndarray]]:
    draw = np.random.RandomState(seed)
    sequences = [draw.rand(8, 6, 3).astype("float32") for _ in range(steps)]
    return [{"x": x, "y": x.mean(1).argmax(1)[:, None].astype("int64")} for x in sequences]


def bert() -> Any:
    """An encoder block over words."""
    words, labels = static.data("words", [2, 8], "int64"), static.data("labels", [2, 8, 1], "int64")
    hidden = paddle.nn.LayerNorm(16)(paddle.nn.Embedding(20, 16)(words))
    # a bias of the keys would have no gradient but rounding, which Adam makes large
    query, key, value = (paddle.nn.Linear(16, 16, bias_attr=False)(hidden) for _ in range(3))

    def split(x: Any) -> Any:
        return paddle.transpose(paddle.reshape(x, [2, 8, 2, 8]), [0, 2, 1, 3])

    scores = paddle.matmul(split(query), split(key), transpose_y=True) * 8**-0.5
    mixed = paddle.matmul(F.softmax(scores), split(value))
    mixed = paddle.reshape(paddle.transpose(mixed, [0, 2, 1, 3]), [2, 8, 16])
    hidden = paddle.nn.LayerNorm(16)(hidden + paddle.nn.Linear(16, 16)(mixed))
    wide = F.gelu(paddle.nn.Linear(16, 32)(hidden))
    hidden = paddle.nn.LayerNorm(16)(hidden + paddle.nn.Linear(32, 16)(wide))
    return paddle.mean(F.cross_entropy(paddle.nn.Linear(16, 20)(hidden), labels))


def word_feeds(steps: int, seed: int = 0) -> list[dict[str, np.ndarray]]:
    draw = np.random.RandomState(seed)
    words = [draw.randint(0, 20, (2, 8)).astype("int64") for _ in range(steps)]
    return [{"words": entry, "labels": entry[..., None]} for entry in words]


Feeds = Callable[..., list[dict[str, np.ndarray]]]
MODELS: dict[str, tuple[Callable[[], Any], Feeds]] = {
    "MNIST CNN": (convolutions, digit_feeds),
    "small BERT": (bert, word_feeds),
    "small LSTM": (lstm, lstm_feeds),
}
OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "sgd": lambda: paddle.optimizer.SGD(learning_rate=0.05),
    "momentum": lambda: paddle.optimizer.Momentum(learning_rate=0.01, momentum=0.8),
    "nesterov": lambda: paddle.optimizer.Momentum(learning_rate=0.01, momentum=0.8, use_nesterov=True),
    "l2": lambda: paddle.optimizer.Momentum(learning_rate=0.01, weight_decay=paddle.regularizer.L2Decay(0.1)),
    "adam": lambda: paddle.optimizer.Adam(learning_rate=1e-3),
    "adam_l2": lambda: paddle.optimizer.Adam(learning_rate=1e-3, weight_decay=0.05),
    "adamw": lambda: paddle.optimizer.AdamW(learning_rate=1e-3, weight_decay=0.1),
    "lamb": lambda: paddle.optimizer.Lamb(learning_rate=1e-3, lamb_weight_decay=0.05),
    "rmsprop": lambda: paddle.optimizer.RMSProp(learning_rate=1e-3, rho=0.9, momentum=0.5),
    "centered": lambda: paddle.optimizer.RMSProp(learning_rate=1e-3, momentum=0.3, centered=True),
    "adamax": lambda: paddle.optimizer.Adamax(learning_rate=1e-3),
    "adagrad": lambda: paddle.optimizer.Adagrad(learning_rate=1e-2),
    "adadelta": lambda: paddle.optimizer.Adadelta(learning_rate=0.5, rho=0.9),
    "clipped": lambda: paddle.optimizer.Momentum(learning_rate=0.01, grad_clip=paddle.nn.ClipGradByGlobalNorm(0.5)),
}
