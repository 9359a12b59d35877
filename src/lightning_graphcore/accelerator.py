"""`IPUAccelerator`: which IPUs there are, and what is known of them.

In: the modelled system, and the strategy that runs on it. Out: device counts, and statistics of the programs that were
planned. There is always a modelled IPU, so this accelerator is available everywhere.
"""

from __future__ import annotations

import weakref
from typing import Any

import torch

from lightning_graphcore._registration.packages import DESCRIPTION, Package, TwinMeta

_POPTORCH_AVAILABLE = True
_IPU_AVAILABLE = True


def __getattr__(name: str) -> Any:
    if name == "IPUAccelerator":
        from lightning_graphcore._registration.front_end import find_class

        return find_class(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class AcceleratorCore(metaclass=TwinMeta):
    """IPUs for a Trainer, modelled on this machine."""

    package: Package
    _strategy: weakref.ref[Any] | None = None

    @staticmethod
    def name() -> str:
        return "ipu"

    def setup_device(self, device: torch.device) -> None:
        """Nothing: programs take their IPUs when they are compiled."""

    def teardown(self) -> None:
        self._strategy = None

    def follow(self, strategy: Any) -> None:
        """Answer `get_device_stats` for the programs of this strategy."""
        self._strategy = weakref.ref(strategy)

    def get_device_stats(self, device: Any) -> dict[str, Any]:
        """Modelled memory, cycles and throughput of the running stage; empty before anything is compiled."""
        strategy = self._strategy() if self._strategy is not None else None
        return {} if strategy is None else strategy.list_statistics()

    @classmethod
    def parse_devices(cls, devices: Any) -> int:
        """A number of replicas: an int, its text, a list of IPU numbers, or -1 for all of the modelled system."""
        if isinstance(devices, str) and devices.strip().lstrip("-").isdigit():
            devices = int(devices)
        if isinstance(devices, list | tuple):
            devices = len(devices)
        if devices == -1:
            devices = cls.auto_device_count()
        if isinstance(devices, bool) or not isinstance(devices, int) or devices < 1:
            raise cls.package.configuration_error(
                f'`devices={devices!r}` is not a number of IPUs. Use a positive one (often a power of two), or "auto".'
            )
        return devices

    @staticmethod
    def get_parallel_devices(devices: int) -> list[torch.device]:
        return [torch.device("ipu", index) for index in range(devices)]

    @staticmethod
    def auto_device_count() -> int:
        """IPUs of the modelled system: four for a Bow-2000 and an M2000."""
        from openipu.session import choose_system

        return choose_system(None).ipus

    @staticmethod
    def is_available() -> bool:
        return True

    @classmethod
    def register_accelerators(cls, accelerator_registry: Any) -> None:
        accelerator_registry.register("ipu", cls, description=DESCRIPTION, override=True)
