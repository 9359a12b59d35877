"""PopART's sessions as plain files, and marks of the builder in plans."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from onnx.reference import ReferenceEvaluator

import openipu
import popart

WEIGHT = np.random.default_rng(0).normal(size=(8, 8)).astype(np.float32)


def build(*, marked: bool = False, layers: int = 3, batch: int = 4) -> tuple[bytes, str, str, str]:
    builder = popart.Builder()
    x = source = builder.addInputTensor(popart.TensorInfo("FLOAT", [batch, 8]), "x")
    for _ in range(layers):
        x = builder.aiOnnx.matmul([x, builder.addInitializedInputTensor(WEIGHT * 0.5, "weight")])
        x = builder.aiOnnx.tanh([x])
        if marked:
            builder.recomputeOutputInBackwardPass(x)
    loss = builder.aiGraphcore.l1loss([x], 0.1, popart.ReductionType.Mean)
    builder.addOutputTensor(x)
    return builder.getModelProto(), source, x, loss


def train(model: bytes, loss: str, anchors: dict[str, Any]) -> Any:
    session = popart.TrainingSession(
        fnModel=model,
        dataFlow=popart.DataFlow(1, {name: popart.AnchorReturnType("All") for name in anchors}),
        loss=loss,
        optimizer=popart.ConstSGD(0.5),
        deviceInfo=popart.DeviceManager().createIpuModelDevice({"numIPUs": 1, "tilesPerIPU": 1472}),
    )
    session.prepareDevice()
    session.weightsFromHost()
    return session


def test_a_session_for_inference_becomes_plain_onnx(tmp_path: Path) -> None:
    model, x, y, _ = build()
    session = popart.InferenceSession(
        fnModel=model,
        dataFlow=popart.DataFlow(1, {y: popart.AnchorReturnType("All")}),
        deviceInfo=popart.DeviceManager().createCpuDevice(),
    )
    session.prepareDevice()
    anchors = session.initAnchorArrays()
    data = np.random.default_rng(1).normal(size=(4, 8)).astype(np.float32)
    session.run(popart.PyStepIO({x: data}, anchors))
    openipu.export_program(session, tmp_path / "m.onnx")
    (found,) = ReferenceEvaluator(str(tmp_path / "m.onnx")).run(None, {x: data})
    np.testing.assert_allclose(found, anchors[y], rtol=1e-5, atol=1e-6)


def test_a_training_session_goes_on_in_plain_pytorch(tmp_path: Path) -> None:
    model, x, _, loss = build()
    session = train(model, loss, {loss: None})
    anchors = session.initAnchorArrays()
    source = np.random.default_rng(2)
    for _ in range(2):
        session.run(popart.PyStepIO({x: source.normal(size=(4, 8)).astype(np.float32)}, anchors))
    openipu.export_program(session, tmp_path / "m.py", check=False)
    namespace: dict[str, Any] = {"__file__": str(tmp_path / "m.py"), "__name__": "exported"}
    exec(compile((tmp_path / "m.py").read_text(), "m.py", "exec"), namespace)
    exported = namespace["Model"]()
    for _ in range(3):
        data = source.normal(size=(4, 8)).astype(np.float32)
        session.run(popart.PyStepIO({x: data}, anchors))
        results = exported.train_step(torch.from_numpy(data))
        np.testing.assert_allclose(float(results[loss]), float(anchors[loss]), rtol=1e-5)


def test_a_session_that_was_not_prepared_is_refused(tmp_path: Path) -> None:
    model, _, y, _ = build()
    session = popart.InferenceSession(
        fnModel=model,
        dataFlow=popart.DataFlow(1, {y: popart.AnchorReturnType("All")}),
        deviceInfo=popart.DeviceManager().createCpuDevice(),
    )
    with pytest.raises(popart.popart_exception, match="prepareDevice must be called"):
        openipu.export_program(session, tmp_path / "m.onnx")


def test_outputs_that_the_builder_marks_are_computed_again_in_the_plan() -> None:
    counts = []
    for marked in (False, True):
        model, _, _, loss = build(marked=marked)
        plan = train(model, loss, {loss: None})._compiled.plan
        counts.append(sum(op.op == "aten.tanh.default" for op in plan.ops))
    assert counts == [3, 3 + 3]  # each is read by its own gradient, and by that of the next product
