"""Blocks: which part of a model belongs together, for pipelines, phases and profiles.

In: names and IPU numbers around modules, functions or lines of `forward`. Out: the same results, and ops that carry
their block, IPU and stage, as the options' execution strategy has them. On the CPU blocks do nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

from torch import nn

from openipu.capture import is_capturing, set_block
from poptorch._placement.blocks import find_resolver
from poptorch.errors import createPoptorchError

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def _enter_block(user_id: str | None, ipu_id: int | None, owner: object = None) -> None:
    """Ops from here on belong to this block. Outside a capture nothing happens."""
    if not is_capturing():
        return
    resolver = find_resolver()
    if resolver is None:  # a model that is planned by itself, without options
        set_block(user_id, ipu_id or 0, ipu_id or 0)
        return
    place = resolver.enter(resolver.choose_name(owner) if user_id is None else user_id, ipu_id)
    set_block(place.name, place.ipu, place.stage)


def _leave_block() -> None:
    """Ops from here on belong to no block, until one is begun."""
    resolver = find_resolver() if is_capturing() else None
    if resolver is not None:
        place = resolver.leave()
        set_block(place.name, place.ipu, place.stage)


class Block(nn.Module):
    """A part of `forward`: a context manager, or `Block.start` for everything that follows."""

    def __init__(self, user_id: str | None = None, ipu_id: int | None = None) -> None:
        super().__init__()
        self._user_id = user_id
        self._ipu_id = ipu_id

    def __enter__(self) -> Block:
        _enter_block(self._user_id, self._ipu_id)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            _leave_block()

    @staticmethod
    def start(user_id: str | None = None, ipu_id: int | None = None) -> None:
        """Everything from here on belongs to this block."""
        _enter_block(user_id, ipu_id)

    @staticmethod
    def useAutoId() -> None:
        """Number blocks without a name from 0. To be called first in `forward`."""
        resolver = find_resolver()
        if resolver is not None:
            resolver.restart_names()


class _BlockHook:
    """Starts a block when its module is called. Picklable, so that annotated models can be saved."""

    def __init__(self, user_id: str | None, ipu_id: int | None) -> None:
        self._user_id = user_id
        self._ipu_id = ipu_id

    def __call__(self, module: nn.Module, args: Any) -> None:
        _enter_block(self._user_id, self._ipu_id, self)

    def __repr__(self) -> str:
        return f"BeginBlock(user_id={self._user_id}, ipu_id={self._ipu_id})"


class _BlockOfFunction(nn.Module):
    """A callable that is not a module, in a block."""

    def __init__(self, function: Callable[..., Any], user_id: str | None, ipu_id: int | None) -> None:
        super().__init__()
        self._function = function
        self._user_id = user_id
        self._ipu_id = ipu_id

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        _enter_block(self._user_id, self._ipu_id, self)
        return self._function(*args, **kwargs)


def BeginBlock(layer_to_call: Any, user_id: str | None = None, ipu_id: int | None = None) -> nn.Module:
    """A block that begins when this module is called, and goes on until the next one. The module itself is returned."""
    if not isinstance(layer_to_call, nn.Module):
        if callable(layer_to_call):
            return _BlockOfFunction(layer_to_call, user_id, ipu_id)
        raise createPoptorchError("module is not an instance of torch.nn.Module or function.")
    if any(isinstance(hook, _BlockHook) for hook in layer_to_call._forward_pre_hooks.values()):
        raise createPoptorchError("module has already been assigned to a block.")
    layer_to_call.register_forward_pre_hook(_BlockHook(user_id, ipu_id))
    return layer_to_call


def removeBlocks(module: nn.Module) -> None:
    """Take all blocks off a module and its children."""
    assert isinstance(module, nn.Module), f"removeBlocks takes a torch.nn.Module, not {type(module)}"
    for child in module.modules():
        for key, hook in list(child._forward_pre_hooks.items()):
            if isinstance(hook, _BlockHook):
                del child._forward_pre_hooks[key]


def BlockFunction(
    user_id: str | None = None, ipu_id: int | None = None
) -> Callable[[Callable[Arguments, Result]], Callable[Arguments, Result]]:
    """A decorator: the function is a block."""

    def decorate(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
        @functools.wraps(function)
        def call(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
            with Block(user_id, ipu_id):
                return function(*args, **kwargs)

        return call

    return decorate


def module_repr(module: nn.Module) -> str:
    """The text of a module, with its blocks."""
    hooks = [hook for hook in module._forward_pre_hooks.values() if isinstance(hook, _BlockHook)]
    children = [
        f"({name}): " + module_repr(child).replace("\n", "\n  ")
        for name, child in module._modules.items()
        if child is not None
    ]
    extra = module.extra_repr().split("\n") if module.extra_repr() else []
    lines = [*extra, *children]
    body = lines[0] if len(lines) == 1 and not children else "\n  " + "\n  ".join(lines) + "\n" if lines else ""
    return "".join(f"{hook!r} " for hook in hooks) + f"{type(module).__name__}({body})"
