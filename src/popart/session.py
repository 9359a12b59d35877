"""`popart.InferenceSession` and `popart.TrainingSession`.

In: an ONNX model, a data flow, options; for training a loss and an optimizer. Out: anchors of each step, weights with
optimizer state, reports.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from openipu.graph import OptimizerSpec, Program
from popart._dataflow import DataFlow, InputShapeInfo
from popart._device_manager import DeviceInfo
from popart._enumerations.training import MeanReductionStrategy, ReductionType
from popart._exceptions import OutOfMemoryException, translate_errors
from popart._options import SessionOptions
from popart._patterns import Patterns
from popart._sessions.forward_only import HANDLE, ForwardOnly, refuse_handle
from popart._sessions.loss_scaling import (
    FINAL_SCALE,
    begin_state,
    check_scaling,
    check_tracked,
    read_position,
    write_position,
)
from popart._sessions.model import SessionModule, make_device_info
from popart._sessions.randomness import RandomSession
from popart._sessions.reporting import ReportingSession
from popart._sessions.weight_copies import WeightsSession
from popart._stepio import IStepIO
from popart.optimizers import DeviceOptimizer
from popart.optimizers.base import Factors
from popart.tensorinfo import TensorInfo

__all__ = ["InferenceSession", "OutOfMemoryException", "TrainingSession"]


class InferenceSession(ReportingSession, WeightsSession, RandomSession):
    """Runs a model forward."""

    def __init__(
        self,
        fnModel: bytes | str,
        dataFlow: DataFlow,
        deviceInfo: DeviceInfo,
        inputShapeInfo: InputShapeInfo | None = None,
        patterns: Patterns | None = None,
        userOptions: SessionOptions | None = None,
        name: str = "inference",
    ) -> None:
        super().__init__(fnModel, dataFlow, deviceInfo, inputShapeInfo, patterns, userOptions, name)


class TrainingSession(ReportingSession, WeightsSession, RandomSession):
    """Trains a model on a loss with an optimizer."""

    _training = True

    def __init__(
        self,
        fnModel: bytes | str,
        dataFlow: DataFlow,
        loss: str,
        optimizer: Any,
        deviceInfo: DeviceInfo,
        inputShapeInfo: InputShapeInfo | None = None,
        patterns: Patterns | None = None,
        userOptions: SessionOptions | None = None,
        name: str = "training",
    ) -> None:
        self._given_optimizer = optimizer
        self._forward: ForwardOnly | None = None
        super().__init__(fnModel, dataFlow, deviceInfo, inputShapeInfo, patterns, userOptions, name, str(loss))
        check_tracked(self._model.program, self._run_options.loss_scale_control)
        self._weights.state = self._name_state()

    def _describe_optimizer(self, module: SessionModule) -> OptimizerSpec:
        options = self._options
        factors = Factors(
            accumulates=bool(options.enableGradientAccumulation),
            accumulation=int(options.accumulationFactor),
            replicas=self.replicationFactor,
            mean=options.accumulationAndReplicationReductionType is ReductionType.Mean,
            divides_last=options.meanAccumulationAndReplicationReductionStrategy is MeanReductionStrategy.Post,
        )
        check_scaling(options, self._given_optimizer)
        weights = {name: value.dtype for name, value in module._parameters.items() if value is not None}
        self._optimizer = DeviceOptimizer(
            self._given_optimizer, weights, factors, bool(options.automaticLossScalingSettings.enabled)
        )
        return self._optimizer.spec

    def getAllTensorIds(self) -> set[str]:
        """Names of all tensors, with those of the optimizer."""
        return super().getAllTensorIds() | set(self._collect_state()) | set(self._list_scalars())

    def _list_scalars(self) -> Mapping[str, float]:
        found = self._optimizer.list_scalars()
        if self._options.automaticLossScalingSettings.enabled:
            found[FINAL_SCALE] = self._optimizer.optimizer.loss_scaling.val()
        return found

    def _list_state(self, program: Program) -> Mapping[str, str]:
        return self._optimizer.name_all_state(program.state_slots)

    def getInfo(self, id: str) -> TensorInfo:
        """The format and shape of a tensor, of the model or of the optimizer."""
        slot = next((one for one in self._model.program.state_slots if self._optimizer.name_state(one.key) == id), None)
        return super().getInfo(id) if slot is None else make_device_info(slot.dtype, slot.shape)

    def prepareDevice(self, loadEngine: bool = True) -> None:
        """Plan and compile the program, and load it."""
        super().prepareDevice(loadEngine)
        self._set_values()

    def _run_program(self, handle: str, stepio: IStepIO) -> None:
        if handle != HANDLE or not self._options.createImplicitPipeliningFwdOnlyProgram:
            refuse_handle(handle)
        self._require("run")
        if self._forward is None:
            self._forward = ForwardOnly(self, InferenceSession)
        self._forward.run(stepio)

    def _set_values(self) -> None:
        with translate_errors():
            self._require("prepareDevice").executable.set_hyper_parameters(self._optimizer.hyper_parameters)

    def updateOptimizerFromHost(self, optimizer: Any) -> None:
        """Take over an optimizer's values: of the same kind, and constants with the same values."""
        self._optimizer.replace(optimizer)
        if self._compiled is not None:
            self._set_values()

    def _name_state(self) -> dict[str, torch.Tensor]:
        """Optimizer state as it begins, under PopART's names."""
        slots = self._model.program.state_slots
        ahead = self._optimizer.make_initial_state(self._weights.values)
        found = {}
        for slot in slots:
            name = self._optimizer.name_state(slot.key)
            saved = self._saved_state.get(name)  # of a model that was written after training
            usual = ahead.get(slot.key, torch.full(slot.shape, slot.initial, dtype=slot.dtype))
            usual = self._grouping.spread(slot.key.partition(":")[2], usual, slot.key in ahead)
            found[name] = usual if saved is None else saved.read().to(slot.dtype).reshape(usual.shape)
        for name, usual in begin_state(self._run_options.loss_scale_control).items():
            saved = self._saved_state.get(name)
            found[name] = usual if saved is None else saved.read().to(usual.dtype).reshape(())
        if not self._options.disableGradAccumulationTensorStreams:  # accumulators are empty between updates
            shapes = {name: tuple(value.shape) for name, value in self._weights.values.items()}
            found |= self._optimizer.list_accumulators(shapes)
        return found

    def weightsFromHost(self) -> None:
        """Copy weights and optimizer state from the host to the device."""
        super().weightsFromHost()
        keys = self._optimizer.name_all_state(self._model.program.state_slots)
        given = {keys[name]: value for name, value in self._weights.state.items() if name in keys}
        if given:
            with translate_errors():
                self._require("weightsFromHost").executable.load_state(given)
        scale = self._require("weightsFromHost").executable.loss_scale
        if scale is not None:
            scale.restore(*read_position(self._weights.state))
            self._set_values()

    def weightsToHost(self) -> None:
        """Copy weights and optimizer state from the device to the host."""
        super().weightsToHost()
        if self._weights_loaded and not self._options.disableOptimizerStateTensorStreams:
            executable = self._require("weightsToHost").executable
            state = executable.state
            keys = self._optimizer.name_all_state(self._model.program.state_slots)
            self._weights.state.update({name: state[key] for name, key in keys.items()})
            control = self._run_options.loss_scale_control
            if executable.loss_scale is not None and control is not None:
                self._weights.state.update(write_position(*executable.loss_scale.position, control))

    def _collect_state(self) -> dict[str, torch.Tensor]:
        return dict(sorted(self._weights.state.items()))  # PopART's order of what lies in a file
