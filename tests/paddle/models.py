"""Small static programs, and a run of each on Paddle's own executor and as an IPU program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import paddle
from paddle import static


def build(make: Callable[[], Any], optimizer: Any = None, **more: Any) -> tuple[Any, Any, Any]:
    """Main and start-up program, and the loss that `make` returns."""
    main, startup = static.Program(), static.Program()
    paddle.seed(7)
    main.random_seed = startup.random_seed = 7
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
) -> tuple[list[np.ndarray], dict[str, np.ndarray]]:
    """What is fetched in each step, and the variables afterwards."""
    scope = static.Scope()
    main, startup, loss = build(make, optimizer)
    with static.scope_guard(scope):
        executor = static.Executor(paddle.IPUPlace() if on_ipu else paddle.CPUPlace())
        executor.run(startup)
        program = main
        fetched = [loss] if fetch is None else fetch(main)
        if on_ipu:
            chosen = strategy or make_strategy(training=optimizer is not None)
            compiler = static.IpuCompiledProgram(main, scope=scope, ipu_strategy=chosen)
            program = compiler.compile(list(feeds[0]), [entry.name for entry in fetched])
        results = [executor.run(program, feed=feed, fetch_list=fetched)[0] for feed in feeds]
        if on_ipu:
            compiler._backend.weights_to_host()
        held = {}
        for variable in main.list_vars():
            found = scope.find_var(variable.name)
            if variable.persistable and found is not None and variable.name not in ("feed", "fetch"):
                held[variable.name] = np.array(found.get_tensor())
    return results, held


def make_strategy(*, training: bool = True, options: dict[str, Any] | None = None, **graph: Any) -> Any:
    strategy = static.IpuStrategy()
    strategy.set_graph_config(is_training=training, **graph)
    strategy.set_options(options or {})
    return strategy


def convolutions() -> Any:
    """A digit classifier."""
    image = static.data("image", [8, 1, 28, 28], "float32")
    label = static.data("label", [8, 1], "int64")
    hidden = static.nn.conv2d(image, 4, 5, act="relu")
    hidden = paddle.nn.functional.max_pool2d(hidden, 2, 2)
    hidden = static.nn.conv2d(hidden, 8, 5, act="relu", bias_attr=False)
    hidden = static.nn.batch_norm(paddle.nn.functional.max_pool2d(hidden, 2, 2))
    logits = static.nn.fc(hidden, 10)
    return paddle.mean(paddle.nn.functional.cross_entropy(logits, label))


def smooth() -> Any:
    """A classifier without kinks: rounding is not amplified by a maximum that changes its place."""
    image = static.data("image", [8, 1, 28, 28], "float32")
    label = static.data("label", [8, 1], "int64")
    hidden = static.nn.conv2d(image, 4, 5, stride=2, act="tanh", bias_attr=False)
    hidden = static.nn.batch_norm(paddle.nn.functional.avg_pool2d(hidden, 2, 2))
    logits = static.nn.fc(paddle.tanh(hidden), 10)
    return paddle.mean(paddle.nn.functional.cross_entropy(logits, label))


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
    """A sequence and its sum."""
    x, y = static.data("x", [4, 6, 3], "float32"), static.data("y", [4, 1], "float32")
    result, _ = paddle.nn.LSTM(3, 8, num_layers=2)(x)
    return paddle.mean((paddle.nn.Linear(8, 1)(result[:, -1]) - y) ** 2)


def lstm_feeds(steps: int) -> list[dict[str, np.ndarray]]:
    draw = np.random.RandomState(0)
    found = []
    for _ in range(steps):
        x = draw.rand(4, 6, 3).astype("float32")
        found.append({"x": x, "y": x.sum((1, 2), keepdims=False)[:, None] / 9})
    return found


def bert() -> Any:
    """An encoder block over words."""
    words, labels = static.data("words", [2, 8], "int64"), static.data("labels", [2, 8, 1], "int64")
    hidden = paddle.nn.LayerNorm(16)(paddle.nn.Embedding(20, 16)(words))
    # a bias of the keys would have no gradient but rounding, which Adam makes large
    query, key, value = (paddle.nn.Linear(16, 16, bias_attr=False)(hidden) for _ in range(3))

    def split(x: Any) -> Any:
        return paddle.transpose(paddle.reshape(x, [2, 8, 2, 8]), [0, 2, 1, 3])

    scores = paddle.matmul(split(query), split(key), transpose_y=True) * 8**-0.5
    mixed = paddle.matmul(paddle.nn.functional.softmax(scores), split(value))
    mixed = paddle.reshape(paddle.transpose(mixed, [0, 2, 1, 3]), [2, 8, 16])
    hidden = paddle.nn.LayerNorm(16)(hidden + paddle.nn.Linear(16, 16)(mixed))
    wide = paddle.nn.functional.gelu(paddle.nn.Linear(16, 32)(hidden))
    hidden = paddle.nn.LayerNorm(16)(hidden + paddle.nn.Linear(32, 16)(wide))
    return paddle.mean(paddle.nn.functional.softmax_with_cross_entropy(paddle.nn.Linear(16, 20)(hidden), labels))


def word_feeds(steps: int) -> list[dict[str, np.ndarray]]:
    draw = np.random.RandomState(0)
    words = [draw.randint(0, 20, (2, 8)).astype("int64") for _ in range(steps)]
    return [{"words": entry, "labels": entry[..., None]} for entry in words]
