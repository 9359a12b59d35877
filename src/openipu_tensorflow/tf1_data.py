"""`tf.data` of TensorFlow 1 that TensorFlow 2 dropped: statistics of input pipelines. They are accepted; none is taken.

In: `tf.data.experimental.StatsAggregator`, `latency_stats`, `bytes_produced_stats`, and `experimental_stats` of
`tf.data.Options`. Out: data as without them, and a summary that holds nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import tensorflow.compat.v1 as v1
from tensorflow.python.data.ops import options

_HELD = "_experimental_stats"


class StatsAggregator:
    """Statistics of a pipeline, none of them."""

    def get_summary(self) -> Any:
        """A summary without values, which can be merged with others."""
        return v1.constant(b"", name="no_statistics")


def latency_stats(tag: str) -> Callable[[Any], Any]:
    """For `Dataset.apply`: the data as they are."""
    return lambda dataset: dataset


def bytes_produced_stats(tag: str) -> Callable[[Any], Any]:
    """For `Dataset.apply`: the data as they are."""
    return lambda dataset: dataset


def _read_statistics(self: Any) -> Any:
    """Where an aggregator can be set, a place for each `Options`."""
    held = vars(self).get(_HELD)
    if held is None:
        names = ("aggregator", "prefix", "counter_prefix", "latency_all_edges")
        held = vars(self)[_HELD] = SimpleNamespace(**dict.fromkeys(names))
    return held


def restore_statistics(experimental: Any) -> None:
    """Give `tf.data.experimental` the names, and `tf.data.Options` the attribute."""
    for name in (StatsAggregator, latency_stats, bytes_produced_stats):
        setattr(experimental, name.__name__, name)
    if not hasattr(options.Options, "experimental_stats"):
        options.Options.experimental_stats = property(_read_statistics)
