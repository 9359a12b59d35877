"""`pipeline`: stages in a row, each on its IPU, over many micro-batches.

In: functions for the stages, queues, an optimizer. Out: an op; running it runs the pipeline. A micro-batch goes through
all stages at the same weights, and gradients of `gradient_accumulation_count` of them become one update. The schedule
decides what the plan says of memory and cycles, not what is computed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from openipu_tensorflow.graphs.places import CHECKPOINT, STAGE
from openipu_tensorflow.ipu.clusters.counting import ROUNDS
from openipu_tensorflow.ipu.clusters.results import split_results
from openipu_tensorflow.ipu.clusters.tracing import Level, LoopItem, make_marker, open_level
from openipu_tensorflow.ipu.clusters.updates import UpdateOptions, add_update, find_trace
from openipu_tensorflow.ipu.gradient_accumulation import GradientAccumulationReductionMethod
from openipu_tensorflow.ipu.ipu_infeed_queue import IPUInfeedQueue
from openipu_tensorflow.ipu.ipu_outfeed_queue import IPUOutfeedMode, IPUOutfeedQueue
from openipu_tensorflow.ipu.pipelines.enums import _ALL_DEVICES, PipelineSchedule, RecomputationMode
from openipu_tensorflow.ipu.pipelines.optimizer_output import OptimizerFunctionOutput
from openipu_tensorflow.ipu.pipelines.options import PipelineOptions, build_options
from openipu_tensorflow.ipu.scopes import ipu_shard


def pipeline(
    computational_stages: Any,
    gradient_accumulation_count: Any = None,
    gradient_accumulation_dtype: Any = None,
    gradient_accumulation_for_captured_grads: bool = True,
    repeat_count: int = 1,
    batch_serialization_iterations: int = 1,
    inputs: Any = None,
    infeed_queue: IPUInfeedQueue | None = None,
    outfeed_queue: IPUOutfeedQueue | None = None,
    optimizer_function: Callable[..., OptimizerFunctionOutput] | None = None,
    device_mapping: Any = None,
    pipeline_schedule: Any = None,
    recomputation_mode: Any = None,
    forward_propagation_stages_poplar_options: Any = None,
    backward_propagation_stages_poplar_options: Any = None,
    weight_update_poplar_options: Any = None,
    offload_weight_update_variables: bool | None = None,
    replicated_optimizer_state_sharding: bool = False,
    offload_activations: bool | None = None,
    offload_gradient_accumulation_buffers: bool | None = None,
    replicated_weight_sharding: bool | None = None,
    offload_weights: bool | None = None,
    continuous_weight_updates: bool = False,
    outfeed_loss: bool = False,
    accumulate_outfeed: bool = False,
    accumulate_outfeed_dtype: Any = None,
    outfeed_mask: Sequence[bool] | None = None,
    reduction_method: Any = GradientAccumulationReductionMethod.SUM,
    name: str | None = None,
) -> Any:
    """Run the stages over `repeat_count` times `gradient_accumulation_count` micro-batches."""
    given = dict(locals())
    training = optimizer_function is not None
    options = build_options(computational_stages, gradient_accumulation_count, training, given)
    _check_queues(given, training)
    trace = find_trace("pipelining_ops.pipeline")
    tracing = _Stages(list(computational_stages), options)
    with open_level(trace) as level:
        level.marks[ROUNDS] = options.count
        given_inputs = _convert(inputs)
        outputs = tracing.run(given_inputs, infeed_queue)
        _check_captures(trace.graph, level, given_inputs)
        ends: list[Any] = []
        if training:
            assert optimizer_function is not None
            ends += _train(outputs, optimizer_function, options, given, tracing)
        else:
            ends += _enqueue(outputs, given, None, tracing.last)
        level.targets = [*tracing.targets, *ends, *(entry.marker for entry in level.enqueues.values())]
    if options.recomputation is RecomputationMode.RecomputeThenBackpropagate:
        _drop_checkpoints(trace.graph.get_operations()[level.start :])
    level.marks["pipeline"] = options
    for entry in level.enqueues.values():
        entry.accumulates = accumulate_outfeed if entry.queue is outfeed_queue else entry.accumulates
    return _finish(level, options)


def _check_queues(given: dict[str, Any], training: bool) -> None:
    infeed, outfeed = given["infeed_queue"], given["outfeed_queue"]
    if infeed is not None and not isinstance(infeed, IPUInfeedQueue):
        raise TypeError("infeed_queue is not an instance of ipu_infeed_queue.IPUInfeedQueue")
    if outfeed is not None and not isinstance(outfeed, IPUOutfeedQueue):
        raise TypeError("outfeed_queue is not an instance of ipu_outfeed_queue.IPUOutfeedQueue")
    if given["outfeed_mask"] and not training:
        raise ValueError("An optimizer_function must be provided when outfeed_mask is set.")
    if given["outfeed_loss"] and not training:
        raise ValueError("An optimizer_function must be provided when outfeed_loss is True.")
    if given["outfeed_loss"] and given["outfeed_mask"]:
        raise ValueError("Only one of `outfeed_loss` and `outfeed_mask` can be set.")
    if given["outfeed_mask"] and not all(given["outfeed_mask"]) and outfeed is None:
        raise ValueError("The outfeed_mask leaves outputs to enqueue, but no outfeed_queue has been provided.")
    if given["outfeed_loss"] and outfeed is None:
        raise ValueError("An outfeed_queue must be provided when outfeed_loss is True")
    if given["accumulate_outfeed"]:
        if outfeed is None:
            raise ValueError("An outfeed_queue must be provided when accumulate_outfeed is True.")
        if outfeed.mode is not IPUOutfeedMode.ALL:
            raise ValueError("To accumulate the outfeed, it must be in IPUOutfeedMode ALL.")


def _convert(inputs: Any) -> list[Any]:
    from tensorflow.python.framework import ops

    if inputs is None:
        return []
    given = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
    return [ops.convert_to_tensor(value) for value in given]


class _Stages:
    """Calls the functions of the stages, one after the other."""

    def __init__(self, stages: Sequence[Any], options: PipelineOptions) -> None:
        self._stages, self._options = stages, options
        self.targets: list[Any] = []
        self.last: Any = None  # what the last stage returned

    def run(self, inputs: list[Any], infeed: IPUInfeedQueue | None) -> list[Any]:
        """The tensors that the last stage returns."""
        positional: tuple[Any, ...] = ()
        named: dict[str, Any] = {}
        if infeed is not None:
            with self.place(0):
                positional, named = infeed._split_arguments(infeed._dequeue())
        values: list[Any] = [*inputs, *positional]
        for number, stage in enumerate(self._stages):
            functions = list(stage) if isinstance(stage, (list, tuple)) else [stage]
            places = self._options.devices[number]
            places = list(places) if isinstance(places, (list, tuple)) else [places] * len(functions)
            made: list[Any] = []
            for function, place in zip(functions, places, strict=True):
                with self.place(number, place):
                    returned = function(*values, **named)
                    tensors, targets = split_results(returned, f"Stage {number} of the pipeline")
                made += tensors
                self.last = returned
                self.targets += targets
            values, named = made, {}
        return values

    @contextlib.contextmanager
    def place(self, stage: int, device: Any = None) -> Iterator[None]:
        """Ops inside belong to a stage and its IPU."""
        from tensorflow.core.framework import attr_value_pb2
        from tensorflow.python.framework import ops

        place = self._options.devices[stage] if device is None else device
        place = place[0] if isinstance(place, (list, tuple)) else place
        mark = {STAGE: attr_value_pb2.AttrValue(i=stage)}
        with contextlib.ExitStack() as stack:
            stack.enter_context(ops.get_default_graph()._attr_scope(mark))
            if place != _ALL_DEVICES:
                stack.enter_context(ipu_shard(int(place)))
            yield


def _train(
    outputs: list[Any],
    optimizer_function: Callable[..., Any],
    options: PipelineOptions,
    given: dict[str, Any],
    tracing: _Stages,
) -> list[Any]:
    """The loss, the gradients and the update; what goes to the outfeed comes first."""
    with tracing.place(len(options.devices) - 1):
        answer = optimizer_function(*outputs)
        if not isinstance(answer, OptimizerFunctionOutput):
            raise TypeError(
                "The optimizer_function of a pipeline must return an OptimizerFunctionOutput, not "
                f"{type(answer).__name__}."
            )
        ends = _enqueue(outputs, given, answer.loss)
    from openipu_tensorflow.ipu.optimizers.gradient_accumulation_optimizer import cast_gradients

    pairs = cast_gradients(answer.compute_gradients(), given["gradient_accumulation_dtype"])
    ends += _hand_out_captured(answer, given)
    if not any(gradient is not None for gradient, _ in pairs):
        return ends  # no variable has a part in the loss: there is nothing to update
    update = UpdateOptions(
        accumulation=options.count if isinstance(options.count, int) else 0,
        reduction=options.reduction.reduction,
        offload_state=options.offload_state,
        shard_state=bool(given["replicated_optimizer_state_sharding"]),
    )
    return [*ends, add_update(pairs, answer.apply_gradients, update, "pipelining_ops.pipeline")]


def _hand_out_captured(answer: OptimizerFunctionOutput, given: dict[str, Any]) -> list[Any]:
    """Gradients of activations: their sums over the micro-batches of an update, or those of each."""
    queue = answer.captured_gradient_outfeed
    if queue is None or not answer.captures.captured_gradients:
        return []
    marker = queue.enqueue(answer.captures.captured_gradients)
    enqueues = find_trace("pipelining_ops.pipeline").level.enqueues
    enqueues[marker.name].accumulates = bool(given["gradient_accumulation_for_captured_grads"])
    return [marker]


def _enqueue(outputs: list[Any], given: dict[str, Any], loss: Any, returned: Any = None) -> list[Any]:
    queue = given["outfeed_queue"]
    if given["outfeed_loss"]:
        return [queue.enqueue(_cast_accumulated([loss], given)[0])]
    mask = list(given["outfeed_mask"] or [False] * len(outputs))
    if len(mask) != len(outputs):
        raise ValueError(
            f"The last computational stage has {len(outputs)} outputs, but the `outfeed_mask` has elements {len(mask)} "
            "- these need to match in size."
        )
    shown = [tensor for masked, tensor in zip(mask, outputs, strict=True) if not masked]
    if not shown:
        return []
    if queue is None:
        raise ValueError(
            f"The last computational stage has tensor outputs: {', '.join(str(tensor) for tensor in shown)}, but no "
            "outfeed_queue has been provided."
        )
    if loss is not None or given["accumulate_outfeed"]:
        return [queue.enqueue(_cast_accumulated(shown, given))]
    if isinstance(returned, dict):
        return [queue.enqueue(returned)]
    return [queue.enqueue(shown[0] if len(shown) == 1 else shown)]


def _cast_accumulated(tensors: list[Any], given: dict[str, Any]) -> list[Any]:
    """What is added up before it goes out is added up in the type that was asked for."""
    from tensorflow.python.framework import dtypes
    from tensorflow.python.ops import math_ops

    wanted = given["accumulate_outfeed_dtype"]
    if wanted is None or not given["accumulate_outfeed"]:
        return tensors
    chosen = [wanted(tensor) if callable(wanted) and not isinstance(wanted, type) else wanted for tensor in tensors]
    return [math_ops.cast(tensor, dtypes.as_dtype(kind)) for tensor, kind in zip(tensors, chosen, strict=True)]


def _check_captures(graph: Any, level: Level, inputs: Sequence[Any]) -> None:
    """Stages get what they need from `inputs`, the infeed and each other."""
    known = {tensor.name for tensor in inputs}
    made = graph.get_operations()[level.start :]
    own = {op.name for op in made}
    for op in made:
        for tensor in op.inputs:
            outside = tensor.op.name not in own and tensor.name not in known
            if outside and tensor.op.type != "Const" and tensor.dtype.name != "resource":
                raise ValueError(
                    f"Trying to capture the tensor {tensor.name} from outside the pipeline, for {op.name}. Pass it to "
                    "the stages: by `inputs` of the pipeline, or through the infeed queue."
                )


def _drop_checkpoints(made: Sequence[Any]) -> None:
    """Where a whole stage is made again before its backward, marks of single tensors keep nothing."""
    for op in made:
        if CHECKPOINT in op.node_def.attr:
            op._clear_attr(CHECKPOINT)


def _finish(level: Level, options: PipelineOptions) -> Any:
    trace = find_trace("pipelining_ops.pipeline")
    marker = make_marker("pipeline/done")
    flat = [entry for place in options.devices for entry in (place if isinstance(place, (list, tuple)) else [place])]
    overlaps = options.schedule is not PipelineSchedule.Sequential and len(set(flat)) == len(flat)
    trace.level.items.append(
        LoopItem(
            level,
            [],
            [],
            marker,
            count=options.count,
            repeats=options.repeat_count,
            stages=len(options.devices) if overlaps else 0,
        )
    )
    return marker
