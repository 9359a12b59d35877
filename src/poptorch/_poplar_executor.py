"""`PoplarExecutor`: a model with options, compiled at its first call and run from then on.

In: what `trainingModel` and `inferenceModel` are given, then inputs. Out: results in the structure that `forward`
returns. The work is done below: `openipu.session` captures, plans and runs.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import torch
from torch.utils import _pytree as pytree

from openipu import session
from poptorch import _hooks
from poptorch._binding import BoundInputs, bind_inputs, match_inputs, read_signature
from poptorch._device_optimizer import DeviceOptimizer
from poptorch._device_weights import DeviceWeights
from poptorch._inputs import InputReader, return_changed_inputs
from poptorch._logging import logger
from poptorch._outputs import build_outputs
from poptorch._weights import is_wrapped, unwrap_model, wrap_model
from poptorch.annotations import module_repr
from poptorch.enums import ConnectionType
from poptorch.errors import createPoptorchError, translate_errors
from poptorch.options import Options, build_run_options, choose_profile_directory

NOT_COMPILED = "Model has not been compiled or has been destroyed."
OFFLINE = (
    "Trying to run a model on an offline device (ConnectionType.Never): "
    "use model.compile(inputs) instead of model(inputs)"
)

HOST_OUTPUT = "Output "
NOT_YET = (
    "compileAndExport",
    "getAnchoredTensor",
    "getComputeLatency",
    "getHostIpuLatency",
    "getIpuHostLatency",
    "getLatency",
    "getPerfCounters",
    "getTensorNames",
    "loadExecutable",
    "rng_state",
    "save",
)


class PoplarExecutor:
    """Made by `trainingModel` and `inferenceModel`. Attributes that it does not have are those of the user's model."""

    host_weights_version = 0  # rises with each copy of weights to the host

    def __init__(
        self,
        model: Any,
        user_model: Any,
        options: Options,
        training: bool,
        optimizer: torch.optim.Optimizer | None = None,
    ) -> None:
        self._model = model  # what is captured: a shallow copy with the class that the user gave it
        self._user_model = user_model
        self._options = options
        self._training = training
        self._optimizer = DeviceOptimizer(model, optimizer) if optimizer is not None else None
        self._signature = read_signature(model)
        self._reader = InputReader(options, training)
        self._compiled: session.Compiled | None = None
        self._compiled_inputs: BoundInputs | None = None
        self._weights: DeviceWeights | None = None
        self._attached = False
        self._host_weights_stale = False
        self._runs = 0
        if training:
            wrap_model(user_model, self)

    @property
    def model(self) -> Any:
        """The user's model."""
        return self._user_model

    @property
    def options(self) -> Options:
        """A frozen copy of the options that the model was wrapped with."""
        return self._options

    def __getattr__(self, name: str) -> Any:
        if name == "_user_model":  # not set yet: __init__ failed
            raise AttributeError(name)
        if name in NOT_YET:
            raise AttributeError(f"PoplarExecutor.{name} of PopTorch is not supported here yet.")
        return getattr(self._user_model, name)

    def __repr__(self) -> str:
        return (
            module_repr(self._user_model) if isinstance(self._user_model, torch.nn.Module) else repr(self._user_model)
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the model on the inputs of one call; the first call compiles it."""
        assert self._options.connection_type != ConnectionType.Never, OFFLINE
        given = bind_inputs(self._signature, args, kwargs)
        if self._compiled is None:
            self._compile(given)
        compiled, weights = self._require_compiled()
        assert self._compiled_inputs is not None
        given = match_inputs(self._compiled_inputs, given)
        if not self._attached:
            self.attachToDevice()
        prepared = self._reader.read(given)
        with translate_errors():
            if self._optimizer:
                self._optimizer.write_pending_state()
            else:
                weights.upload_if_trained_elsewhere()
            result = compiled.executable.run(pytree.tree_leaves((prepared.args, prepared.kwargs)))
        self._runs += 1
        self._host_weights_stale = self._training
        return_changed_inputs(given, result.changed_inputs, self._options)
        return build_outputs(result.outputs, compiled.program.output_tree)

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compile for inputs like these, without running."""
        if self._compiled is not None:
            logger.warning("Call to compile() ignored: the executable is already compiled")
            return
        self._compile(bind_inputs(self._signature, args, kwargs))

    def _compile(self, given: BoundInputs) -> None:
        run_options = build_run_options(self._options, self._training)
        self._reader.check_batch(given)
        prepared = self._reader.read(given)
        if self._training and not is_wrapped(self._user_model):
            wrap_model(self._user_model, self)
        _hooks.run_pre_compile_hooks()
        with translate_errors():
            compiled = session.compile_model(
                self._model,
                prepared.args,
                prepared.kwargs,
                options=run_options,
                optimizer=self._optimizer.describe() if self._optimizer else None,
                name=self._options.get("model_name") or ("training" if self._training else "inference"),
                profile_directory=choose_profile_directory(self._options, self._training),
                show_progress=self._options.show_compilation_progress_bar,
            )
            self._compiled, self._compiled_inputs = compiled, _forget_data(given)
            self._weights = DeviceWeights(self._model, compiled.executable)
            if self._optimizer:
                self._optimizer.connect(compiled.executable)
        for message in compiled.program.warnings:
            if not message.startswith(HOST_OUTPUT):  # capture itself warns of these, with Python's warnings
                logger.warning(message)
        _hooks.run_post_compile_hooks()
        if self._options.connection_type == ConnectionType.Always:
            self.attachToDevice()

    def destroy(self) -> None:
        """Free what was compiled; the weights go back to the host. A later call compiles anew."""
        if self._compiled is None:
            return
        if self._optimizer:
            self.copyWeightsToHostIfNeeded()
            self._optimizer.disconnect()
            unwrap_model(self._user_model)
        self._compiled = self._compiled_inputs = self._weights = None
        self._attached = False
        self._runs = 0

    def isCompiled(self) -> bool:
        return self._compiled is not None

    def isAttachedToDevice(self) -> bool:
        return self._attached

    def attachToDevice(self) -> None:
        """Take the device and write the host's weights to it."""
        assert self._options.connection_type != ConnectionType.Never, (
            "Trying to attach to an offline device (ConnectionType.Never)"
        )
        _, weights = self._require_compiled()
        if self._attached:
            raise createPoptorchError("Device is already attached")
        with translate_errors():
            weights.upload()
        self._attached = True

    def detachFromDevice(self) -> None:
        """Read the weights back and leave the device to other models."""
        self._require_compiled()
        if not self._attached:
            raise createPoptorchError("Device is not attached")
        self.copyWeightsToHostIfNeeded()
        self._attached = False
        logger.debug("Detached from device")

    def copyWeightsToHost(self) -> None:
        """Device to host, now."""
        _, weights = self._require_compiled()
        self._host_weights_stale = False  # before the copy: it touches the very tensors that ask for it
        with translate_errors():
            weights.download()
        self.host_weights_version += 1

    def copyWeightsToHostIfNeeded(self) -> bool:
        """Device to host if training changed the weights since the last copy; says whether it did."""
        if not self._host_weights_stale:
            return False
        self._host_weights_stale = False
        logger.debug("Implicit copyWeightsToHost()")
        self.copyWeightsToHost()
        return True

    def copyWeightsToDevice(self) -> None:
        """Host to device, now. What training did since the last copy to the host is lost."""
        _, weights = self._require_compiled()
        self._host_weights_stale = False
        logger.debug("Writing weights from host to IPU memory")
        with translate_errors():
            weights.upload()

    def copyNamedBuffersToDevice(self) -> None:
        """Host to device for the buffers of `Options.updatableNamedBuffers`."""
        _, weights = self._require_compiled()
        names = self._options.get("updatable_named_buffers")
        if not names:
            raise createPoptorchError("No named buffers marked as updatable via updatableNamedBuffers option")
        weights.upload_buffers(names)

    def load_state_dict(self, state_dict: dict[str, torch.Tensor], strict: bool = True) -> Any:
        """Load into the user's model, and onto the device if one is attached."""
        result = self._user_model.load_state_dict(state_dict, strict)
        if self._attached:
            self.copyWeightsToDevice()
        return result

    def setOptimizer(self, optimizer: torch.optim.Optimizer) -> None:
        """Use this optimizer, or the new values of the same one, from the next call on. Nothing is recompiled."""
        if self._optimizer is None:
            raise createPoptorchError("setOptimizer needs a model made by poptorch.trainingModel")
        with translate_errors():
            self._optimizer.replace(optimizer)

    def cycleCount(self) -> int:
        """Modelled cycles of one call."""
        if not self._options.log_cycle_count:
            raise createPoptorchError(
                "Cycle count logging is disabled. Please set option logCycleCount to True to enable."
            )
        if not self._runs:
            raise createPoptorchError("Please run the model at least once before obtaining cycle count.")
        compiled, _ = self._require_compiled()
        return round(compiled.plan.timing.call_cycles)

    def compilationTime(self) -> timedelta:
        """How long the compilation took."""
        if not self._options.show_compilation_progress_bar:
            raise createPoptorchError("Please set showCompilationProgressBar option to obtain compilation time.")
        if self._compiled is None:
            raise createPoptorchError("Please compile the model before obtaining compilation time.")
        return timedelta(seconds=self._compiled.capture_seconds)

    def _require_compiled(self) -> tuple[session.Compiled, DeviceWeights]:
        if self._compiled is None or self._weights is None:
            raise createPoptorchError(NOT_COMPILED)
        return self._compiled, self._weights


def _forget_data(inputs: BoundInputs) -> BoundInputs:
    """The inputs' structure, shapes and types, without keeping their data alive."""
    args, kwargs = pytree.tree_map(
        lambda leaf: torch.empty_like(leaf, device="meta") if isinstance(leaf, torch.Tensor) else leaf,
        (inputs.args, inputs.kwargs),
    )
    return BoundInputs(inputs.names, args, kwargs)
