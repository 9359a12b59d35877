"""What the tests of sessions share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import popart

Array = np.ndarray[Any, Any]


@pytest.fixture
def device() -> popart.DeviceInfo:
    return popart.DeviceManager().createIpuModelDevice({"numIPUs": 1})


@pytest.fixture
def train(device: popart.DeviceInfo) -> Callable[..., tuple[popart.TrainingSession, dict[str, Array]]]:
    """Make a training session, run one step, bring weights back: the session and its anchors."""

    def run(
        builder: popart.Builder,
        loss: str,
        anchors: Mapping[str, str] | Sequence[str],
        data: Mapping[str, Array],
        optimizer: Any = None,
        batches: int = 1,
        options: popart.SessionOptions | None = None,
    ) -> tuple[popart.TrainingSession, dict[str, Array]]:
        kinds = anchors if isinstance(anchors, Mapping) else dict.fromkeys(anchors, "All")
        flow = popart.DataFlow(batches, {name: popart.AnchorReturnType(kind) for name, kind in kinds.items()})
        session = popart.TrainingSession(
            builder.getModelProto(), flow, loss, optimizer or popart.ConstSGD(0.1), device, userOptions=options
        )
        results = session.initAnchorArrays()
        session.prepareDevice()
        session.weightsFromHost()
        session.run(popart.PyStepIO(dict(data), results))
        session.weightsToHost()
        return session, results

    return run
