"""One step of a session: data in, a run, anchors out.

In: a step's data, a captured model, an executable. Out: anchors in the shapes that PopART gives them: [batches,
accumulation, replicas] in front of the tensor's own, without those that are 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from openipu.graph import RunOptions
from openipu.run import Executable
from popart._dataflow import DataFlow
from popart._enumerations.sessions import SyntheticDataMode
from popart._enumerations.tensors import AnchorReturnTypeId
from popart._sessions.loss_scaling import FINAL_SCALE
from popart._sessions.model import InputEntry, SessionModel
from popart._stepio import IStepIO
from popart.tensorinfo import TensorInfo

Array = np.ndarray[Any, Any]


def read_call(args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[str, IStepIO, str]:
    """The program, the data and the name of `run(stepio, debugName)` or `run(programHandle, stepio, debugName)`."""
    names = ["programHandle", "stepio", "debugName"]
    given = dict(zip(names if args and isinstance(args[0], str) else names[1:], args, strict=False))
    given |= kwargs
    stepio = given.get("stepio")
    if not isinstance(stepio, IStepIO) or set(given) > set(names):
        raise TypeError("run takes a PyStepIO or a PyStepIOCallback, perhaps after a program's name: run(stepio).")
    return str(given.get("programHandle", "")), stepio, str(given.get("debugName", ""))


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
        if not entry.used:
            found.append(torch.zeros(whole, dtype=dtype))
        elif synthetic is SyntheticDataMode.Off:
            count = entry.count_taken(options)
            given = stepio._take(entry.name, entry.info.shape(), count, entry.host._number_format.numpy)
            array = np.ascontiguousarray(given)
            value = torch.from_numpy(array if array.flags.writeable else array.copy()).to(dtype)
            if entry.shared:  # replicas take turns behind one another
                value = value.reshape(count, 1, -1).expand(-1, options.replicas, -1)
            found.append(value.reshape(whole))
        else:
            found.append(_make_up(whole, dtype, synthetic))
    return found


def _make_up(shape: Sequence[int], dtype: torch.dtype, mode: SyntheticDataMode) -> torch.Tensor:
    if mode is SyntheticDataMode.Zeros or (not dtype.is_floating_point and dtype.itemsize > 1):
        return torch.zeros(tuple(shape), dtype=dtype)  # wider whole numbers are indices, more often than not
    if dtype is torch.bool:
        return torch.rand(tuple(shape)) < 0.5
    if not dtype.is_floating_point:
        kind = torch.iinfo(dtype)
        return torch.randint(kind.min, kind.max + 1, tuple(shape), dtype=dtype)
    make = torch.randn if mode is SyntheticDataMode.RandomNormal else torch.rand
    return make(tuple(shape)).to(dtype)


def run_step(
    model: SessionModel,
    executable: Executable,
    flow: DataFlow,
    stepio: IStepIO,
    synthetic: SyntheticDataMode,
    scale: Mapping[str, float],
    describe: Callable[[str], TensorInfo],
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
            stepio._put(name, _split(value.detach().to(dtype), info))
    for name, tapped in result.taps.items():
        if stepio._wants(name):
            stepio._put(name, _split(tapped.detach(), describe(name)))
    for name, leaf in model.accumulated.items():
        if stepio._wants(name):
            info = model.describe(name)
            assert info is not None
            gradients = torch.as_tensor(result.outputs[leaf]).reshape(
                flow.batchesPerStep(), options.gradient_accumulation, options.replicas, *info.shape()
            )
            stepio._put(name, _split(_choose_kept(gradients.cumsum(1), flow, name), info))


def _split(value: torch.Tensor, info: TensorInfo) -> Array:
    """[micro-batches and replicas, …]; a tensor without elements is one."""
    found: Array = value.reshape(-1 if value.numel() else 1, *info.shape()).numpy()
    return found


def put_scalars(
    scalars: Mapping[str, float],
    executable: Executable,
    flow: DataFlow,
    stepio: IStepIO,
    describe: Callable[[str], TensorInfo],
) -> None:
    """Hand over anchors that are values of the optimizer, each the same for all micro-batches of an update."""
    options = executable.options
    for name, value in scalars.items():
        if not flow.isAnchored(name) or not stepio._wants(name):
            continue
        each = [value] * options.device_iterations
        if name == FINAL_SCALE and executable.loss_scale is not None:
            each = executable.loss_scale.used
        values = torch.tensor(each, dtype=describe(name)._number_format.torch).view(-1, 1, 1)
        spread = values.expand(-1, options.gradient_accumulation, options.replicas)
        stepio._put(name, _choose_kept(spread, flow, name).reshape(-1).numpy())


def _choose_kept(values: torch.Tensor, flow: DataFlow, name: str) -> torch.Tensor:
    """What an anchor's mode keeps of [batches, accumulation, replicas, …]."""
    micro = values.flatten(0, 1)
    match flow.art(name).id():
        case AnchorReturnTypeId.Final:
            return micro[-1]
        case AnchorReturnTypeId.Sum:
            return micro.sum(0)
        case AnchorReturnTypeId.EveryN:
            period = flow.art(name).rp()
            return micro[period - 1 :: period]
        case _:
            return micro
