"""A program that does not fit: what helps stands in the report and in the warning, in PopART's own words."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import popart
from openipu.report import read_profile


def test_levers_are_planned_and_said_in_the_words_of_popart(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    builder = popart.Builder()
    tensor = builder.addInputTensor(popart.TensorInfo("FLOAT", [16, 1024]))
    weight = builder.addInitializedInputTensor(np.ones((1024, 1024), np.float32))  # 4 MiB, and four tiles
    product = builder.aiOnnx.matmul([tensor, weight])
    builder.addOutputTensor(product)
    options = popart.SessionOptions()
    options.engineOptions = {"autoReport.all": "true", "autoReport.directory": str(tmp_path)}
    device = popart.DeviceManager().createIpuModelDevice({"numIPUs": 1, "tilesPerIPU": 4})
    flow = popart.DataFlow(1, [product])
    session = popart.InferenceSession(builder.getModelProto(), flow, device, userOptions=options)
    session.prepareDevice()
    (file,) = tmp_path.rglob("profile.pop")
    advice = read_profile(file.parent).advice
    assert advice is not None
    assert advice.front_end == "popart"
    words = {lever.title: lever.words["popart"] for lever in advice.levers}
    assert words["matrix products in 16 pieces"] == 'builder.setSerializeMatMul({out}, "output_channels", 16)'
    assert "matrix products in 16 pieces: does not fit" in caplog.text
