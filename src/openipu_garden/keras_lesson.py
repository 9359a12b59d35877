"""A small version in Keras, on an IPU by `IPUStrategy`.

In: a function that makes the model, data and a judge. Out: a `Course`. Keras is imported when the course begins.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import torch

from openipu.plan import Plan
from openipu_garden.lesson import TEST_SEED, TRAINING_SEED

Arrays = tuple[numpy.ndarray[Any, Any], numpy.ndarray[Any, Any]]


class KerasCourse:
    """`fit` for each call, on data that were drawn for it, and `predict` in the end."""

    def __init__(
        self,
        make_model: Callable[[], Any],
        draw: Callable[[torch.Generator, int], Arrays],
        judge: Callable[[numpy.ndarray[Any, Any], numpy.ndarray[Any, Any]], float],
        *,
        learning_rate: float,
        batch: int,
        steps: int,
        steps_a_call: int = 10,
    ) -> None:
        import keras
        from tensorflow.python import ipu

        self._ipu = ipu
        keras.utils.set_random_seed(0)
        config = ipu.config.IPUConfig()
        config.auto_select_ipus = 1
        config.configure_ipu_system()
        self._scope = ipu.ipu_strategy.IPUStrategy().scope
        self._draw, self._judge = draw, judge
        self._batch, self._steps, self._steps_a_call = batch, steps, steps_a_call
        self._generator = torch.Generator().manual_seed(TRAINING_SEED)
        self._ahead: list[float] = []  # losses of calls that were made to compile
        with self._scope():
            self._model = make_model()
            self._model.compile(
                keras.optimizers.Adam(learning_rate),
                keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                steps_per_execution=steps_a_call,
            )

    @property
    def calls(self) -> int:
        return -(-self._steps // self._steps_a_call)

    def plan(self) -> Plan:
        if not self._ahead:
            self._ahead.append(self._fit())
        plan: Plan = self._model.train_function.plans[-1]
        return plan

    def advance(self) -> float:
        return self._ahead.pop() if self._ahead else self._fit()

    def _fit(self) -> float:
        inputs, labels = self._draw(self._generator, self._batch * self._steps_a_call)
        with self._scope():
            history = self._model.fit(inputs, labels, batch_size=self._batch, shuffle=False, verbose=0).history
        return float(history["loss"][-1])

    def measure(self) -> float:
        generator = torch.Generator().manual_seed(TEST_SEED)
        inputs, labels = self._draw(generator, self._batch * self._steps_a_call)
        with self._scope():
            answers = self._model.predict(inputs, batch_size=self._batch, verbose=0)
        return self._judge(answers, labels)

    def close(self) -> None:
        self._ipu.config.reset_ipu_configuration()
