"""Starting the exchange between instances, and code that only some of them run."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from popdist._environment import getInstanceIndex, getNumInstances


def init() -> None:
    """Meet the other instances (torch.distributed, gloo). A model that trains does so by itself at its first call."""
    if getNumInstances() > 1:
        from openipu.run.instances import join_instances

        join_instances(getNumInstances())


def isBackendInitialized() -> bool:
    """Have the instances met?"""
    import torch.distributed as distributed

    return distributed.is_available() and distributed.is_initialized()


def execute_on_instances(instances: Iterable[int], func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a function on some instances; the others go on with None."""
    return func(*args, **kwargs) if getInstanceIndex() in set(instances) else None
