"""`ipu.nn_ops`: activations and convolutions by the names of the original, as TensorFlow's own ops."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from openipu_tensorflow.ipu.losses.ctc import (
    ctc_beam_search_decoder,
    ctc_beam_search_decoder_with_log_probs,
    ctc_loss_v2,
    ctc_loss_with_log_probs,
)
from openipu_tensorflow.ipu.losses.sampled import (
    compute_sampled_logits,
    nce_loss,
    sampled_softmax_loss,
)

__all__ = [
    "ctc_beam_search_decoder",
    "ctc_beam_search_decoder_with_log_probs",
    "ctc_loss_v2",
    "ctc_loss_with_log_probs",
    "gelu",
    "hard_sigmoid",
    "multi_conv",
    "nce_loss",
    "sampled_softmax_loss",
    "softmax",
    "swish",
]
_compute_sampled_logits = compute_sampled_logits  # as the original's tests call it


def gelu(x: Any, approximate: bool = True, name: str | None = None) -> Any:
    """Gaussian error linear unit; by default the approximation with tanh."""
    from tensorflow.python.ops import nn_ops

    return nn_ops.gelu(x, approximate=approximate, name=name)


def hard_sigmoid(x: Any, name: str | None = None) -> Any:
    """0.2 x + 0.5, held between 0 and 1."""
    from tensorflow.python.framework import ops
    from tensorflow.python.ops import clip_ops

    value = ops.convert_to_tensor(x)
    return clip_ops.clip_by_value(0.2 * value + 0.5, 0.0, 1.0, name=name)


def swish(x: Any, name: str | None = None) -> Any:
    """x times its sigmoid."""
    from tensorflow.python.framework import ops
    from tensorflow.python.ops import math_ops

    value = ops.convert_to_tensor(x)
    return math_ops.multiply(value, math_ops.sigmoid(value), name=name)


def softmax(x: Any, stable: bool = False, name: str | None = None) -> Any:
    """Softmax over the last axis. It is always computed in the stable way."""
    from tensorflow.python.ops import nn_ops

    if not isinstance(stable, bool):
        raise TypeError(f"stable must be True or False, not {stable!r}.")
    return nn_ops.softmax_v2(x, name=name)


def multi_conv(func: Callable[..., Any] | None = None, options: Mapping[str, str] | None = None) -> Any:
    """Decorator: convolutions inside may run at the same time. Results are the same; the plan prices each by itself."""
    if options is not None and not isinstance(options, dict):
        raise TypeError(f"options of multi_conv must be a dictionary of texts, not {type(options).__name__}.")
    if func is None:
        return functools.partial(multi_conv, options=options)

    @functools.wraps(func)
    def call(*args: Any, **kwargs: Any) -> Any:
        return func(*args, **kwargs)

    return call
