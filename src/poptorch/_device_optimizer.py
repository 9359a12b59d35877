"""The optimizer of one executor: its structure, its values and its state on the device.

In: a torch or poptorch optimizer. Out: the spec that the program is compiled with, hyper-parameters that are written
when the user says so, and state that survives `detachFromDevice()` and `destroy()`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

import torch

from openipu.capture import list_members, list_tensors
from openipu.graph import OptimizerSpec
from openipu.run import Executable
from poptorch._checkpoint_names import apply_named, name_state, name_values
from poptorch._logging import logger
from poptorch._loss_scaling import STATE_NAME, is_automatic, read_factor
from poptorch._optimizer_log import AttributeWatch, log_values, warn_of_subclass
from poptorch._optimizer_state import IpuState, StateKeeper
from poptorch._optimizer_values import OptimizerValues, read_values
from poptorch.enums import MeanReductionStrategy
from poptorch.errors import createPoptorchError
from poptorch.options import Options


class DeviceOptimizer:
    """Speaks to an executable for an optimizer that lives on the host."""

    def __init__(
        self,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        options: Options,
        save_weights: Callable[[], object] = lambda: None,
        device_lock: AbstractContextManager[object] = nullcontext(),  # noqa: B008 (has no state)
    ) -> None:
        """`save_weights` is called before state on the device is overwritten; nothing runs while the lock is held."""
        self._model = model
        self._options = options
        self._save_weights = save_weights
        self._device_lock = device_lock
        self._watch = AttributeWatch(options.relax_optimizer_checks)
        self._spec: OptimizerSpec | None = None
        self._executable: Executable | None = None
        self._adopt(optimizer)
        self._values = self._read(optimizer)
        self._compiled_values = self._values
        self._compiled_sizes: list[int] = []
        self._written: OptimizerValues | None = None  # what the device was given last
        self._loaded: IpuState = {}  # and since then from a checkpoint, by its names

    @property
    def optimizer(self) -> torch.optim.Optimizer:
        """The user's own."""
        return self._optimizer

    def list_tensor_names(self) -> list[str]:
        """Tensors of the optimizer on the device, as a checkpoint names them."""
        if self._executable is None:
            return []
        state, values = self._read_state()
        return [*state, *values]

    def describe(self) -> OptimizerSpec:
        """The structure to compile for."""
        accumulates = self._options.Training.gradient_accumulation * self._options.replication_factor > 1
        self._spec = self._values.describe(self._list_members(self._optimizer), accumulates)
        self._compiled_values = self._values
        self._compiled_sizes = _list_sizes(self._optimizer)
        return self._spec

    def connect(self, executable: Executable) -> None:
        """Write the values to a new executable."""
        self._executable = executable
        self._write_values()

    def attach(self) -> None:
        """The device is there: state that the host has is written to it, otherwise the device's is the latest."""
        self._keeper._source = self._read_state
        if self._keeper.has_state():
            self._write_state()
        else:
            self._keeper.host_state_is_dirty = True

    def detach(self) -> None:
        """The device goes: keep what it has."""
        self._keeper.refresh()

    def disconnect(self) -> None:
        """Keep what the executable has, and let go of it."""
        if self._executable is not None:
            self._keeper.refresh()
            self._keeper._source = None
            self._executable = self._spec = None

    def replace(self, optimizer: torch.optim.Optimizer) -> None:
        """Use another optimizer of the same structure, or new values of the same one."""
        new = optimizer is not self._optimizer
        values = self._read(optimizer)
        if self._executable is not None:
            self._check_structure(optimizer, values)
            self._check_constants(values)
            values.compute(self._require_spec())  # refuses what would be another program
        if new:
            self._keeper.refresh()
            source, self._keeper._source = self._keeper._source, None
            self._adopt(optimizer)
            self._keeper._source = source
            self._keeper.ipu_state_is_dirty = self._keeper.has_state()
            self._keeper.host_state_is_dirty = source is not None and not self._keeper.has_state()
        if values == self._values:
            return
        self._values = values
        self._keeper._ipu_values_pending = False  # what is set now is newer than what was loaded
        if self._executable is not None:
            self._write_values()

    def prepare_run(self) -> None:
        """Before a run: state that was loaded into the optimizer goes to the device, and the run makes it stale."""
        if self._keeper.ipu_state_is_dirty and self._keeper.has_state():
            self._save_weights()
            self._write_state()
        self._keeper.host_state_is_dirty = True
        # The device takes the step that schedulers of torch look for.
        self._optimizer._opt_called = True  # type: ignore[attr-defined]

    def _adopt(self, optimizer: torch.optim.Optimizer) -> None:
        warn_of_subclass(optimizer)
        self._optimizer = optimizer
        # poptorch's optimizers keep their own state; for those of torch somebody else must.
        self._keeper = optimizer if isinstance(optimizer, StateKeeper) else StateKeeper()
        self._keeper._device_lock = self._device_lock
        self._keeper._ipu_values_pending = False  # its values are read now, which is later than they were loaded

    def _read(self, optimizer: torch.optim.Optimizer) -> OptimizerValues:
        values = read_values(optimizer)
        if is_automatic(self._options):
            values = replace(values, loss_scaling=replace(values.loss_scaling, constant=False))
        self._watch.check(optimizer, values.variant)
        if values.accumulation_type is torch.float16 and not values.extras.get("use_combined_accum"):
            self._choose_running_mean()
        return values

    def _choose_running_mean(self) -> None:
        """A sum of half gradients may overflow where their running mean does not."""
        training = self._options.Training
        if training.meanAccumulationAndReplicationReductionStrategy == MeanReductionStrategy.Running:
            return
        if self._executable is not None:
            raise ValueError(
                "Invalid optimizer: its accum_type of torch.float16 needs options.Training."
                "setMeanAccumulationAndReplicationReductionStrategy(poptorch.MeanReductionStrategy.Running), but the "
                "executable is already compiled. Call destroy() on the model first."
            )
        self._options._unfreeze()
        training.setMeanAccumulationAndReplicationReductionStrategy(MeanReductionStrategy.Running)
        self._options._freeze()

    def _check_structure(self, optimizer: torch.optim.Optimizer, values: OptimizerValues) -> None:
        spec, variant = self._require_spec(), self._compiled_values.variant
        groups = [group.parameters for group in spec.groups]
        # The optimizer that was compiled holds for the same weights, even if a library has since made the model's
        # parameters anew: those are loaded by name.
        kept = optimizer is self._optimizer and _list_sizes(optimizer) == self._compiled_sizes
        if values.variant != variant or not (kept or self._list_members(optimizer) == groups):
            what = f"is {values.variant}" if values.variant != variant else "has other parameters in its groups"
            raise createPoptorchError(
                f"The new optimizer {what}, and the model was compiled for {variant} with groups of "
                f"{[len(names) for names in groups]} parameters. It has another structure: call destroy() on the model "
                "first, it is then compiled anew."
            )

    def _check_constants(self, values: OptimizerValues) -> None:
        """Constants are part of the compiled program."""
        old, new = self._compiled_values, values
        pairs = [(f"{name} of group {index}", entry, group.get(name))
                 for index, (before, group) in enumerate(zip(old.groups, new.groups, strict=False))
                 for name, entry in before.items()]  # fmt: skip
        pairs.append(("loss_scaling", old.loss_scaling, new.loss_scaling))
        for name, before, after in pairs:
            if before.constant and after is not None and before.value != after.value:
                raise createPoptorchError(
                    f"The optimizer's {name} was a constant ({before.value}) when the model was compiled and is now "
                    f"{after.value}. Mark it with optimizer.variable_attrs.markAsVariable() before compiling, or call "
                    "destroy() on the model: it is then compiled anew."
                )
        for name in sorted({*old.extras, *new.extras}):
            before_value, after_value = old.extras.get(name), new.extras.get(name)
            if name in old.extras and name in new.extras and before_value != after_value:
                raise createPoptorchError(
                    f"The optimizer's {name} was {before_value} when the model was compiled and is now {after_value}. "
                    "It decides the program: call destroy() on the model first, it is then compiled anew."
                )

    def _list_members(self, optimizer: torch.optim.Optimizer) -> list[tuple[str, ...]]:
        parameters = list_tensors(self._model, "_parameters")
        members = list_members(optimizer, {id(parameter): name for name, parameter in parameters.items()})
        grouped = {name for group in members for name in group}
        # Parameters of no group are trained, too, with the optimizer's defaults: requires_grad=False freezes one.
        rest = tuple(name for name, value in parameters.items() if name not in grouped and value.requires_grad)
        return [*members, rest] if rest else members

    def _write_values(self) -> None:
        assert self._executable is not None
        spec = self._require_spec()
        log_values(self._values, [group.parameters for group in spec.groups])
        self._executable.set_hyper_parameters(self._values.compute(spec))
        self._written, self._loaded = self._values, {}

    def _write_state(self) -> None:
        assert self._executable is not None
        spec, keeper = self._require_spec(), self._keeper
        if type(keeper) is not StateKeeper:
            logger.debug("Writing optimiser state tensors from host to IPU memory")
        known = {name_state(key, spec.kind): key for key in self._executable.state}
        state = keeper._ipu_state or {}
        if self._executable.loss_scale is not None and STATE_NAME in state:
            self._executable.loss_scale.factor = float(state[STATE_NAME])
            self._write_values()
        self._executable.load_state({known[name]: value for name, value in state.items() if name in known})
        if keeper._ipu_values_pending and keeper._ipu_param:
            known_values = self._name_device_values()
            loaded = {name: value for name, value in keeper._ipu_param.items() if name in known_values}
            self._values = apply_named(self._values, spec, loaded)  # what a later setOptimizer is compared with
            self._executable.set_hyper_parameters(self._values.compute(spec))
            self._loaded |= loaded
        keeper.ipu_state_is_dirty = keeper._ipu_values_pending = False

    def _read_state(self) -> tuple[IpuState, IpuState]:
        assert self._executable is not None
        kind = self._require_spec().kind
        state = {name_state(key, kind): value for key, value in self._executable.state.items()}
        factor = read_factor(self._executable)
        if factor is not None:
            state[STATE_NAME] = torch.tensor(factor)
        return state, self._name_device_values()

    def _name_device_values(self) -> IpuState:
        """The values that the device has, as a checkpoint names them: made when asked for, as schedulers change them in
        every step."""
        return {} if self._written is None else name_values(self._written, self._require_spec()) | self._loaded

    def _require_spec(self) -> OptimizerSpec:
        assert self._spec is not None
        return self._spec


def _list_sizes(optimizer: torch.optim.Optimizer) -> list[int]:
    return [len(group["params"]) for group in optimizer.param_groups]
