"""A small version in PopART: a model of `openipu.models`, exported to ONNX, with a loss added by the builder.

In: a module, data and a judge. Out: a `Course`. PopART needs onnx, which is imported when the course begins.
"""

from __future__ import annotations

import io
import tempfile
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from openipu.plan import Plan
from openipu_garden.lesson import TEST_SEED, TRAINING_SEED, Batch

OPSET = 11
ANSWER, WANTED = "answer", "wanted"


class PopartCourse:
    """A `TrainingSession` of so many batches a step, then an `InferenceSession` on the weights that it has learned."""

    def __init__(
        self,
        model: nn.Module,
        draw: Callable[[torch.Generator], Batch],
        judge: Callable[[Tensor, Batch], float],
        *,
        inputs: tuple[str, ...],
        learning_rate: float,
        steps: int,
        steps_a_call: int = 20,
        test_batches: int = 8,
    ) -> None:
        import popart

        self._popart, self._draw, self._judge, self._inputs = popart, draw, judge, inputs
        self._steps, self._steps_a_call, self._test = steps, steps_a_call, test_batches
        self._generator = torch.Generator().manual_seed(TRAINING_SEED)
        batch = draw(torch.Generator().manual_seed(TRAINING_SEED))
        builder = popart.Builder(_export(model, batch[: len(inputs)], inputs))
        wanted = builder.addInputTensor(popart.TensorInfo("FLOAT", list(batch[-1].shape)), WANTED)
        missed = builder.aiOnnxOpset11.sub([ANSWER, wanted])
        self._loss = builder.aiGraphcore.l1loss([missed], 1.0, reduction=popart.ReductionType.Mean)
        self._device = popart.DeviceManager().acquireAvailableDevice(1)
        self._session = popart.TrainingSession(
            fnModel=builder.getModelProto(),
            dataFlow=popart.DataFlow(steps_a_call, {self._loss: popart.AnchorReturnType("Final")}),
            loss=self._loss,
            optimizer=popart.Adam({"defaultLearningRate": (learning_rate, False), "defaultWeightDecay": (0.0, True)}),
            deviceInfo=self._device,
        )
        self._anchors: Mapping[str, Any] = {}

    @property
    def calls(self) -> int:
        return -(-self._steps // self._steps_a_call)

    def _prepare(self) -> None:
        if not self._anchors:
            self._session.prepareDevice()
            self._session.weightsFromHost()
            self._anchors = self._session.initAnchorArrays()

    def plan(self) -> Plan:
        self._prepare()
        plan: Plan = self._session.__openipu_compiled__().plan
        return plan

    def advance(self) -> float:
        self._prepare()
        batches = [self._draw(self._generator) for _ in range(self._steps_a_call)]
        stacked = [torch.stack(parts).numpy() for parts in zip(*batches, strict=True)]
        self._session.run(
            self._popart.PyStepIO(dict(zip((*self._inputs, WANTED), stacked, strict=True)), self._anchors)
        )
        return float(self._anchors[self._loss])

    def measure(self) -> float:
        popart = self._popart
        with tempfile.TemporaryDirectory() as folder:
            file = str(Path(folder) / "learned.onnx")
            self._session.modelToHost(file)
            self._device.detach()
            device = popart.DeviceManager().acquireAvailableDevice(1)
            asked = popart.InferenceSession(
                fnModel=file,
                dataFlow=popart.DataFlow(1, {ANSWER: popart.AnchorReturnType("All")}),
                deviceInfo=device,
            )
            asked.prepareDevice()
            asked.weightsFromHost()
        generator = torch.Generator().manual_seed(TEST_SEED)
        anchors, found = asked.initAnchorArrays(), []
        for _ in range(self._test):
            batch = self._draw(generator)
            given = dict(zip((*self._inputs, WANTED), (part.numpy() for part in batch), strict=True))
            asked.run(popart.PyStepIO(given, anchors))
            found.append(self._judge(torch.from_numpy(anchors[ANSWER].copy()), batch))
        device.detach()
        return sum(found) / len(found)

    def close(self) -> None:
        if self._device.isAttached:
            self._device.detach()


def _export(model: nn.Module, inputs: Batch, names: tuple[str, ...]) -> bytes:
    """The model as ONNX, in training: nothing is folded that is still to learn."""
    written = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the exporter, about itself
        torch.onnx.export(
            model,
            inputs,
            written,  # type: ignore[arg-type]  # buffers are taken, too
            dynamo=False,
            opset_version=OPSET,
            input_names=list(names),
            output_names=[ANSWER],
            training=torch.onnx.TrainingMode.TRAINING,
            do_constant_folding=False,
        )
    return written.getvalue()
