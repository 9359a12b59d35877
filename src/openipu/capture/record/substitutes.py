"""Functions whose usual form has a shape that depends on data, and their static form.

In: a call of the user. Out: the same result with a shape that is known while tracing, or an error that says which
argument is missing.
"""

from __future__ import annotations

from typing import Any

import torch

from openipu.capture.failures import locate
from openipu.errors import CaptureError


def count_bins(values: torch.Tensor, weights: torch.Tensor | None = None, minlength: int = 0) -> torch.Tensor:
    """`torch.bincount` with exactly `minlength` bins."""
    if not isinstance(minlength, int) or minlength <= 0:
        raise CaptureError(
            locate(
                "Bincount `minlength` must be specified and must be a constant. On the IPU MK2 platform the minimum "
                "length is also the maximum length, because no shape depends on data. "
                "Pass minlength=<number of bins>; values must be smaller than it."
            )
        )
    counted = torch.ones_like(values) if weights is None else weights
    if weights is not None and not weights.is_floating_point():
        counted = weights.to(torch.float64)
    elif weights is None:
        counted = counted.to(torch.int64)
    bins = torch.zeros(minlength, dtype=counted.dtype, device=values.device)
    return bins.scatter_add(0, values.to(torch.int64), counted)


def check_one_hot(*args: Any, **kwargs: Any) -> None:
    """The number of classes cannot be found from the data."""
    classes = args[1] if len(args) > 1 else kwargs.get("num_classes", -1)
    if not isinstance(classes, int) or classes < 0:
        raise CaptureError(
            locate(
                "OneHot num classes must be specified and must be constant, because the shape of the result cannot "
                "depend on data. Pass num_classes=<number of classes>."
            )
        )


SPARSE_PLACES = {torch.embedding: 4, torch.embedding_bag: 5}  # where each function takes `sparse`


def ask_dense_gradient(func: Any, args: list[Any], keywords: dict[str, Any]) -> Any:
    """A lookup in a table whose gradient is as dense as an IPU keeps it: `sparse` only says how the host would."""
    place = SPARSE_PLACES[func]
    if "sparse" in keywords:
        keywords = {**keywords, "sparse": False}
    elif len(args) > place:
        args = [*args[:place], False, *args[place + 1 :]]
    return func(*args, **keywords)


def make_ctc_results(func: Any, args: tuple[Any, ...]) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Shapes of `_ctc_loss`: its scratch tensor is as wide as the longest target. None where that is unknown."""
    log_probabilities, targets, _, target_lengths = args[:4]
    if isinstance(target_lengths, list | tuple):
        longest = max(target_lengths, default=0)
    elif targets.dim() == 2:
        longest = targets.shape[1]
    else:
        return None
    time_steps, *batch = log_probabilities.shape[:-1]
    losses = log_probabilities.new_empty(batch)
    return losses, log_probabilities.new_empty((*batch, time_steps, 2 * longest + 1))


def compute_in_float(func: Any, values: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    """A function whose C++ code has no form for half precision, as `torch.ctc_loss`, or for whole numbers."""
    result: torch.Tensor = func(values.float(), *args, **kwargs)
    return result.to(values.dtype)
