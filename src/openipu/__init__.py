"""openipu: run, test, profile and plan IPU programs on any machine. Unofficial; needs no IPU and no SDK."""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.2.0"


# Looked up when asked for: they need torch, and `openipu --help` does not. By name, because every layer imports this
# package, which is above none of them.
_PLACES = {"register_custom_op": "openipu.capture", "export_program": "openipu.export"}


def __getattr__(name: str) -> Any:
    if name in _PLACES:
        return getattr(importlib.import_module(_PLACES[name]), name)
    raise AttributeError(f"module 'openipu' has no attribute {name!r}")
