"""One step of a model as a graph of TensorFlow.

In: a model, what to do with it, the types of one micro-batch. Out: a `TracedStep`: the graph that Keras' own step makes
(forward, gradients, update, metrics), its inputs and results. Nothing runs. A gradient that the optimizer gets is an op
of its own, marked with its variable: there the step is cut into what each micro-batch does and what an update does.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tensorflow.python.framework import func_graph

import tensorflow as tf
from openipu_tensorflow.engine import marking_optimizers
from openipu_tensorflow.functions.feeding import Handed, trace_feeds
from openipu_tensorflow.keras.running.capturing import capturing_gradients
from openipu_tensorflow.keras.running.watching import pause_watching
from openipu_tensorflow.keras.running.whole_ops import whole_ops
from openipu_tensorflow.keras.stages.assigning import find_assignments, flatten, is_network
from openipu_tensorflow.keras.stages.placing import find_last_stage, follow_assignments, spread_stages


class Mode(enum.Enum):
    """What a model is run for."""

    FIT = "fit"
    EVALUATE = "evaluate"
    PREDICT = "predict"


@dataclass(frozen=True, eq=False, kw_only=True)
class TracedStep:
    """One step."""

    name: str
    graph: Any  # a FuncGraph
    inputs: Sequence[Any]  # placeholders of one micro-batch, flat
    structure: Any  # what the step returns, with tensors of the graph
    stages: int  # 1 for a model that is not pipelined
    targets: Sequence[Any] = ()  # ops that run for what they do
    handed: Sequence[Handed] = ()
    carried: Sequence[tuple[Any, Any]] = ()  # (tensor, what it is in the next step)

    @property
    def outputs(self) -> list[Any]:
        """What the step returns, then what it hands to outfeeds."""
        returned = [tensor for tensor in tf.nest.flatten(self.structure) if tensor is not None]
        return [*returned, *(tensor for entry in self.handed for tensor in entry.tensors)]


def trace_step(model: Any, mode: Mode, element: Any, devices: Sequence[int] | None = None) -> TracedStep:
    """`element`: the types of a batch, as a data set says them; `devices`: the IPU of each stage."""
    step = {Mode.FIT: model.train_step, Mode.EVALUATE: model.test_step, Mode.PREDICT: model.predict_step}[mode]
    assignments = find_assignments(model)

    def run(data: Any) -> Any:
        with follow_assignments(model, assignments), capturing_gradients(model, mode is Mode.FIT):
            return step(data)

    strategy = model.distribute_strategy
    name = f"{model.name}_{mode.value}"
    context = tf.distribute.ReplicaContext(strategy, replica_id_in_sync_group=0)
    with trace_feeds() as feeds, pause_watching(), marking_optimizers(), whole_ops(mode is Mode.FIT), context:
        graph = func_graph.func_graph_from_py_func(name, run, (element,), {})
    if any(entry.graph is not graph for entry in feeds.handed):
        raise NotImplementedError(
            "An outfeed of a model's step stands in a loop inside of it: enqueue outside of loops."
        )
    stages = 1 + find_last_stage(graph)
    if stages > 1:
        spread_stages(graph, stages - 1, devices)
    count = len(tf.nest.flatten(element))
    return TracedStep(
        name=name,
        graph=graph,
        inputs=graph.inputs[:count],
        structure=graph.structured_outputs,
        stages=stages,
        targets=list(graph.control_outputs),
        handed=feeds.handed,
    )


def count_stages(model: Any, element: Any) -> int:
    """1 for a model that is not pipelined. What a subclassed one says in its `call` is known when it is traced."""
    if is_network(model) or find_assignments(model) is not None:
        return 1 + max((entry.pipeline_stage for entry in flatten(find_assignments(model) or ())), default=0)
    return trace_step(model, Mode.PREDICT, element).stages
