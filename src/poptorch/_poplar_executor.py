"""`PoplarExecutor`: a model with options, compiled at its first call and run from then on.

In: what `trainingModel` and `inferenceModel` are given, then inputs. Out: results in the structure that `forward`
returns. The work is done below: `openipu.session` captures, plans and runs.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import torch

from openipu import session
from openipu.capture import hold_models
from openipu.explore import make_advisor
from openipu.graph import Program, RunOptions
from openipu.pod import Lease
from openipu.run import MicroBatchTimes, RunResult, reclaim_memory
from openipu.trace import COMPILE, RUN, TRANSFER, WAIT, is_tracing, mark_past, span
from poptorch import _hooks
from poptorch._args_parser import prepare_types
from poptorch._calls.binding import BoundInputs, bind_inputs, forget_data, match_inputs, read_signature
from poptorch._calls.inputs import InputReader, make_synthetic, makes_data, return_changed_inputs
from poptorch._calls.outputs import build_outputs
from poptorch._calls.usual import UsualCall, find_usual
from poptorch._devices import announce_device, attach, count_ipus, release
from poptorch._files.executable_cache import choose_cache_directory, share_compilation
from poptorch._files.saving import Saving
from poptorch._insight.graph_text import export_program, log_program
from poptorch._insight.inspection import Inspection
from poptorch._locking import one_at_a_time, with_device
from poptorch._logging import logger
from poptorch._modelled_system import choose_modelled_system
from poptorch._optimizer.device import DeviceOptimizer
from poptorch._optimizer.loss_scaling import FINAL_NAME, collect_scales, read_control
from poptorch._placement.blocks import resolve_blocks
from poptorch._placement.checks import check_program, count_ipus_per_replica, place_program
from poptorch._placement.replica_grouping import ReplicaGroupings, show_one_group
from poptorch._weights.device import DeviceWeights
from poptorch._weights.transfers import Transfers
from poptorch._weights.wrapping import is_wrapped, unwrap_model, wrap_model
from poptorch.annotations import module_repr
from poptorch.enums import CommGroupType, ConnectionType, VariableRetrievalMode
from poptorch.errors import createPoptorchError, translate_errors
from poptorch.options import (
    Options,
    build_run_options,
    check_options,
    choose_profile_directory,
    number_execution_mode,
)

NOT_COMPILED = "Model has not been compiled or has been destroyed."
OFFLINE = (
    "Trying to run a model on an offline device (ConnectionType.Never): model.compile(inputs) is all that it can do."
)

HOST_OUTPUT = "Output "


class PoplarExecutor(Transfers, Saving, Inspection):
    """Made by `trainingModel` and `inferenceModel`. Attributes that it does not have are those of the user's model.

    Several threads may use one: the first call compiles, later ones wait, and each finds the device as the last left
    it.
    """

    def __init__(
        self,
        model: Any,
        user_model: Any,
        options: Options,
        training: bool,
        optimizer: torch.optim.Optimizer | None = None,
    ) -> None:
        Transfers.__init__(self)
        self._model = model  # what is captured: a shallow copy with the class that the user gave it
        self._user_model = user_model
        self._options = options
        self._training = training
        self._optimizer = (
            DeviceOptimizer(model, optimizer, options, lambda: self.copyWeightsToHostIfNeeded(), self._device_lock)
            if optimizer is not None
            else None
        )
        self._signature = read_signature(model)
        self._reader = InputReader(options, training)
        self._compiled: session.Compiled | None = None
        self._compiled_inputs: BoundInputs | None = None
        self._weights: DeviceWeights | None = None
        self._ipus = 1
        self._lease: Lease | None = None
        self._detached_rng_state: list[int] | None = None  # of a program with random numbers of its own
        self._attached = False
        self._name: str = options.get("model_name") or ("training" if training else "inference")
        # Options are frozen, and reading one takes as long as a small operator.
        self._offline = options.connection_type == ConnectionType.Never
        self._logs_cycles: bool = options.log_cycle_count
        self._makes_data = makes_data(options)
        self._anchored: Mapping[str, Any] = options.anchored_tensors
        self._usual: UsualCall | None = None  # from the first compilation on
        self._taps: Mapping[str, torch.Tensor] | None = None  # of the last call
        self._times: tuple[MicroBatchTimes, ...] = ()
        self._groupings = ReplicaGroupings(model, options.replication_factor)
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
        value = getattr(self._user_model, name)
        if isinstance(value, torch.nn.Parameter):
            return self._groupings.offer(value)
        return value

    def __repr__(self) -> str:
        return (
            module_repr(self._user_model) if isinstance(self._user_model, torch.nn.Module) else repr(self._user_model)
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the model on the inputs of one call; the first call compiles it."""
        with self._lock:
            assert not self._offline, OFFLINE
            self._refuse_reentry()
            # A trace shows the parts of the long way.
            leaves = None if self._usual is None or is_tracing() else self._usual.read(args, kwargs)
            given = self._bind(args, kwargs) if leaves is None else None
            if self._compiled is None and given is not None:
                self._compile(given)
            with span(RUN, self._name), self._device_lock:
                self._busy = "run"
                try:
                    own, read = self._read(given) if leaves is None else (leaves, leaves)
                    return self._run(own, read)
                finally:
                    self._busy = ""

    def _read(self, given: BoundInputs | None) -> tuple[list[Any], list[Any]]:
        """The caller's own leaves, in the order of the compiled ones, and what the device takes of them."""
        assert self._compiled_inputs is not None
        assert given is not None
        given = match_inputs(self._compiled_inputs, given)
        with span(TRANSFER, "inputs to the device"):
            return given.list_leaves(), self._reader.read(given).list_leaves()

    def _run(self, own: list[Any], leaves: list[Any]) -> Any:
        compiled, weights = self._require_compiled()
        if not self._attached:
            self.attachToDevice()
        with translate_errors():
            if self._optimizer is not None:
                self._optimizer.prepare_run()
            else:
                weights.upload_if_trained_elsewhere()
            synthetic = make_synthetic(leaves, self._options) if self._makes_data else None
            result = compiled.executable.run(leaves if synthetic is None else synthetic)
        if is_tracing():
            _trace_micro_batches(result)
        self._host_weights_stale = self._training
        self._taps, self._times = self._collect_taps(result), result.times if synthetic is None else ()
        if self._logs_cycles:
            logger.debug("Total number of IPU cycles: %d (modelled)", self.cycleCount())
        if result.changed_inputs and synthetic is None:
            return_changed_inputs(own, result.changed_inputs, self._options)
        return build_outputs(result.outputs, compiled.program.output_tree)

    def _collect_taps(self, result: RunResult) -> dict[str, torch.Tensor]:
        """Anchored tensors of one call, with the loss scale if it was automatic and is among them."""
        wanted = self._anchored
        if not wanted:
            return {}
        taps = {name: value for name, value in result.taps.items() if name in wanted}
        if self._compiled is not None and self._compiled.executable.loss_scale is not None:
            executable = self._compiled.executable
            taps |= {
                name: collect_scales(executable, mode)
                for name, (tensor, mode, _) in wanted.items()
                if tensor == FINAL_NAME
            }
        return taps

    @one_at_a_time
    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compile for inputs like these, without running."""
        if self._compiled is not None:
            logger.warning("compile() does nothing here: the model has been compiled before")
            return
        self._compile(self._bind(args, kwargs))

    def _bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> BoundInputs:
        for value in (*args, *kwargs.values()):
            prepare_types(value)
        return bind_inputs(self._signature, args, kwargs)

    def _compile(self, given: BoundInputs) -> None:
        name = f"poptorch.{'training' if self._training else 'inference'}Model.modelCompilation"
        with span(COMPILE, name), self._occupy("compiled"):
            self._compile_now(given)

    def _compile_now(self, given: BoundInputs) -> None:
        check_options({**self._options.toDict(), "execution_mode": number_execution_mode(self._options)})
        run_options = replace(
            build_run_options(self._options, self._training),
            replica_groups=self._groupings.list_all(),
            loss_scale_control=read_control(self._options) if self._training else None,
        )
        self._reader.check_batch(given)
        prepared = self._reader.read(given)
        if self._training and not is_wrapped(self._user_model):
            wrap_model(self._user_model, self)
        _hooks.run_pre_compile_hooks()
        try:
            with translate_errors(), share_compilation(self._options, self._model):
                compiled = self._capture(prepared, run_options)
                self._weights = DeviceWeights(self._model, compiled.executable)
                self._weights.check_updatable(self._options.get("updatable_named_buffers", ()))
                self._weights.warn_of_parting_statistics()
                if self._optimizer:
                    self._optimizer.connect(compiled.executable)
        except BaseException:
            self._release()
            raise
        self._compiled, self._compiled_inputs = compiled, forget_data(given)
        self._usual = find_usual(self._compiled_inputs, self._signature, self._options.input_group_size)
        log_program(compiled.program)
        export_program(compiled.program)
        logger.debug("Finished Poplar compilation: %s", compiled.name)
        for message in compiled.program.warnings:
            if not message.startswith(HOST_OUTPUT):  # capture itself warns of these, with Python's warnings
                logger.warning(message)
        _hooks.run_post_compile_hooks()
        if self._options.connection_type == ConnectionType.Always:
            self.attachToDevice()

    def _capture(self, prepared: BoundInputs, run_options: RunOptions) -> session.Compiled:
        optimizer = self._optimizer.describe() if self._optimizer else None

        def place(program: Program, chosen: RunOptions) -> tuple[Program, RunOptions]:
            shown.close()  # the model was captured
            return place_program(program, chosen, self._options, resolver)

        def check(program: Program, chosen: RunOptions) -> None:
            check_program(program, chosen, self._options, resolver)

        strategy = self._options._execution_strategy
        with ExitStack() as shown, resolve_blocks(strategy) as resolver:
            if groups := self._groupings.list_all():
                shown.enter_context(hold_models())
                shown.enter_context(show_one_group(self._model, groups))
            return session.compile_model(
                self._model,
                prepared.args,
                prepared.kwargs,
                options=run_options,
                optimizer=optimizer,
                system=choose_modelled_system(self._options),
                name=self._name,
                profile_directory=choose_profile_directory(self._options, self._training),
                show_progress=self._options.show_compilation_progress_bar,
                front_end=session.FrontEnd(
                    place=place,
                    check=check,
                    reserve=self._reserve,
                    advise=make_advisor("poptorch"),
                ),
                cache_directory=choose_cache_directory(self._options),
                program=self._restored_program,
            )

    def _reserve(self, program: Program) -> None:
        """Find IPUs for a program before it is compiled; only ConnectionType.Always takes them at once."""
        if self._options.connection_type == ConnectionType.Never:
            return
        self._ipus = count_ipus(self._options, count_ipus_per_replica(program))
        if self._options.connection_type == ConnectionType.Always:
            self._take_lease(announce=True)
        else:
            announce_device(self._options, self._ipus, self._lease)

    def _take_lease(self, *, announce: bool = False) -> None:
        with span(WAIT, "attach to IPUs"):
            self._lease = attach(self._options, self._ipus, announce=announce)
        self._give_back = weakref.finalize(self, release, self._lease)  # also when the executor is forgotten

    def _release(self) -> None:
        if self._lease is not None:
            self._give_back()
            self._lease = None
        self._attached = False

    @one_at_a_time
    def destroy(self) -> None:
        """Free what was compiled; the weights go back to the host. A later call compiles anew."""
        if self._compiled is None:
            return
        self._refuse_reentry()
        with hold_models(), self._device_lock:
            if self._optimizer:
                self.copyWeightsToHostIfNeeded()
                self._optimizer.disconnect()
                unwrap_model(self._user_model)
            self._compiled = self._compiled_inputs = self._weights = self._usual = None
            self._taps, self._times, self._detached_rng_state = None, (), None
            self._release()
            reclaim_memory()

    @one_at_a_time
    def group_replicas(
        self, parameter: torch.Tensor, kind: CommGroupType, size: int, mode: VariableRetrievalMode
    ) -> None:
        """What `replicaGrouping` of a trained parameter does."""
        self._groupings.add(parameter, kind, size, mode)

    def isCompiled(self) -> bool:
        return self._compiled is not None

    def isAttachedToDevice(self) -> bool:
        return self._attached

    @with_device
    def attachToDevice(self) -> None:
        """Take the device and write the host's weights to it."""
        assert self._options.connection_type != ConnectionType.Never, (
            "There is nothing to attach to: an offline device (ConnectionType.Never) only compiles"
        )
        _, weights = self._require_compiled()
        if self._attached:
            raise createPoptorchError("Device is already attached")
        if self._lease is None:
            self._take_lease()
        with translate_errors():
            weights.upload()
            if self._optimizer:
                self._optimizer.attach()
        if self._detached_rng_state is not None:
            self.rng_state = self._detached_rng_state
        elif self._options.exists("random_seed"):  # the program starts with it
            logger.debug("Setting random seed to %d", self._options.random_seed)
        self._attached = True

    @with_device
    def detachFromDevice(self) -> None:
        """Read the weights back and leave the device to other models."""
        self._require_compiled()
        self._refuse_reentry()
        if not self._attached:
            raise createPoptorchError("Device is not attached")
        self.copyWeightsToHostIfNeeded()
        if self._optimizer:
            self._optimizer.detach()
        self._detached_rng_state = self.rng_state if self._options.exists("random_seed") else None
        self._release()
        logger.debug("Detached from device")

    @with_device
    def setOptimizer(self, optimizer: torch.optim.Optimizer) -> None:
        """Use this optimizer, or the new values of the same one, from the next call on. Nothing is recompiled."""
        if self._optimizer is None:
            raise createPoptorchError("setOptimizer needs a model made by poptorch.trainingModel")
        with translate_errors():
            self._optimizer.replace(optimizer)

    @with_device
    def __openipu_compiled__(self) -> session.Compiled:
        """What `openipu.export_program` writes: the program, with weights as the device has them."""
        compiled, _ = self._require_compiled()
        if not self._attached:
            self.attachToDevice()
        return compiled

    def _require_compiled(self) -> tuple[session.Compiled, DeviceWeights]:
        if self._compiled is None or self._weights is None:
            raise createPoptorchError(NOT_COMPILED)
        return self._compiled, self._weights


def _trace_micro_batches(result: RunResult) -> None:
    """Mark what the executable noted of its micro-batches. Those that ran as one have the same times."""
    for entry in {entry.inputs_asked: entry for entry in result.times}.values():
        mark_past(RUN, "micro-batch", entry.inputs_ready, entry.outputs_ready)
