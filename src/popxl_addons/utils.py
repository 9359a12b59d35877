"""Small helpers: ordered dictionaries, times of phases, weights by variable."""

from __future__ import annotations

import collections
import logging
import re
import sys
import time
from collections.abc import Iterable, Iterator, MutableMapping
from contextlib import contextmanager, nullcontext
from typing import Any, TypeVar

import numpy as np

import popxl
from popxl.tensor import Variable

__all__ = ["OrderedDict", "WeightsDict", "timer"]

Key = TypeVar("Key")
Value = TypeVar("Value")
Item = TypeVar("Item")

null_context = nullcontext


@contextmanager
def timer(title: str | None = None, log_to_wandb: bool = True) -> Iterator[None]:
    """Log how long a block takes, in minutes; a run of Weights & Biases that is open gets it in its summary."""
    logging.info("Starting %s", title or "")
    start = time.perf_counter()
    yield
    minutes = (time.perf_counter() - start) / 60
    logging.info("%s: %.2f mins", f"{title} duration" if title else "Duration", minutes)
    wandb = sys.modules.get("wandb")  # nobody has a run open who did not import it
    if log_to_wandb and title and wandb is not None and getattr(wandb, "run", None) is not None:
        wandb.run.summary[title.lower().replace(" ", "_") + "_mins"] = minutes


class OrderedDict(collections.OrderedDict[Key, Value]):
    """An ordered dictionary that prints one entry a line, and knows its values by position."""

    def idx(self, idx: int) -> Value:
        """The value at a position."""
        return list(self.values())[idx]

    def __repr__(self) -> str:
        lines = "".join(f"{key}: {value},\n" for key, value in self.items())
        return "{\n" + lines + "}" if lines else "{}"


class WeightsDict(MutableMapping[Variable, np.ndarray[Any, Any]]):
    """Values for variables; a value whose shape or number format is not its variable's is refused."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.dict: dict[Variable, np.ndarray[Any, Any]] = {}
        self.update(*args, **kwargs)

    def __getitem__(self, key: Variable) -> np.ndarray[Any, Any]:
        return self.dict[key]

    def __setitem__(self, key: Variable, value: np.ndarray[Any, Any]) -> None:
        dtype = popxl.dtype.as_dtype(value.dtype)
        if key.dtype != dtype:
            raise ValueError(f"{key}: the variable is {key.dtype}, its value {dtype}")
        if tuple(key.shape_on_host) != tuple(value.shape):
            raise ValueError(f"{key}: the variable has shape {key.shape_on_host}, its value {value.shape}")
        self.dict[key] = value

    def __delitem__(self, key: Variable) -> None:
        del self.dict[key]

    def __len__(self) -> int:
        return len(self.dict)

    def __iter__(self) -> Iterator[Variable]:
        return iter(self.dict)


def suffix_graph_name(name: str, suffix: str) -> str:
    """The name of a graph that is made from another one."""
    return re.sub(r"_subgraph\(\d+\)", "", name) + f"_{suffix}"


def overrides(cls: type, base_cls: type, method: str) -> bool:
    """Whether a class has its own version of a method of ``base_cls``."""
    return getattr(cls, method) is not getattr(base_cls, method)


def duplicate_items(iterable: Iterable[Item]) -> list[Item]:
    """What occurs more than once, in the order of first occurrence."""
    counts = collections.Counter(iterable)
    return [item for item in counts if counts[item] > 1]
