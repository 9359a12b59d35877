"""One target for all outputs of a model, and outputs that are one number, as Keras 2 took them: models that compute
their losses themselves have such.

In: `y` that is one tensor, and a model with several outputs. Out: each output's loss and metrics get it.
"""

from __future__ import annotations

import functools
from typing import Any

import keras
from keras.src.trainers.compile_utils import CompileLoss, CompileMetrics
from keras.src.trainers.trainer import Trainer


def spread(target: Any, outputs: Any) -> Any:
    """The target in the structure of the outputs, where it has none of its own and they have."""
    if target is None or keras.tree.is_nested(target) or not keras.tree.is_nested(outputs):
        return target
    return keras.tree.map_structure(lambda _: target, outputs)


def lift(output: Any) -> Any:
    """Keras 3 asks every output for its first dimension."""
    return keras.ops.expand_dims(output, 0) if len(output.shape) == 0 else output


def spread_targets() -> None:
    for kind, names in ((CompileLoss, ("build", "call")), (CompileMetrics, ("build", "update_state"))):
        for name in names:
            _take_spread(kind, name)
    evaluate_without_loss()


def evaluate_without_loss() -> None:
    """Let a model that was compiled with metrics alone be evaluated: its loss is 0, as it was."""
    original = Trainer.compute_loss

    @functools.wraps(original)
    def compute_loss(self: Any, *args: Any, **kwargs: Any) -> Any:
        if self._compile_loss is None and not self.losses:
            return keras.ops.zeros(())
        return original(self, *args, **kwargs)

    Trainer.compute_loss = compute_loss


def _take_spread(kind: Any, name: str) -> None:
    original = getattr(kind, name)

    @functools.wraps(original)
    def method(self: Any, y_true: Any, y_pred: Any, *args: Any, **kwargs: Any) -> Any:
        outputs = keras.tree.map_structure(lift, y_pred)
        return original(self, spread(y_true, outputs), outputs, *args, **kwargs)

    setattr(kind, name, method)
