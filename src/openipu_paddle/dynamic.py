"""Dynamic-to-static: `paddle.jit.to_static` on IPUs while a strategy's patches are registered.

In: calls of functions that `to_static` made. Out: their programs, compiled for IPUs once for each signature; in
training a call is forward, backward and update. Weights and the optimizer's state go back to Paddle's tensors when a
`state_dict` is asked for and when the patches are released, and come from them again after `set_state_dict`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from openipu.errors import InputError
from openipu_paddle.compiling import prepare
from openipu_paddle.dynamic_optimizers import describe_dynamic
from openipu_paddle.reading import find_name, read_program
from openipu_paddle.running import IpuProgram
from openipu_paddle.scopes import write_variable
from openipu_paddle.strategy import IpuStrategy

_patched: list[tuple[Any, str, Any]] = []
_live: list[DynamicProgram] = []


def register_patch(strategy: IpuStrategy) -> None:
    """From here on programs of `to_static` run on IPUs."""
    from paddle.jit.dy2static import program_translator

    import paddle

    release_patch()
    cache = program_translator.ProgramCache
    _replace(cache, "__getitem__", _extend_lookup(cache.__getitem__, strategy))
    for owner in (paddle.nn.Layer, paddle.optimizer.Optimizer):
        _replace(owner, "state_dict", _extend_state(owner.state_dict))
        _replace(owner, "set_state_dict", _extend_loading(owner.set_state_dict))
    step = paddle.optimizer.lr.LRScheduler.step
    _replace(paddle.optimizer.lr.LRScheduler, "step", _extend_step(step, strategy))


def release_patch() -> None:
    """Everything as it was; weights that a device holds are copied back."""
    for program in _live:
        program.synchronise()
    _live.clear()
    while _patched:
        owner, name, original = _patched.pop()
        setattr(owner, name, original)


def _replace(owner: Any, name: str, value: Any) -> None:
    _patched.append((owner, name, getattr(owner, name)))
    setattr(owner, name, value)


def _extend_state(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def state_dict(*args: Any, **kwargs: Any) -> Any:
        for program in _live:
            program.synchronise()
        return original(*args, **kwargs)

    return state_dict


def _extend_loading(original: Callable[..., Any]) -> Callable[..., Any]:
    """What is loaded goes to the devices, too; what else they hold is not lost by it."""

    @functools.wraps(original)
    def set_state_dict(*args: Any, **kwargs: Any) -> Any:
        for program in _live:
            program.synchronise()
        result = original(*args, **kwargs)
        for program in _live:
            program.reload()
        return result

    return set_state_dict


def _extend_step(original: Callable[..., Any], strategy: IpuStrategy) -> Callable[..., Any]:
    @functools.wraps(original)
    def step(scheduler: Any, epoch: Any = None) -> None:
        original(scheduler, epoch)
        strategy.set_options({"lr": float(scheduler.last_lr)})

    return step


def _extend_lookup(original: Callable[..., Any], strategy: IpuStrategy) -> Callable[..., Any]:
    compiled: dict[Any, DynamicProgram] = {}

    def lookup(cache: Any, item: Any) -> Any:
        concrete, _ = original(cache, item)
        key = (id(cache), hash(item))
        if key not in compiled or strategy.need_compile:
            has_owner = getattr(item, "class_instance", None) is not None
            compiled[key] = DynamicProgram(concrete, strategy, has_owner=has_owner)
            _live.append(compiled[key])
        return concrete, compiled[key]

    return lookup


class DynamicProgram:
    """One program of `to_static` on IPUs, called with the tensors of its inputs."""

    def __init__(self, concrete: Any, strategy: IpuStrategy, *, has_owner: bool) -> None:
        import paddle

        read = read_program(concrete.main_program)
        self._parameters = _name_parameters(concrete.parameters, read.names)
        given = concrete.inputs[1 if has_owner else 0 :]
        self._feeds = [name for name in (_find_tensor_name(entry, read.names) for entry in given) if name is not None]
        made = (_find_tensor_name(entry, read.names) for entry in concrete.outputs)
        self._fetches = [name for name in made if name is not None]
        self._states: dict[str, Any] = {}
        description = loss = None
        if strategy.is_training:
            if strategy._optimizer is None:
                raise InputError("Training needs an optimizer: call IpuStrategy.set_optimizer() before the model.")
            trained = {name: value for name, value in self._parameters.items() if not value.stop_gradient}
            description, self._states = describe_dynamic(strategy._optimizer, trained)
            loss = _find_loss(read.program.main.ops, self._fetches)
        self._scope = paddle.static.Scope()
        for name, value in (*self._parameters.items(), *self._states.items()):
            write_variable(self._scope, name, torch.from_numpy(np.array(value.numpy())))
        prepared = prepare(read.program, self._feeds, self._fetches, strategy, "to_static", description, loss)
        self._program = IpuProgram(prepared, strategy, self._scope)
        strategy.need_compile = False

    def __call__(self, inputs: Any) -> Any:
        import paddle

        values = [entry for entry in inputs if isinstance(entry, paddle.Tensor)]
        given = values[: len(self._feeds)]
        if len(given) != len(self._feeds):
            raise InputError(f"The program takes {len(self._feeds)} tensors, and {len(given)} are given.")
        feed = {name: value.numpy() for name, value in zip(self._feeds, given, strict=True)}
        results = self._program.run(feed, self._fetches)
        tensors = [paddle.to_tensor(array) for array in results]
        return tensors[0] if len(tensors) == 1 else tensors

    def synchronise(self) -> None:
        """Weights and state from the device into Paddle's tensors."""
        import paddle

        self._program.weights_to_host()
        with paddle.no_grad():
            for name, tensor in (*self._parameters.items(), *self._states.items()):
                held = self._scope.find_var(name)
                if held is not None:
                    value = np.array(held.get_tensor()).astype(tensor.numpy().dtype)
                    tensor.set_value(value.reshape(tensor.shape))

    def reload(self) -> None:
        """Weights and state from Paddle's tensors, before the next run."""
        for name, value in (*self._parameters.items(), *self._states.items()):
            write_variable(self._scope, name, torch.from_numpy(np.array(value.numpy())))
        self._program.forget_weights()

    def train(self) -> None:
        """Paddle tells its own programs."""

    def eval(self) -> None:
        """Paddle tells its own programs."""


def _name_parameters(parameters: Any, names: Mapping[str, str]) -> dict[str, Any]:
    """The tensors of a program's variables by name. In the new form they come beside the values that stand for them."""
    tensors, values = (parameters, parameters) if not _is_pair(parameters) else parameters
    return {find_name(value, names): tensor for tensor, value in zip(tensors, values, strict=True)}


def _is_pair(parameters: Any) -> bool:
    return len(parameters) == 2 and all(isinstance(entry, list | tuple) for entry in parameters)


def _find_tensor_name(entry: Any, names: Mapping[str, str]) -> str | None:
    """The name of a variable of the program; None for other arguments of the function."""
    try:
        return find_name(entry, names)
    except InputError:
        return None


def _find_loss(ops: Any, fetches: list[str]) -> str:
    marked = [op for op in ops if op.type == "identity_loss"]
    return str(marked[-1].outputs["Out"][0]) if marked else fetches[-1]
