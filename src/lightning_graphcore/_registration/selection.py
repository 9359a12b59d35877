"""How a `Trainer` comes to the IPU strategy.

In: Lightning's connector, which knows the names in its registries but chooses strategy and precision from a fixed
list. Out: "ipu" leads to `IPUStrategy` and `IPUPrecision`, an `IPUStrategy` leads to "ipu"; everything else is chosen
as before.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from lightning_graphcore._registration.arrival import is_ipu_default, read_flag
from lightning_graphcore._registration.front_end import adapt, find_class, is_instance
from lightning_graphcore._registration.packages import Package

NOT_USED = "IPU available but not used. Set `accelerator` and `devices` using `Trainer(accelerator='ipu', devices={})`."


def install_selection(package: Package) -> None:
    """Extend the connector of one Lightning."""
    connector = package.find("trainer.connectors.accelerator_connector._AcceleratorConnector")
    monitor = package.find("callbacks.device_stats_monitor.DeviceStatsMonitor")
    replacements: list[tuple[type, str, Callable[..., Any]]] = [
        (connector, "_check_config_and_set_final_flags", _read_flags),
        (connector, "_choose_strategy", _choose_strategy),
        (connector, "_check_and_init_precision", _choose_precision),
        (connector, "_lazy_init_strategy", _check_pair),
        (monitor, "setup", _prepare_monitor),
    ]
    wrapped = [_wrap(getattr(owner, name), package, replacement) for owner, name, replacement in replacements]
    for (owner, name, _), method in zip(replacements, wrapped, strict=True):  # all of them, or none
        setattr(owner, name, method)


def _wrap(original: Callable[..., Any], package: Package, replacement: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def wrapped(self: Any, *args: Any, **kwargs: Any) -> Any:
        return replacement(package, functools.partial(original, self), self, *args, **kwargs)

    return wrapped


def _read_flags(
    package: Package, original: Callable[..., Any], connector: Any, *, strategy: Any, accelerator: Any, **others: Any
) -> None:
    strategy, accelerator = adapt(strategy, package), adapt(accelerator, package)
    for plugin in others.get("plugins") or () if isinstance(others.get("plugins"), list | tuple) else ():
        adapt(plugin, package)
    is_ipu_strategy = is_instance(strategy, "IPUStrategy", package) or strategy == "ipu_strategy"
    unset = isinstance(accelerator, str) and accelerator == "auto" and getattr(strategy, "_accelerator", None) is None
    if unset and (is_ipu_strategy or (is_ipu_default() and isinstance(strategy, str) and strategy == "auto")):
        accelerator = "ipu"
    if is_ipu_strategy and isinstance(accelerator, str) and accelerator not in ("auto", "ipu"):
        raise package.configuration_error(
            f'The IPU strategy runs on IPUs, not on accelerator={accelerator!r}. Use accelerator="ipu".'
        )
    original(strategy=strategy, accelerator=accelerator, **others)


def _uses_ipu(package: Package, connector: Any) -> bool:
    return is_instance(getattr(connector, "accelerator", None), "IPUAccelerator", package)


def _choose_strategy(package: Package, original: Callable[..., Any], connector: Any) -> Any:
    return "ipu_strategy" if _uses_ipu(package, connector) else original()


def _choose_precision(package: Package, original: Callable[..., Any], connector: Any) -> Any:
    if not is_instance(connector.strategy, "IPUStrategy", package):
        return original()
    return connector._precision_plugin_flag or find_class("IPUPrecision", package)(connector._precision_flag)


def _check_pair(package: Package, original: Callable[..., Any], connector: Any) -> None:
    has_strategy = is_instance(connector.strategy, "IPUStrategy", package)
    if _uses_ipu(package, connector) != has_strategy:
        raise package.configuration_error(
            f"accelerator={connector.accelerator.name()!r} and {type(connector.strategy).__name__} do not go together. "
            'IPUs of one process are driven by strategy="ipu_strategy": leave `strategy` out, and set `devices`.'
        )
    if connector._num_nodes_flag > 1 and has_strategy:
        raise package.configuration_error(
            f"num_nodes={connector._num_nodes_flag}: the IPU strategy runs in one process, which models all IPUs. "
            "Set num_nodes=1 and raise `devices`."
        )
    original()
    if has_strategy:
        from openipu.session import choose_system

        system = choose_system(None).name
        package.inform(
            f"IPU available: True ({system}, modelled), using: {len(connector._parallel_devices)} replica(s)"
        )
    else:
        _warn_of_unused(package)


def _warn_of_unused(package: Package) -> None:
    """As Lightning did while it knew IPUs; a modelled IPU is always there and no reason to warn."""
    if not read_flag("OPENIPU_REPORT_HARDWARE"):  # else no program without IPUs would be spared the next import
        return
    import poptorch

    if poptorch.ipuHardwareIsAvailable():
        package.warn(NOT_USED.format(find_class("IPUAccelerator", package).auto_device_count()))


def _prepare_monitor(
    package: Package, original: Callable[..., Any], monitor: Any, trainer: Any, pl_module: Any, stage: str
) -> None:
    """Statistics of IPUs come from their plan: they do not need the package that reads those of a CPU."""
    if not is_instance(trainer.strategy, "IPUStrategy", package) or monitor._cpu_stats is not None:
        original(trainer, pl_module, stage)
        return
    monitor._cpu_stats = False
    try:
        original(trainer, pl_module, stage)
    finally:
        monitor._cpu_stats = None
