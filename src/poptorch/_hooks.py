"""Functions of the user that run before and after every compilation, in the order in which they were registered."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from torch.utils.hooks import RemovableHandle

Hook = Callable[[], object]

_before: OrderedDict[int, Hook] = OrderedDict()
_after: OrderedDict[int, Hook] = OrderedDict()


def registerPreCompileHook(hook: Hook) -> RemovableHandle:
    """Run `hook()` before every compilation; the handle removes it."""
    return _register(_before, hook, "Pre-compile")


def registerPostCompileHook(hook: Hook) -> RemovableHandle:
    """Run `hook()` after every compilation; the handle removes it."""
    return _register(_after, hook, "Post-compile")


def _register(hooks: OrderedDict[int, Hook], hook: Hook, name: str) -> RemovableHandle:
    if not callable(hook):
        raise RuntimeError(f"{name} hook must be callable")
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    return handle


def run_pre_compile_hooks() -> None:
    for hook in list(_before.values()):
        hook()


def run_post_compile_hooks() -> None:
    for hook in list(_after.values()):
        hook()
