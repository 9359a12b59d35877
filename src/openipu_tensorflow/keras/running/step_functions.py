"""`train_function`, `test_function` and `predict_function` of a model on an IPU.

In: the data of one execution. Out: logs, or predictions. A program is compiled for each kind of data and each number of
steps, when it is first needed.
"""

from __future__ import annotations

from typing import Any

import numpy

import tensorflow as tf
from openipu.plan import Plan
from openipu_tensorflow.ipu.configuration.devices import count_configurations, find_device
from openipu_tensorflow.keras.data.epochs import Execution, execute_batch
from openipu_tensorflow.keras.data.rules import Schedule
from openipu_tensorflow.keras.methods import options_of
from openipu_tensorflow.keras.reductions import ReplicatedMetricReductionMethod
from openipu_tensorflow.keras.running.arranging import Layout, arrange, find_accumulation, lay_out
from openipu_tensorflow.keras.running.checks import check_model, warn_of_statistics
from openipu_tensorflow.keras.running.per_step import report_steps
from openipu_tensorflow.keras.running.program import StepRunner
from openipu_tensorflow.keras.running.tracing import Mode, count_stages, trace_step


class StepFunction:
    """Runs executions of a model in one mode."""

    def __init__(self, model: Any, mode: Mode) -> None:
        self._model, self._mode = model, mode
        self._runners: dict[Any, StepRunner] = {}

    def __call__(self, data: Any) -> Any:
        execution = data if isinstance(data, Execution) else execute_batch(next(iter(data)))
        values = self.run(execution)
        if self._mode is Mode.PREDICT:  # Keras' own predict_on_batch expects tensors
            return values if execution is data else tf.nest.map_structure(tf.convert_to_tensor, values)
        report_steps(self._model, self._mode, values, execution.schedule.steps_per_execution)
        return tf.nest.map_structure(lambda value: value[-1], values)

    def run(self, execution: Execution) -> Any:
        """Results [steps, ...]: of metrics as the options say of replicas, of predictions [samples, ...]."""
        runner, schedule = self._find(execution), execution.schedule
        found = runner.run(execution.open())
        total = schedule.elements
        if self._mode is Mode.PREDICT:
            return tf.nest.map_structure(lambda value: _join(value, total), found)
        method = options_of(self._model).metric_reduction
        return tf.nest.map_structure(lambda value: _reduce(value, schedule, method), found)

    @property
    def plans(self) -> tuple[Plan, ...]:
        """What an IPU would do with each program that was compiled, in their order."""
        return tuple(runner.step.plan for runner in self._runners.values())

    def forget(self) -> None:
        """What was compiled is not used any more."""
        for runner in self._runners.values():
            runner.release()
        self._runners.clear()

    def _find(self, execution: Execution) -> StepRunner:
        schedule = execution.schedule
        spec = tuple((part.shape.as_list(), part.dtype.name) for part in tf.nest.flatten(execution.element_spec))
        key = (repr(spec), schedule.steps_per_execution, schedule.replicas, count_configurations())
        if key not in self._runners:
            self._runners[key] = self._compile(execution)
        return self._runners[key]

    def _compile(self, execution: Execution) -> StepRunner:
        model, mode, schedule = self._model, self._mode, execution.schedule
        check_model(model, mode)
        options = options_of(model)
        device = find_device(model.distribute_strategy._ipu_device)
        training = mode is Mode.FIT
        if training and not model.optimizer.built:
            model.optimizer.build(model.trainable_variables)
        traced = trace_step(model, mode, execution.element_spec, options.device_mapping)
        layout: Layout = lay_out(traced.stages, options, device.ipus)
        accumulation = find_accumulation(options, layout.stages > 1, schedule.steps_per_execution) if training else 1
        if training and layout.stages > 1:
            warn_of_statistics(model)
        how = arrange(
            options,
            Layout(layout.devices, schedule.replicas),
            training=training,
            steps=schedule.steps_per_execution,
            accumulation=accumulation,
        )
        return StepRunner(traced, device, how)


def make_function(mode: Mode, name: str, original: Any, model: Any, force: bool = False) -> Any:
    """`make_train_function` and its like."""
    if getattr(model, name) is None or force or not isinstance(getattr(model, name), StepFunction):
        object.__setattr__(model, name, StepFunction(model, mode))
    return getattr(model, name)


def count_replicas(model: Any, element: Any) -> int:
    """How many the device has room for; `element`: the types of a batch."""
    device = find_device(model.distribute_strategy._ipu_device)
    model._maybe_symbolic_build(data_batch=element)
    return lay_out(count_stages(model, element), options_of(model), device.ipus).replicas


def _join(value: Any, total: int) -> Any:
    """Predictions of all steps behind one another."""
    array = numpy.asarray(value)
    return array if total == 1 else array.reshape(-1, *array.shape[2:])


def _reduce(value: Any, schedule: Schedule, method: ReplicatedMetricReductionMethod) -> Any:
    """[steps x replicas] -> [steps], or [steps, replicas]."""
    array = numpy.asarray(value)
    if schedule.elements == 1:
        array = array[None]
    array = array.reshape(schedule.steps_per_execution, schedule.replicas, *array.shape[1:])
    match method:
        case ReplicatedMetricReductionMethod.SUM:
            return array.sum(1)
        case ReplicatedMetricReductionMethod.MEAN:
            return array.mean(1)
        case ReplicatedMetricReductionMethod.LIST:
            return array if schedule.replicas > 1 else array[:, 0]
    return array[:, -1]
