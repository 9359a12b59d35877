"""Saving and loading of what an executor compiled, and the random state that goes with it.

In: an executor. Out: a file as `_export` describes it, and back. Mixed into `PoplarExecutor`.
"""

from __future__ import annotations

import inspect
from typing import Any

from openipu.capture import hold_models
from openipu.errors import ArchiveError
from openipu.graph import Program, fingerprint_program
from openipu.session import Compiled
from poptorch._calls.binding import BoundInputs, bind_inputs
from poptorch._calls.model_signature import sign_model
from poptorch._files.export import SavedProgram, choose_path, pickle_objects, read_program, write_graphs, write_program
from poptorch._locking import Locked
from poptorch._logging import logger
from poptorch._optimizer.device import DeviceOptimizer
from poptorch._weights.device import DeviceWeights
from poptorch.enums import ConnectionType
from poptorch.errors import Error, createPoptorchError, translate_errors
from poptorch.options import Options


class Saving(Locked):
    """Files, for an executor that has the members below."""

    _compiled_inputs: BoundInputs | None
    _model: Any
    _optimizer: DeviceOptimizer | None
    _options: Options
    _signature: inspect.Signature
    _training: bool
    _user_model: Any
    _restored_program: Program | None = None  # what is compiled instead of capturing the model

    def _require_compiled(self) -> tuple[Compiled, DeviceWeights]:
        raise NotImplementedError

    def _compile(self, given: BoundInputs) -> None:
        raise NotImplementedError

    def compile(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError

    def copyWeightsToHostIfNeeded(self) -> bool:
        raise NotImplementedError

    def destroy(self) -> None:
        raise NotImplementedError

    def __reduce__(self) -> tuple[object, ...]:
        """For `torch.save(executor)`: the model with its weights of now, wrapped again where it is loaded."""
        with self._lock:
            self.copyWeightsToHostIfNeeded()
            optimizer = self._optimizer.optimizer if self._optimizer else None
            return type(self), (self._model, self._user_model, self._options, self._training, optimizer)

    @property
    def rng_state(self) -> list[int]:
        """The seed, and where the program's random numbers stand."""
        with self._lock, self._device_lock:
            compiled, _ = self._require_compiled()
            logger.debug("Reading random seed")
            logger.debug("Reading RNG state")
            return list(compiled.executable.rng_state)

    @rng_state.setter
    def rng_state(self, state: list[int]) -> None:
        with self._lock, self._device_lock, translate_errors():
            compiled, _ = self._require_compiled()
            logger.debug("Setting random seed to %d", state[0])
            logger.debug("Setting RNG state")
            compiled.executable.rng_state = state

    def compileAndExport(self, filename: str, *args: Any, export_model: bool = True, **kwargs: Any) -> None:
        """Compile for inputs like these, and save."""
        with self._lock:
            self.compile(*args, **kwargs)
            self.save(filename, export_model)

    def save(self, filename: str, export_model: bool = True, save_rng_state: bool = True) -> None:
        """Write what was compiled to a file; with `export_model`, also the user's model, as a pickle."""
        with self._lock, hold_models(), self._device_lock:
            self._save_now(filename, export_model, save_rng_state)

    def _save_now(self, filename: str, export_model: bool, save_rng_state: bool) -> None:
        compiled, _ = self._require_compiled()
        assert self._compiled_inputs is not None
        offline = self._options.connection_type == ConnectionType.Never  # then nothing has run: there is no state yet
        self.copyWeightsToHostIfNeeded()
        if self._optimizer and not offline:
            self._optimizer.detach()  # the optimizer's own copy of its state is the one that is pickled
        program = SavedProgram(
            training=self._training,
            fingerprint=fingerprint_program(compiled.program),
            inputs=self._compiled_inputs,
            rng_state=self.rng_state if save_rng_state and not offline else None,
            optimizer_state={} if offline else compiled.executable.state,
            model=self._pickle_model() if export_model else None,
            signature=sign_model(self._model),
            optimizer=self._describe_optimizer(),
            graphs=write_graphs(compiled.program),
        )
        write_program(choose_path(filename), program)

    def _describe_optimizer(self) -> str | None:
        return repr(self._optimizer.describe()) if self._optimizer else None

    def _pickle_model(self) -> bytes:
        optimizer = self._optimizer.optimizer if self._optimizer else None
        return pickle_objects(model=self._model, options=self._options, optimizer=optimizer)

    def loadExecutable(self, filename: str) -> None:
        """Compile what a file describes; the model must be the one that the file was written for."""
        try:
            with self._lock:
                self._refuse_reentry()
                self._restore(filename, read_program(filename))
        except ArchiveError as error:
            raise createPoptorchError(f"Invalid file {filename}: {error}") from error

    def _restore(self, filename: str, saved: SavedProgram) -> None:
        if saved.training != self._training:
            kinds = {True: "training", False: "inference"}
            raise ArchiveError(f"it was written for {kinds[saved.training]}, not for {kinds[self._training]}.")
        try:
            given = bind_inputs(self._signature, saved.inputs.args, saved.inputs.kwargs)
        except (AssertionError, Error) as error:
            raise ArchiveError(f"it was compiled from another model ({error}).") from error
        # A model that differs, or might, is captured: then the fingerprints tell.
        with hold_models():
            known = saved.signature is not None and saved.signature == sign_model(self._model)
        if known and saved.optimizer == self._describe_optimizer():
            self._restored_program = saved.read_graphs()
        try:
            self._compile(given)
        except Error:
            raise
        except Exception as error:
            if self._restored_program is None:
                raise
            raise ArchiveError(
                f"its program cannot be compiled ({type(error).__name__}: {error}): export the model again."
            ) from error
        finally:
            self._restored_program = None
        compiled, _ = self._require_compiled()
        if fingerprint_program(compiled.program) != saved.fingerprint:
            self.destroy()
            raise ArchiveError("it was compiled from another model, or from other options: export the model again.")
        if saved.optimizer_state:
            with self._device_lock, translate_errors():
                compiled.executable.load_state(saved.optimizer_state)
        if saved.rng_state is not None:
            self.rng_state = saved.rng_state
