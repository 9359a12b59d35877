"""Watches a script while it runs: which names of an SDK it reaches for, and at which line.

In: the SDK's modules. Out: uses. A front end is watched from the moment that it is imported, never before: what torch
reads from the environment at import belongs to the script.
"""

from __future__ import annotations

import functools
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType, ModuleType
from typing import Any

from openipu.cli.usage.coverage import load_coverage
from openipu.cli.usage.uses import Use

_OWN = ("openipu", "openipu_tensorflow", "openipu_paddle")


class Recorder:
    """The uses of one run."""

    def __init__(self, modules: Collection[str]) -> None:
        self.uses: dict[Use, None] = {}
        self._modules = modules

    def add(self, name: str, frame: FrameType | None) -> None:
        """Count a use if it comes from the user's own code."""
        while frame is not None and frame.f_code.co_filename == __file__:
            frame = frame.f_back
        if frame is not None and self._is_user(frame):
            self.uses[Use(name, frame.f_code.co_filename, frame.f_lineno)] = None

    def _is_user(self, frame: FrameType) -> bool:
        module = str(frame.f_globals.get("__name__", ""))
        file = frame.f_code.co_filename
        if file.startswith("<") or "site-packages" in file or "dist-packages" in file:
            return False
        return not any(module == known or module.startswith(f"{known}.") for known in (*self._modules, *_OWN))

    def watch_module(self, prefix: str, module: ModuleType) -> None:
        """From now on reading a public name of this module is a use."""
        recorder = self

        class Watched(types.ModuleType):
            def __getattribute__(self, name: str) -> Any:
                if not name.startswith("_"):
                    recorder.add(f"{prefix}.{name}", sys._getframe(1))
                return super().__getattribute__(name)

        module.__class__ = Watched

    def watch_class(self, prefix: str, owner: type) -> None:
        """From now on calling a public method of this class is a use."""
        for name, method in list(vars(owner).items()):
            if name.startswith("_") or not isinstance(method, types.FunctionType):
                continue
            setattr(owner, name, self._wrap(f"{prefix}.{name}", method))

    def _wrap(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def call(*args: Any, **kwargs: Any) -> Any:
            full = f'{name}("{args[1]}")' if name.endswith("._Popart.set") and len(args) > 1 else name
            self.add(full, sys._getframe(1))
            return method(*args, **kwargs)

        return call


class _Finder(importlib.abc.MetaPathFinder):
    """Lets the other finders find a front end, and has it watched once it is loaded."""

    def __init__(self, modules: Collection[str], recorder: Recorder) -> None:
        self._waiting = set(modules)
        self._recorder = recorder

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname not in self._waiting:
            return None
        self._waiting.discard(fullname)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_and_watch(module: ModuleType) -> None:
                execute(module)
                _watch_front_end(fullname, module, self._recorder)

            spec.loader.exec_module = execute_and_watch  # type: ignore[method-assign]
        return spec


def _watch_front_end(name: str, module: ModuleType, recorder: Recorder) -> None:
    """By the name that the script imports: the module may have another one of its own."""
    for part, owner in load_coverage(name).recorded.items():
        recorder.watch_class(f"{name}.{part}", owner)
    recorder.watch_module(name, module)


@contextmanager
def record_uses(modules: Collection[str]) -> Iterator[Recorder]:
    """Watch these front ends while the script runs. They stay watched: it is the last thing that the process does."""
    recorder = Recorder(modules)
    finder = _Finder(modules, recorder)
    sys.meta_path.insert(0, finder)
    try:
        yield recorder
    finally:
        sys.meta_path.remove(finder)
