"""`to_static` with a strategy against Paddle's dynamic mode: losses, weights, optimizer state, and going on from files.

In: either form of Paddle, in dynamic mode. Out: by optimizer what differs, as shares of what is allowed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import paddle
from models import measure_kept
from paddle import static

OPTIMIZERS = {
    "SGD": {"learning_rate": 0.05, "weight_decay": 0.01},
    "Momentum": {"learning_rate": 0.02, "use_nesterov": True},
    "Adam": {"learning_rate": 0.01},
    "AdamW": {"learning_rate": 0.01, "weight_decay": 0.1, "apply_decay_param_fun": lambda name: ".w_" in name},
    "Lamb": {"learning_rate": 0.01, "exclude_from_weight_decay_fn": lambda parameter: ".b_" in parameter.name},
    "Adamax": {"learning_rate": 0.01},
    "Adagrad": {"learning_rate": 0.01},
    "Adadelta": {"learning_rate": 0.5},
    "RMSProp": {"learning_rate": 0.01, "centered": True, "momentum": 0.5},
}


def make_call(model: Any) -> Any:
    """The loss of a model as a function that Paddle makes a program of."""

    def compute(x: Any, y: Any) -> Any:
        return paddle.mean((model(x) - y) ** 2)

    return paddle.jit.to_static(compute, full_graph=True)


def train(name: str, folder: Path, on_ipu: bool) -> tuple[list[float], dict[str, Any]]:
    """Five steps; then a new model and optimizer, which load what the first saved, and five more."""
    losses: list[float] = []
    draw = np.random.RandomState(0)
    x, y = (paddle.to_tensor(draw.rand(4, size).astype("float32")) for size in (3, 1))
    where = str(folder / f"{name}-{on_ipu}")
    for part in range(2):
        paddle.seed(5 + part)  # the second begins elsewhere, so that it must load
        with paddle.utils.unique_name.guard():  # names of a state are made with the first step
            kept = _train_part(name, where, (x, y), losses, load=part > 0, on_ipu=on_ipu)
    return losses, kept


def _train_part(
    name: str, where: str, batch: tuple[Any, Any], losses: list[float], *, load: bool, on_ipu: bool
) -> dict[str, Any]:
    model = paddle.nn.Sequential(paddle.nn.Linear(3, 4), paddle.nn.Tanh(), paddle.nn.Linear(4, 1))
    clip = paddle.nn.ClipGradByGlobalNorm(0.5)
    kind = getattr(paddle.optimizer, name)
    optimizer = kind(parameters=model.parameters(), grad_clip=clip, **OPTIMIZERS[name])
    call = make_call(model)
    strategy = _make_strategy(optimizer) if on_ipu else None
    if load:
        model.set_state_dict(paddle.load(f"{where}.pdparams"))
        optimizer.set_state_dict(paddle.load(f"{where}.pdopt"))
    for _ in range(5):
        loss = call(*batch)
        losses.append(float(np.ravel(loss.numpy())[0]))
        if not on_ipu:
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
    state = {**model.state_dict(), **optimizer.state_dict()}
    paddle.save(model.state_dict(), f"{where}.pdparams")
    paddle.save(optimizer.state_dict(), f"{where}.pdopt")
    if strategy is not None:
        strategy.release_patch()
    return {key: np.array(value) for key, value in state.items()}


def _make_strategy(optimizer: Any) -> Any:
    strategy = static.IpuStrategy()
    strategy.set_graph_config(is_training=True, micro_batch_size=4)
    strategy.set_optimizer(optimizer)
    return strategy


def compare(name: str, folder: Path) -> list[float]:
    """The largest relative difference of a loss, and the largest share of what may differ in what is kept."""
    wanted, kept = train(name, folder, False)
    found, held = train(name, folder, True)
    return [float(np.abs(np.divide(found, wanted) - 1).max()), max(measure_kept(held, kept).values())]


def reload_while_running() -> list[float]:
    """Losses before and after the first weights are loaded into a program that runs."""
    paddle.seed(3)
    model = paddle.nn.Linear(3, 1)
    optimizer = paddle.optimizer.Adam(learning_rate=0.1, parameters=model.parameters())
    call = make_call(model)
    first = {key: np.array(value) for key, value in model.state_dict().items()}
    strategy = _make_strategy(optimizer)
    x, y = (paddle.to_tensor(np.ones((4, size), "float32")) for size in (3, 1))
    losses = [float(np.ravel(call(x, y).numpy())[0]) for _ in range(3)]
    model.set_state_dict(first)
    losses.append(float(np.ravel(call(x, y).numpy())[0]))
    strategy.release_patch()
    return losses
