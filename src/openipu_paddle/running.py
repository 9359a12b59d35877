"""A compiled program as `Executor.run` sees it: feeds in, fetches out, weights on the device in between.

In: a `Prepared` program, its strategy and scope, then feeds. Out: arrays in the shapes that Paddle's IPU backend gives
them. Weights and optimizer state come from the scope before the first run, and go back with `weights_to_host`.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from openipu.capture import compute_hyper_parameters
from openipu.errors import InputError, OpenIpuError
from openipu.graph import OutputKind
from openipu.session import Compiled
from openipu.translate.paddle import OptimizerDescription, PaddleModule
from openipu_paddle.compiling import Prepared, compile_prepared, find_shapes, is_compiling_only, make_spec
from openipu_paddle.devices import release_ipus
from openipu_paddle.dumping import find_dump_path, write_onnx
from openipu_paddle.run_options import read_shape
from openipu_paddle.scopes import find_tensor, read_number, read_variable, to_numpy, to_torch, write_variable
from openipu_paddle.strategy import IpuStrategy

_NARROWED = {torch.int64: torch.int32, torch.float64: torch.float32}
_SHARED = frozenset(map(np.dtype, ("float32", "float64", "float16", "int64", "int32", "bool")))  # torch has the same


class IpuProgram:
    """One compiled program with its own device memory."""

    def __init__(self, prepared: Prepared, strategy: IpuStrategy, scope: Any) -> None:
        self.prepared = prepared
        self.strategy = strategy
        self.scope = scope
        self.compiled: Compiled | None = None
        self._module: PaddleModule | None = None
        self._loaded = False
        self._settled: tuple[Any, ...] | None = None  # the optimizer's settings that the device has
        self._shapes: dict[str, tuple[int, ...]] = {}  # of what is fetched, for one micro-batch
        self._evaluating: IpuProgram | None = None
        if not prepared.is_open:
            self.compile(find_shapes(prepared, strategy))

    def compile(self, shapes: Mapping[str, tuple[int, ...]]) -> Compiled:
        """Compile for the shapes of one micro-batch, and tell the strategy's logger how far it is."""
        report = _Progress(self.strategy)
        self.compiled, self._module = compile_prepared(self.prepared, shapes, self.strategy, self.scope, report.reach)
        self._loaded = False
        self._settled, self._shapes = None, {}
        dump = find_dump_path(self.strategy)
        if dump is not None:
            try:
                self.save(dump)
            except OpenIpuError as error:
                warnings.warn(f"The program is not written to {dump}: {error}", stacklevel=2)
        if is_compiling_only():
            self.compiled.executable.compile()  # what a first run would do, so that the cache has all of it
        return self.compiled

    def save(self, path: Path) -> None:
        """Write the program as ONNX, with the weights that the device has, or will have from the scope."""
        compiled = self._need_compiled()
        if not self._loaded:
            self.load_weights()
            self._loaded = False  # what is in the scope may change before the first run
            if self.prepared.optimizer is not None:
                self._follow_settings(self.prepared.optimizer)
        write_onnx(compiled, path)

    def run(self, feed: Mapping[str, Any], fetches: Sequence[str]) -> list[np.ndarray[Any, Any]]:
        """One call of `Executor.run`: all batches of a step."""
        inputs = self._read_feeds(feed)
        if self.compiled is None:
            count = read_shape(self.strategy._ipu_strategy).micro_batches
            fed = {
                name: (value.shape[0] // count, *value.shape[1:]) if value.dim() else ()
                for name, value in inputs.items()
            }
            self.compile(find_shapes(self.prepared, self.strategy, fed))
        if is_compiling_only():
            return []
        compiled = self._need_compiled()
        if not self._loaded:
            self.load_weights()
        if self.prepared.optimizer is not None:
            self._follow_settings(self.prepared.optimizer)
        leaves = [self._convert(name, inputs[name]) for name in self.prepared.feeds]
        kept = self._keep_training() if self._evaluates else None
        result = compiled.executable.run(leaves)
        if kept is not None:
            self._restore_training(kept)
        found = dict(zip(self.prepared.fetches, result.outputs, strict=True))
        return [self._shape_output(name, found[name]) for name in fetches]

    @property
    def _evaluates(self) -> bool:
        return self.prepared.optimizer is not None and bool(self.strategy.get_option("runtime_options.enable_eval"))

    def _need_compiled(self) -> Compiled:
        assert self.compiled is not None
        return self.compiled

    def _read_feeds(self, feed: Mapping[str, Any]) -> dict[str, torch.Tensor]:
        missing = [name for name in self.prepared.feeds if name not in feed]
        unknown = [name for name in feed if name not in self.prepared.feeds]
        if missing or unknown:
            problem = f"needs a feed {missing[0]!r}" if missing else f"has no feed {unknown[0]!r}"
            names = ", ".join(map(repr, self.prepared.feeds)) or "none"
            raise InputError(f"The program {problem}. It was compiled for these: {names}.")
        return {name: _read_feed(name, value) for name, value in feed.items()}

    def _convert(self, name: str, value: torch.Tensor) -> torch.Tensor:
        """A feed in the format that the program declares."""
        value = self._join_batches(name, value)
        wanted = self.prepared.feeds[name].dtype
        wanted = torch.float32 if wanted is torch.float64 else wanted
        if value.dtype is wanted:
            return value
        if value.dtype.is_floating_point and not wanted.is_floating_point:
            given, needed = (str(dtype).removeprefix("torch.") for dtype in (value.dtype, wanted))
            raise InputError(f"The feed {name!r} is {given}, and the program declares {needed}. Convert the data.")
        return value.to(wanted)

    def _join_batches(self, name: str, value: torch.Tensor) -> torch.Tensor:
        """A feed with batches in dimensions of their own, as they come back, in one."""
        declared = self.prepared.feeds[name].shape or ()
        more = value.dim() - len(declared)
        return value.reshape(-1, *value.shape[more + 1 :]) if more > 0 and declared else value

    def _shape_output(self, name: str, value: torch.Tensor) -> np.ndarray[Any, Any]:
        """Paddle's shapes: a dimension for replicas, accumulation and batches, each where there is one."""
        value = value.to(_NARROWED[value.dtype]) if value.dtype in _NARROWED else value
        return to_numpy(value.reshape(self._find_shape(name)))

    def _find_shape(self, name: str) -> tuple[int, ...]:
        """The shape in which an output is fetched."""
        leading = read_shape(self.strategy._ipu_strategy).leading
        if not self._shapes:
            outputs = self._need_compiled().program.micro.outputs
            found = {entry.index: tuple(entry.shape) for entry in outputs if entry.kind is OutputKind.OUTPUT}
            self._shapes = {fetched: found[index] for index, fetched in enumerate(self.prepared.fetches)}
        return (*leading, *(self._shapes[name] or ((1,) if not leading else ())))

    def _follow_settings(self, optimizer: OptimizerDescription) -> None:
        """Give the device the optimizer's settings, where one has changed since the last run."""
        store = self.strategy._ipu_strategy
        rates = tuple(self._read_rates(optimizer))
        names = ("loss_scaling", "max_weight_norm", "use_no_bias_optimizer")
        settings = (rates, self._evaluates, *(store[name] for name in names))
        executable = self._need_compiled().executable
        if settings != self._settled or executable.loss_scale is not None:
            executable.set_hyper_parameters(self._read_hyper_parameters(optimizer, rates))
            self._settled = settings

    def _read_rates(self, optimizer: OptimizerDescription) -> list[float]:
        """The learning rate of each group."""
        store = self.strategy._ipu_strategy
        if store["is_dynamic"]:
            return [store["lr"]] * len(optimizer.groups)
        return [read_number(self.scope, group.rate.variable) for group in optimizer.groups]

    def _read_hyper_parameters(self, optimizer: OptimizerDescription, rates: Sequence[float]) -> dict[str, float]:
        store = self.strategy._ipu_strategy
        settings = []
        for group, rate in zip(optimizer.groups, rates, strict=True):
            more = {"max_weight_norm": store["max_weight_norm"]} if "max_weight_norm" in group.settings else {}
            settings.append({**group.settings, **more, "lr": 0.0 if self._evaluates else rate * group.rate.factor})
        spec = make_spec(optimizer, self.strategy)
        if store["use_no_bias_optimizer"]:
            settings = [{**entry, "bias_correction": False} for entry in settings]
        return compute_hyper_parameters(spec, settings, store["loss_scaling"])

    def load_weights(self) -> None:
        """Copy weights, statistics and optimizer state from the scope to the device."""
        compiled, module = self._need_compiled(), self._module
        assert module is not None
        parameters = {name: read_variable(self.scope, name) for name in module._parameters}
        buffers = {name: read_variable(self.scope, name) for name in module._buffers}
        compiled.executable.load_weights(parameters, buffers)
        state = self._read_state()
        if state:
            compiled.executable.load_state(state)
        self._loaded = True

    def forget_weights(self) -> None:
        """What the scope holds is copied to the device again, before the next run."""
        self._loaded = False

    def _read_state(self) -> dict[str, torch.Tensor]:
        optimizer = self.prepared.optimizer
        if optimizer is None:
            return {}
        kept = {slot.key: slot for slot in self._need_compiled().program.state_slots}
        found = {}
        for key, variable in optimizer.states.items():
            if key not in kept or find_tensor(self.scope, variable) is None:
                continue
            value = read_variable(self.scope, variable)
            if key.startswith("step:") and optimizer.betas is not None:
                value = torch.tensor(float(_count_steps(float(value.reshape(-1)[0]), optimizer.betas[0])))
            found[key] = value.reshape(kept[key].shape).to(kept[key].dtype)
        return found

    def weights_to_host(self) -> None:
        """Copy weights, statistics and optimizer state from the device to the scope."""
        if self.compiled is None or not self._loaded or self._module is None:
            return
        parameters, buffers = self._read_device()
        for name, value in (*parameters.items(), *buffers.items()):
            write_variable(self.scope, name, value)
        optimizer = self.prepared.optimizer
        if optimizer is None:
            return
        state = self.compiled.executable.state
        for key, variable in optimizer.states.items():
            if key not in state:
                continue
            value = state[key]
            if key.startswith("step:") and optimizer.betas is not None:
                self._write_powers(key, float(value), optimizer)
            else:
                write_variable(self.scope, variable, value)

    def _write_powers(self, key: str, steps: float, optimizer: OptimizerDescription) -> None:
        """Paddle keeps powers of beta where torch counts steps."""
        assert optimizer.betas is not None
        variable = optimizer.states[key]
        write_variable(self.scope, variable, torch.tensor([optimizer.betas[0] ** (steps + 1)]))
        second = optimizer.powers.get(key.removeprefix("step:"))
        if second is not None:
            write_variable(self.scope, second, torch.tensor([optimizer.betas[1] ** (steps + 1)]))

    def _read_device(self) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
        """Copies of parameters and buffers as the device has them."""
        compiled, module = self._need_compiled(), self._module
        assert module is not None
        parameters = {name: _make_room(value) for name, value in module._parameters.items() if value is not None}
        buffers = {name: _make_room(value) for name, value in module._buffers.items() if value is not None}
        compiled.executable.read_weights(parameters, buffers)
        return parameters, buffers

    def _keep_training(self) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
        """What an evaluation must not change: weights and state. An update without a rate still moves the state."""
        return self._read_device()[0], self._need_compiled().executable.state

    def _restore_training(self, kept: tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]) -> None:
        compiled = self._need_compiled()
        compiled.executable.load_weights(kept[0], self._read_device()[1])
        if kept[1]:
            compiled.executable.load_state(kept[1])

    def detach(self) -> None:
        """Give the IPUs back; the program keeps its memory."""
        release_ipus()


class _Progress:
    """Calls the strategy's logger for every step that a compilation has passed."""

    def __init__(self, strategy: IpuStrategy) -> None:
        self._logger = strategy.progress_logger
        self._total = int(strategy.get_option("compilation_progress_total"))
        self._next = 0

    def reach(self, percent: int) -> None:
        if self._logger is None:
            return
        while self._next <= percent * self._total // 100:
            self._logger(self._next, self._total)
            self._next += 1


def _make_room(value: torch.Tensor) -> torch.Tensor:
    return torch.empty(value.shape, dtype=value.dtype)


def _count_steps(power: float, beta: float) -> int:
    """The updates behind a power of beta, which begins with beta itself."""
    if not 0 < power < 1 or not 0 < beta < 1:
        return 0
    return max(0, round(math.log(power) / math.log(beta)) - 1)


def _read_feed(name: str, value: Any) -> torch.Tensor:
    try:
        array = np.asarray(value)
        if array.flags.c_contiguous and array.flags.writeable and array.dtype in _SHARED:
            return torch.from_numpy(array)  # read before the call returns, and never written
        return to_torch(array)
    except (TypeError, ValueError) as error:
        raise InputError(f"The feed {name!r} is no tensor: {error}") from error
