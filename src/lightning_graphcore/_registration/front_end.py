"""The classes of this front end for one Lightning, and their entry into its registries.

In: a `Package`. Out: `IPUAccelerator`, `IPUStrategy`, `IPUPrecision` and `IPUMetrics`, derived from that package's
own base classes. Each class also answers for its twin of the other package in `isinstance`.
"""

from __future__ import annotations

import functools
import os
from typing import Any

from lightning_graphcore._registration.packages import DESCRIPTION, Package, choose_package

_BASES = {
    "IPUMetrics": "callbacks.callback.Callback",
    "IPUAccelerator": "accelerators.accelerator.Accelerator",
    "IPUStrategy": "strategies.parallel.ParallelStrategy",
    "IPUPrecision": "plugins.precision.precision.Precision",
}
_made: dict[tuple[str, str], type] = {}
_registered: set[str] = set()


def find_class(name: str, package: Package | None = None) -> Any:
    """One of the classes, for the package that the program uses unless one is given."""
    package = choose_package() if package is None else package
    key = (package.root, name)
    if key not in _made:
        base = package.find(_BASES[name])
        core = _find_core(name)
        body = {"package": package, "__module__": core.__module__, "__doc__": core.__doc__, "__qualname__": name}
        _made[key] = type(core)(name, (core, base), body)
        if name == "IPUStrategy":
            _hide_own_lines(package)
    return _made[key]


def is_instance(value: Any, name: str, package: Package) -> bool:
    """Is this one of the class's, without making the class? There are no instances before it is made."""
    return any(made == name for _, made in _made) and isinstance(value, find_class(name, package))


def adapt(instance: Any, package: Package) -> Any:
    """The same object as one of this package's: code that imports `lightning_graphcore` first cannot know which
    Lightning the program is going to use."""
    own = getattr(instance, "package", None)
    if not isinstance(own, Package) or own is package:
        return instance
    for name in _BASES:
        if type(instance) is _made.get((own.root, name)):
            instance.__class__ = find_class(name, package)
            for part in ("_accelerator", "_precision_plugin"):
                if getattr(instance, part, None) is not None:
                    adapt(getattr(instance, part), package)
            return instance
    if isinstance(instance, tuple(_find_core(name) for name in _BASES)):
        raise package.configuration_error(
            f"{type(instance).__name__} derives from a class for {own.root}, and this Trainer is one of "
            f"{package.root}. Import {package.root} before lightning_graphcore."
        )
    return instance


def register_package(package: Package) -> None:
    """Make "ipu" known to one Lightning; a second time changes nothing. Programs without IPUs do not wait for it: the
    strategy, and with it PopTorch, is imported when one is asked for."""
    if package.root in _registered:
        return
    from lightning_graphcore._registration.old_homes import furnish
    from lightning_graphcore._registration.selection import install_selection

    install_selection(package)  # first: it changes nothing where it does not know this Lightning
    find_class("IPUAccelerator", package).register_accelerators(package.find("accelerators.AcceleratorRegistry"))
    package.find("strategies.StrategyRegistry").register(
        "ipu_strategy", functools.partial(_make_strategy, package), description=DESCRIPTION, override=True
    )
    furnish(package)
    _registered.add(package.root)


def _make_strategy(package: Package, **settings: Any) -> Any:
    return find_class("IPUStrategy", package)(**settings)


def _hide_own_lines(package: Package) -> None:
    """Errors and reports name lines of the user, not those of this front end or of Lightning's loops."""
    from openipu.capture import register_internal_directory

    register_internal_directory(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # of the whole package
    for folder in ("core", "loops", "plugins", "strategies", "trainer"):
        register_internal_directory(os.path.dirname(os.path.abspath(str(package.load(folder).__file__))))


def _find_core(name: str) -> Any:
    if name == "IPUAccelerator":
        from lightning_graphcore.accelerator import AcceleratorCore

        return AcceleratorCore
    if name == "IPUStrategy":
        from lightning_graphcore.strategy import StrategyCore

        return StrategyCore
    if name == "IPUMetrics":
        from lightning_graphcore.metrics import MetricsCore

        return MetricsCore
    from lightning_graphcore.precision import PrecisionCore

    return PrecisionCore
