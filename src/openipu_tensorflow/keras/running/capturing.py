"""Gradients that layers of a model capture, for the optimizer that `fit` calls.

In: a model whose step is traced. Out: what `CaptureUpstreamGradients` and its like have captured goes to an optimizer
that takes `captured_grads`; other optimizers do not see it.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from openipu_tensorflow.ipu.eager.backprop import GradientCaptureContext


@contextmanager
def capturing_gradients(model: Any, training: bool) -> Iterator[None]:
    """While this lasts, gradients are captured for the model's optimizer."""
    if not training:
        yield
        return
    optimizer = model.optimizer
    with GradientCaptureContext() as context:
        if not _takes_captured(optimizer):
            yield
            return
        original = optimizer.apply_gradients

        def apply_gradients(*args: Any, **kwargs: Any) -> Any:
            if context.captured_gradients:
                kwargs["captured_grads"] = context.captured_gradients
            return original(*args, **kwargs)

        object.__setattr__(optimizer, "apply_gradients", apply_gradients)
        try:
            yield
        finally:
            object.__delattr__(optimizer, "apply_gradients")


def _takes_captured(optimizer: Any) -> bool:
    if hasattr(optimizer, "supports_captured_grads"):
        return bool(optimizer.supports_captured_grads)
    return "captured_grads" in inspect.signature(optimizer.apply_gradients).parameters
