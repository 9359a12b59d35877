"""One step of a session: data in, a run, anchors out.

In: a step's data, a captured model, an executable. Out: anchors in the shapes that PopART gives them: [batches,
accumulation, replicas] in front of the tensor's own, without those that are 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from openipu.graph import RunOptions
from openipu.run import Executable
from popart._dataflow import DataFlow
from popart._session import SyntheticDataMode
from popart._sessions.model import InputEntry, SessionModel
from popart._stepio import IStepIO
from popart._tensors import AnchorReturnTypeId
from popart.tensorinfo import TensorInfo

Array = np.ndarray[Any, Any]


def shape_anchor(flow: DataFlow, name: str, options: RunOptions, info: TensorInfo) -> list[int]:
    """The shape of what comes back of an anchor in one step."""
    front = [options.replicas]
    kind = flow.art(name)
    batches = flow.batchesPerStep()
    if kind.id() is AnchorReturnTypeId.EveryN:
        if batches % kind.rp():
            raise RuntimeError("Invalid anchor period, is not divisble by batchesPerStep")
        front = [batches // kind.rp(), options.gradient_accumulation, *front]
    elif kind.id() is AnchorReturnTypeId.All:
        front = [batches, options.gradient_accumulation, *front]
    return [size for size in front if size != 1] + info.shape()


def collect_inputs(
    entries: Sequence[InputEntry], stepio: IStepIO, options: RunOptions, synthetic: SyntheticDataMode
) -> list[torch.Tensor]:
    """One tensor for each input, with all micro-batches of the step."""
    found = []
    for entry in entries:
        shape = entry.held_shape
        whole = (shape[0] * options.micro_batches, *shape[1:])
        dtype = entry.info._number_format.torch
        assert dtype is not None
        if synthetic is SyntheticDataMode.Off:
            given = stepio._take(entry.name, entry.info.shape(), options.micro_batches, entry.host._number_format.numpy)
            array = np.ascontiguousarray(given)
            found.append(torch.from_numpy(array if array.flags.writeable else array.copy()).to(dtype).reshape(whole))
        else:
            found.append(_make_up(whole, dtype, synthetic))
    return found


def _make_up(shape: Sequence[int], dtype: torch.dtype, mode: SyntheticDataMode) -> torch.Tensor:
    if mode is SyntheticDataMode.Zeros or not dtype.is_floating_point:
        return torch.zeros(tuple(shape), dtype=dtype)
    make = torch.randn if mode is SyntheticDataMode.RandomNormal else torch.rand
    return make(tuple(shape)).to(dtype)


def run_step(
    model: SessionModel,
    executable: Executable,
    flow: DataFlow,
    stepio: IStepIO,
    synthetic: SyntheticDataMode,
    scale: Mapping[str, float],
) -> None:
    """Run, and hand the anchors over. `scale`: factors of anchors that the device holds otherwise."""
    options = executable.options
    result = executable.run(collect_inputs(model.inputs, stepio, options, synthetic))
    for name, leaf in model.leaves.items():
        if stepio._wants(name):
            info = model.describe(name)
            assert info is not None
            value = torch.as_tensor(result.outputs[leaf])
            if name in scale:
                value = value * scale[name]
            dtype = info._number_format.torch
            stepio._put(name, value.detach().to(dtype).reshape(-1, *info.shape()).numpy())
    for name in model.updated:
        if stepio._wants(name):
            info = model.describe(name)
            assert info is not None
            stepio._put(name, result.taps[name].detach().reshape(-1, *info.shape()).numpy())
