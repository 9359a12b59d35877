"""The places where Lightning itself had these classes, up to 2.1: programs of that time import them from there.

In: a `Package`. Out: `strategies.IPUStrategy`, `accelerators.ipu`, … below its root. Nothing is made before a program
asks for it: most programs that import Lightning use no IPU.
"""

from __future__ import annotations

import importlib.machinery
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from lightning_graphcore._registration.front_end import find_class
from lightning_graphcore._registration.packages import Package

_ACCELERATOR = {"IPUAccelerator": "IPUAccelerator"}
_STRATEGY = {"IPUStrategy": "IPUStrategy"}
_PRECISION = {"IPUPrecision": "IPUPrecision", "IPUPrecisionPlugin": "IPUPrecision"}
_PACKAGES = {  # module -> name there -> class
    "accelerators": _ACCELERATOR,
    "strategies": _STRATEGY,
    "plugins": _PRECISION,
    "plugins.precision": _PRECISION,
}
_MODULES = {"accelerators": _ACCELERATOR, "strategies": _STRATEGY, "plugins.precision": _PRECISION}  # their `ipu`
_FLAGS = {"_IPU_AVAILABLE": True, "_POPTORCH_AVAILABLE": True}


def furnish(package: Package) -> None:
    """Add the names to what Lightning has; one that is there already stays."""
    for path, names in _PACKAGES.items():
        _add_names(package.load(path), names, package)
    for path, names in _MODULES.items():
        parent = package.load(path)
        name = f"{parent.__name__}.ipu"
        if name not in sys.modules:
            module = ModuleType(name, "The classes for IPUs that stood here up to Lightning 2.1, from openipu.")
            module.__spec__ = importlib.machinery.ModuleSpec(name, None)
            module.__dict__.update(_FLAGS)
            _add_names(module, names, package)
            sys.modules[name] = parent.__dict__["ipu"] = module


def _add_names(module: ModuleType, names: Mapping[str, str], package: Package) -> None:
    """A module's own `__getattr__` is asked for what this one does not have."""
    others = module.__dict__.get("__getattr__")

    def find(name: str) -> Any:
        if name in names:
            found = module.__dict__[name] = find_class(names[name], package)
            return found
        if others is not None:
            return others(name)
        raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")

    module.__dict__["__getattr__"] = find
