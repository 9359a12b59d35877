"""`PipelineStage`: which stage a layer is in, said where it is made or called.

In: a scope of the user's code. Out: a stage on each layer that is made and each node that is recorded in it; the node's
counts before the layer's.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import TracebackType
from typing import Any

import tensorflow as tf
from openipu_tensorflow.graphs.places import STAGE
from openipu_tensorflow.ipu.ipu_strategy import IPUStrategyV1, find_ipu_strategy

_STAGE = "_ipu_pipeline_stage"


class PipelineStage:
    """`with PipelineStage(1):`, inside the scope of an IPUStrategy."""

    def __init__(self, stage: int) -> None:
        self._stage = stage
        self._strategy: IPUStrategyV1 | None = None

    def __enter__(self) -> PipelineStage:
        if type(self._stage) is not int or self._stage < 0:
            raise ValueError(f"{self._stage} is not a valid pipeline stage: stages are counted from 0.")
        strategy = find_ipu_strategy()
        if strategy is None:
            raise RuntimeError(
                "PipelineStage may only be used from within an IPUStrategy context: enter strategy.scope() first."
            )
        if getattr(strategy, _STAGE, None) is not None:
            raise RuntimeError("Pipeline stages must not be nested.")
        setattr(strategy, _STAGE, self._stage)
        self._strategy = strategy
        self._placing = put_on_stage(self._stage)
        self._placing.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._strategy is not None:
            self._placing.__exit__(kind, error, trace)
            setattr(self._strategy, _STAGE, None)
            self._strategy = None


@contextlib.contextmanager
def put_on_stage(stage: int | None) -> Iterator[None]:
    """Ops that are made in it, while a graph is traced, belong to a stage; None leaves them as they are."""
    if stage is None or tf.executing_eagerly():
        yield
        return
    graph = tf.compat.v1.get_default_graph()
    with graph._attr_scope({STAGE: tf.compat.v1.AttrValue(i=stage)}):
        yield


def current_stage() -> int | None:
    """The stage of the scope that the user's code is in."""
    strategy = find_ipu_strategy()
    found: int | None = None if strategy is None else getattr(strategy, _STAGE, None)
    return found


def mark_stage(made: Any) -> None:
    """A layer or node was made: keep the stage of the scope."""
    stage = current_stage()
    if stage is not None:
        object.__setattr__(made, _STAGE, stage)


def stage_of_node(node: Any) -> int | None:
    """What was said where the layer was called, else where it was made."""
    found: int | None = getattr(node, _STAGE, None)
    return stage_of_layer(node.operation) if found is None else found


def stage_of_layer(layer: Any) -> int | None:
    found: int | None = getattr(layer, _STAGE, None)
    return found
