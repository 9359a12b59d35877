"""What the passes over one draft may ask for, and when they apply."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from openipu.graph import Program, RunOptions
from openipu.run.kernels import Kernel, KernelLibrary
from openipu.run.memory.device_memory import DeviceMemory
from openipu.run.optimization import Accuracy
from openipu.run.update.updater import Updater


@dataclass(frozen=True, eq=False)
class Setting:
    """What the passes over one draft may ask for."""

    program: Program
    options: RunOptions
    scale: float = 1.0  # the weight of one micro-batch in the reduced gradient
    memory: DeviceMemory | None = None  # what the draft will run on
    updater: Updater | None = None  # what applies gradients, if anything does
    accumulates: bool = False  # gradients of several calls are added up before an update
    library: KernelLibrary = field(default_factory=KernelLibrary)  # the kernels that this program may call

    @property
    def device_memory(self) -> DeviceMemory:
        assert self.memory is not None
        return self.memory

    @property
    def device_updater(self) -> Updater:
        assert self.updater is not None
        return self.updater


def accumulates(setting: Setting) -> bool:
    return setting.updater is not None and setting.accumulates


def updates(setting: Setting) -> bool:
    return setting.updater is not None and not setting.accumulates


def checks(setting: Setting) -> bool:
    return setting.options.floating_point_exceptions


def is_unchecked(setting: Setting) -> bool:
    return not setting.options.floating_point_exceptions


def infers(setting: Setting) -> bool:
    return is_unchecked(setting) and not setting.options.training


def trains(setting: Setting) -> bool:
    return is_unchecked(setting) and setting.options.training


def may_use(kernel: Kernel) -> Callable[[Setting], bool]:
    """Whether a kernel is loaded and may be used: when it is there depends on how busy the machine is, and so what is
    deterministic uses only those with the bits of the operators."""

    def is_usable(setting: Setting) -> bool:
        exact = kernel.accuracy is Accuracy.SAME_BITS or not setting.options.deterministic
        loaded = any(other.source == kernel.source for other in setting.library)  # also for one geometry
        return is_unchecked(setting) and exact and loaded

    return is_usable


def may_infer(kernel: Kernel) -> Callable[[Setting], bool]:
    return lambda setting: infers(setting) and may_use(kernel)(setting)
