"""openipu: run, test, profile and plan IPU programs on any machine. Unofficial; needs no IPU and no SDK."""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name == "register_custom_op":
        # Looked up when asked for: it needs torch, and `openipu --help` does not. By name, because every layer imports
        # this package, which is above none of them.
        return importlib.import_module("openipu.capture").register_custom_op
    raise AttributeError(f"module 'openipu' has no attribute {name!r}")
