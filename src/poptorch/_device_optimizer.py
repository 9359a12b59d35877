"""The optimizer of one executor: its structure, its values and its state on the device.

In: a torch or poptorch optimizer. Out: the spec that the program is compiled with, hyper-parameters that are written
when the user says so, and state that survives `destroy()`.
"""

from __future__ import annotations

import torch

from openipu.capture import describe_optimizer, read_hyper_parameters
from openipu.graph import OptimizerSpec
from openipu.run import Executable
from poptorch._logging import logger, warn_once
from poptorch._optimizer_state import IpuState, StateKeeper, describe_parameters, rename_to_checkpoint, rename_to_device
from poptorch.errors import createPoptorchError
from poptorch.optim import add_extra_arguments, check_optimizer


class DeviceOptimizer:
    """Speaks to an executable for an optimizer that lives on the host."""

    def __init__(self, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
        check_optimizer(optimizer)
        self._model = model
        self._optimizer = optimizer
        self._keeper = _find_keeper(optimizer)
        self._spec: OptimizerSpec | None = None
        self._executable: Executable | None = None

    def describe(self) -> OptimizerSpec:
        """The structure to compile for."""
        self._spec = self._describe(self._optimizer)
        return self._spec

    def connect(self, executable: Executable) -> None:
        """Write values and state to a new executable."""
        self._executable = executable
        self._keeper.connect(self._read_state)
        self._write_values()

    def disconnect(self) -> None:
        """Keep what the executable has, and let go of it."""
        if self._executable is not None:
            logger.debug("Writing optimiser state tensors from IPU to host.")
            self._keeper.disconnect()
            self._executable = self._spec = None

    def replace(self, optimizer: torch.optim.Optimizer) -> None:
        """Use another optimizer of the same structure, or new values of the same one."""
        check_optimizer(optimizer)
        if self._executable is not None and self._describe(optimizer) != self._spec:
            raise createPoptorchError(
                "The new optimizer has another structure (class, parameter groups, momentum or types) than the one "
                "the model was compiled with: call destroy() on the model first, it is then compiled anew."
            )
        if optimizer is not self._optimizer:
            self._keeper.disconnect()
            self._optimizer, self._keeper = optimizer, _find_keeper(optimizer)
            if self._executable is not None:
                self._keeper.connect(self._read_state)
        if self._executable is not None:
            self._write_values()

    def write_pending_state(self) -> None:
        """Write state that was loaded into the optimizer since the last run."""
        pending = self._keeper.take_pending()
        if pending and self._executable is not None:
            self._executable.load_state(rename_to_device(pending, self._executable.state))

    def _describe(self, optimizer: torch.optim.Optimizer) -> OptimizerSpec:
        parameters = dict(self._model.named_parameters())
        half = any(parameter.dtype is torch.float16 for parameter in parameters.values())
        if half and getattr(optimizer, "loss_scaling", 1.0) != 1.0:
            warn_once("loss_scaling has no effect here: half gradients are not scaled and may underflow.")
        names = {id(parameter): name for name, parameter in parameters.items()}
        grouped = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
        # Parameters of no group are trained, too, with the optimizer's defaults: requires_grad=False freezes one.
        rest = [name for key, name in names.items() if key not in grouped and parameters[name].requires_grad]
        return add_extra_arguments(describe_optimizer(optimizer, names, rest), optimizer)

    def _write_values(self) -> None:
        assert self._executable is not None
        assert self._spec is not None
        self._executable.set_hyper_parameters(read_hyper_parameters(self._optimizer, self._spec))

    def _read_state(self) -> tuple[IpuState, IpuState]:
        assert self._executable is not None
        assert self._spec is not None
        state = rename_to_checkpoint(self._executable.state)
        return state, describe_parameters(self._spec.groups, self._optimizer)


def _find_keeper(optimizer: torch.optim.Optimizer) -> StateKeeper:
    """poptorch's optimizers keep their own state; for those of torch somebody else must."""
    return optimizer if isinstance(optimizer, StateKeeper) else StateKeeper()
