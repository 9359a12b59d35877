"""What traced functions return, as tensors and ops.

In: any nest of values. Out: flat lists, with the original's rules: tensors come before ops, and ops run with whatever
is asked for.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Mapping, Sequence
from typing import Any

_OLDER = {
    "feed_name": "queues have names of their own",
    "replication_factor": "replicas follow from the IPUs of the device and the shards of the program",
    "data_to_prefetch": "prefetch_depth takes its place",
    "io_batch_size": "results are handed over as they come",
}


def warn_of_older(given: Mapping[str, Any], what: str) -> None:
    """Arguments of SDKs before 2.1 have no effect any more; others are refused."""
    for name in given:
        if name not in _OLDER:
            raise TypeError(f"{what} has no argument {name!r}.")
        logging.getLogger("openipu").warning("%s: %s has no effect; %s.", what, name, _OLDER[name])


def split_results(returned: Any, what: str) -> tuple[list[Any], list[Any]]:
    """Tensors, then ops, of what a function returned."""
    from tensorflow.python.framework import ops
    from tensorflow.python.util import nest

    if returned is None:
        return [], []
    flat = nest.flatten(returned) if isinstance(returned, (list, tuple, dict)) else [returned]
    targets = [entry for entry in flat if isinstance(entry, ops.Operation)]
    kept = [entry for entry in flat if entry is not None and not isinstance(entry, ops.Operation)]
    for first, second in itertools.pairwise(flat):
        if isinstance(first, ops.Operation) and not isinstance(second, ops.Operation) and second is not None:
            raise ValueError(
                f"{what} must return zero or more Tensor values followed by zero or more Operations, and it returns a "
                f"tensor after the operation {first.name!r}. Put the operations last."
            )
    return [_to_tensor(entry, what) for entry in kept], targets


def _to_tensor(value: Any, what: str) -> Any:
    from tensorflow.python.framework import ops

    try:
        return ops.convert_to_tensor(value)
    except Exception as error:
        raise ValueError(
            f"{what} must return values that are convertible to Tensors, or Operations, and it returns {value!r} "
            f"({error})."
        ) from error


def check_arity(function: Any, positional: int, named: Sequence[str], what: str) -> None:
    """Raise a TypeError unless a function can be called with so many values."""
    import inspect

    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*range(positional), **dict.fromkeys(named))
    except TypeError as error:
        raise TypeError(
            f"Supplied {what} cannot be called with the specified inputs: it gets {positional} by position"
            f"{' and ' + ', '.join(named) + ' by name' if named else ''}, and has the parameters {signature} ({error})."
        ) from error
