"""Blocks: which part of a model belongs together, for pipelines and for profiles.

In: names and IPU numbers around modules, functions or lines of `forward`. Out: the same results, and ops that carry the
name of their block. Programs are planned on one IPU a replica so far, which is said once where more are asked for.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

from torch import nn

from openipu.capture import BlockPlace, is_capturing, restore_block, set_block
from poptorch._logging import warn_once
from poptorch.errors import createPoptorchError

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class _AutomaticNames:
    """Numbers for blocks without a name."""

    def __init__(self) -> None:
        self._next = 0

    def choose(self, user_id: str | None) -> str:
        if user_id is not None:
            return user_id
        self._next += 1
        return str(self._next - 1)

    def restart(self) -> None:
        self._next = 0


_names = _AutomaticNames()


def _enter_block(user_id: str | None, ipu_id: int | None) -> BlockPlace:
    if not is_capturing():
        return BlockPlace()
    if ipu_id:
        warn_once(
            "The model asks for more than one IPU. Results do not depend on it; programs are planned on one IPU a "
            "replica so far."
        )
    return set_block(_names.choose(user_id))


class Block(nn.Module):
    """A part of `forward`: a context manager, or `Block.start` for everything that follows."""

    def __init__(self, user_id: str | None = None, ipu_id: int | None = None) -> None:
        super().__init__()
        self._user_id = user_id
        self._ipu_id = ipu_id
        self._outside: list[BlockPlace] = []

    def __enter__(self) -> Block:
        self._outside.append(_enter_block(self._user_id, self._ipu_id))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        restore_block(self._outside.pop())

    @staticmethod
    def start(user_id: str | None = None, ipu_id: int | None = None) -> None:
        """Everything from here on belongs to this block."""
        _enter_block(user_id, ipu_id)

    @staticmethod
    def useAutoId() -> None:
        """Start numbering blocks without a name anew."""
        _names.restart()


class _BlockHook:
    """Starts a block when its module is called. Picklable, so that annotated models can be saved."""

    def __init__(self, user_id: str | None, ipu_id: int | None) -> None:
        self._user_id = user_id
        self._ipu_id = ipu_id

    def __call__(self, module: nn.Module, args: Any) -> None:
        _enter_block(self._user_id, self._ipu_id)

    def __repr__(self) -> str:
        return f"BeginBlock(user_id={self._user_id}, ipu_id={self._ipu_id})"


class _BlockOfFunction(nn.Module):
    """A callable that is no module, in a block."""

    def __init__(self, function: Callable[..., Any], user_id: str | None, ipu_id: int | None) -> None:
        super().__init__()
        self._function = function
        self._user_id = user_id
        self._ipu_id = ipu_id

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        _enter_block(self._user_id, self._ipu_id)
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
