"""Registers "ipu" with Lightning as soon as the program has imported it.

In: the import of `lightning.pytorch` or of `pytorch_lightning`, past or future. Out: both registries of that package
know "ipu" and "ipu_strategy". `openipu run` calls `watch_imports` before it starts a script.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from lightning_graphcore._packages import ROOTS, is_imported, open_package

AUTO_VARIABLE = "OPENIPU_LIGHTNING_AUTO"
STRICT_VARIABLE = "OPENIPU_LIGHTNING_STRICT"
_choice: dict[str, bool] = {}


def use_ipu_by_default(enabled: bool = True) -> None:
    """Let `Trainer()` and `Trainer(accelerator="auto")` choose IPUs. Off unless asked for, here or by
    OPENIPU_LIGHTNING_AUTO=1: there is always a modelled IPU, and programs that never meant one would get it."""
    _choice["auto"] = enabled


def is_ipu_default() -> bool:
    return _choice.get("auto", _read_flag(AUTO_VARIABLE))


def is_strict_default() -> bool:
    """Does OPENIPU_LIGHTNING_STRICT=1 ask for the limits of the original?"""
    return _read_flag(STRICT_VARIABLE)


def watch_imports() -> None:
    """Register with what is imported already, and with the rest when it comes."""
    for root in ROOTS:
        if is_imported(root):
            _register(root)
    if not any(isinstance(finder, _Watcher) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Watcher())


class _Watcher:
    """A finder that finds nothing itself: it asks the others, and has a look at what they load."""

    def __init__(self) -> None:
        self._asking: set[str] = set()

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in ROOTS or name in self._asking:
            return None
        self._asking.add(name)
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._asking.discard(name)
        execute = getattr(getattr(spec, "loader", None), "exec_module", None)
        if spec is not None and execute is not None:
            spec.loader.exec_module = functools.partial(_execute_and_register, execute, name)  # type: ignore
        return spec


def _execute_and_register(execute: Callable[[ModuleType], Any], root: str, module: ModuleType) -> None:
    execute(module)
    _register(root)


def _register(root: str) -> None:
    from lightning_graphcore._front_end import register

    register(open_package(root))


def _read_flag(name: str) -> bool:
    return os.environ.get(name, "0") not in ("", "0")
