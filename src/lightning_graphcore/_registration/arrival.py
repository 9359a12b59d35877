"""Registers "ipu" with Lightning as soon as the program has imported it.

In: the import of `lightning.pytorch` or of `pytorch_lightning`, past or future. Out: both registries of that package
know "ipu" and "ipu_strategy". `openipu_startup` calls `register` in every process that imports Lightning.
"""

from __future__ import annotations

import os

import openipu_startup
from lightning_graphcore._registration.packages import ROOTS, is_imported, open_package

AUTO_VARIABLE = "OPENIPU_LIGHTNING_AUTO"
STRICT_VARIABLE = "OPENIPU_LIGHTNING_STRICT"
_choice: dict[str, bool] = {}


def use_ipu_by_default(enabled: bool = True) -> None:
    """Let `Trainer()` and `Trainer(accelerator="auto")` choose IPUs. Off unless asked for, here or by
    OPENIPU_LIGHTNING_AUTO=1: there is always a modelled IPU, and programs that never meant one would get it."""
    _choice["auto"] = enabled


def is_ipu_default() -> bool:
    return _choice.get("auto", read_flag(AUTO_VARIABLE))


def is_strict_default() -> bool:
    """Does OPENIPU_LIGHTNING_STRICT=1 ask for the limits of the original?"""
    return read_flag(STRICT_VARIABLE)


def watch_imports() -> None:
    """Register with what is imported already, and with the rest when it comes."""
    openipu_startup.install()
    for root in ROOTS:
        if is_imported(root):
            register(root)


def register(root: str) -> None:
    """Make "ipu" known to one Lightning, unless it has IPUs of its own; a second time changes nothing."""
    package = open_package(root)
    if package.has_own_ipus:
        return
    from lightning_graphcore._registration.front_end import register_package

    register_package(package)


def read_flag(name: str) -> bool:
    return os.environ.get(name, "0") not in ("", "0")
