"""Dynamic-to-static: `paddle.jit.to_static` on IPUs while a strategy's patches are registered.

In: calls of functions that `to_static` made. Out: their programs, compiled for IPUs once for each signature; in
training a call is forward, backward and update. Weights go back to Paddle's tensors when a `state_dict` is asked for,
and when the patches are released.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from openipu.errors import InputError, TranslationError
from openipu.graph import OptimizerKind
from openipu.translate.paddle import OptimizerDescription, ParameterGroup, Rate
from openipu_paddle.compiling import prepare
from openipu_paddle.reading import read_program
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

        self._parameters = {entry.name: entry for entry in _list_tensors(concrete.parameters)}
        self._optimizer = strategy._optimizer
        inputs = [entry for entry in concrete.inputs[1 if has_owner else 0 :] if hasattr(entry, "name")]
        self._structure = concrete.outputs
        self._outputs = [entry for entry in concrete.outputs if hasattr(entry, "name")]
        self._scope = paddle.static.Scope()
        for name, value in self._parameters.items():
            write_variable(self._scope, name, torch.from_numpy(np.array(value.numpy())))
        description = None
        program = read_program(concrete.main_program).program
        if strategy.is_training:
            if self._optimizer is None:
                raise InputError("Training needs an optimizer: call IpuStrategy.set_optimizer() before the model.")
            trained = [name for name, value in self._parameters.items() if not value.stop_gradient]
            description = describe_dynamic(self._optimizer, trained)
        feeds, fetches = [entry.name for entry in inputs], [entry.name for entry in self._outputs]
        loss = _find_loss(program.main.ops, fetches) if description is not None else None
        prepared = prepare(program, feeds, fetches, strategy, "to_static", description, loss)
        self._feeds = feeds
        self._program = IpuProgram(prepared, strategy, self._scope)
        strategy.need_compile = False

    def __call__(self, inputs: Any) -> Any:
        import paddle

        values = [entry for entry in inputs if isinstance(entry, paddle.Tensor)]
        given = values[: len(self._feeds)]
        if len(given) != len(self._feeds):
            raise InputError(f"The program takes {len(self._feeds)} tensors, and {len(given)} are given.")
        feed = {name: value.numpy() for name, value in zip(self._feeds, given, strict=True)}
        results = self._program.run(feed, [entry.name for entry in self._outputs])
        tensors = [paddle.to_tensor(array) for array in results]
        return tensors[0] if len(tensors) == 1 else tensors

    def synchronise(self) -> None:
        """Weights and state from the device into Paddle's tensors."""
        import paddle

        self._program.weights_to_host()
        with paddle.no_grad():
            for name, tensor in self._parameters.items():
                held = self._scope.find_var(name)
                if held is not None:
                    tensor.set_value(np.array(held.get_tensor()).astype(tensor.numpy().dtype))

    def train(self) -> None:
        """Paddle tells its own programs."""

    def eval(self) -> None:
        """Paddle tells its own programs."""


def _list_tensors(parameters: Any) -> list[Any]:
    if isinstance(parameters, list | tuple):
        return [inner for entry in parameters for inner in _list_tensors(entry)]
    return [parameters] if hasattr(parameters, "numpy") else []


def _find_loss(ops: Any, fetches: list[str]) -> str:
    marked = [op for op in ops if op.type == "identity_loss"]
    return str(marked[-1].outputs["Out"][0]) if marked else fetches[-1]


_SETTINGS: dict[str, tuple[str, Callable[[Any], Mapping[str, Any]]]] = {
    "SGD": ("sgd", lambda o: {}),
    "Momentum": ("sgd", lambda o: {"momentum": o._momentum, "nesterov": bool(o._use_nesterov)}),
    "Adam": ("adam", lambda o: {"betas": (o._beta1, o._beta2), "eps": o._epsilon}),
    "AdamW": (
        "adamw",
        lambda o: {"betas": (o._beta1, o._beta2), "eps": o._epsilon, "weight_decay": float(o._weight_decay)},
    ),
    "Adamax": ("adamax", lambda o: {"betas": (o._beta1, o._beta2), "eps": o._epsilon}),
    "Adagrad": ("adagrad", lambda o: {"eps": o._epsilon}),
    "Adadelta": ("adadelta", lambda o: {"alpha": o._rho, "eps": o._epsilon}),
    "RMSProp": (
        "rmsprop",
        lambda o: {
            "alpha": o._rho,
            "eps": o._epsilon,
            "momentum": o._momentum,
            "centered": bool(o._centered),
            "use_tf_variant": True,
        },
    ),
}


def describe_dynamic(optimizer: Any, parameters: list[str]) -> OptimizerDescription:
    """The structure of an optimizer of the dynamic mode."""
    kind = type(optimizer).__name__
    if kind not in _SETTINGS:
        raise TranslationError(f"The optimizer {kind} is not known in dynamic mode. Known: {', '.join(_SETTINGS)}.")
    name, read = _SETTINGS[kind]
    settings: dict[str, Any] = {
        key: value if isinstance(value, bool | tuple) else float(value) for key, value in read(optimizer).items()
    }
    regular = getattr(optimizer, "regularization", None)
    if regular is not None and "weight_decay" not in settings:
        settings["weight_decay"] = float(regular._coeff)
    clip = getattr(optimizer, "_grad_clip", None)
    if clip is not None and type(clip).__name__ != "ClipGradByGlobalNorm":
        raise TranslationError(f"{type(clip).__name__} is not on an IPU: clip gradients by their global norm.")
    group = ParameterGroup(tuple(parameters), Rate("", 1.0), settings)
    limit = None if clip is None else float(clip.clip_norm)
    return OptimizerDescription(OptimizerKind(name), (group,), limit, {}, settings.get("betas"))
