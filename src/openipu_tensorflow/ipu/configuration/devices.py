"""The IPU devices of this process: made by a configuration, gone after a reset.

In: an `IPUConfig`. Out: `/device:IPU:0` and on, each with IPUs of the virtual pod. IPUs are held from the
configuration on, from the first program on, or not at all, as `device_connection.type` says.
"""

from __future__ import annotations

import copy
import logging
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from openipu.errors import PodError
from openipu.pod import Lease, find_pod
from openipu_tensorflow.ipu.configuration.enums import DeviceConnectionType
from openipu_tensorflow.ipu.configuration.flags import read_flags
from openipu_tensorflow.ipu.configuration.message import Message, read_ipus

if TYPE_CHECKING:
    from openipu_tensorflow.ipu.configuration.tree import IPUConfig

_logger = logging.getLogger("openipu")
_NAME = re.compile(r"(?:/job:\w+)?(?:/replica:\d+)?(?:/task:\d+)?/?(?:device:)?IPU(?::(\d+))?", re.IGNORECASE)


@dataclass(eq=False)
class IpuDevice:
    """One device of TensorFlow: some IPUs, and how to use them."""

    ordinal: int
    ipus: int
    first: int | None  # the first IPU's number, where it was chosen
    config: IPUConfig
    leases: list[Lease] = field(default_factory=list)
    seed: int | None = None  # of random numbers; None: a new one each time
    resets: int = 0  # how often the seed was set: the numbers begin again each time

    @property
    def connection(self) -> DeviceConnectionType:
        wanted: DeviceConnectionType = self.config.device_connection.type
        waits = wanted is DeviceConnectionType.ALWAYS and bool(read_flags()["use_on_demand"])
        return DeviceConnectionType.ON_DEMAND if waits else wanted

    def reset_seed(self, seed: int) -> None:
        """Let random numbers begin again."""
        self.seed = seed
        self.resets += 1

    def attach(self, program: str = "") -> None:
        """Hold the IPUs; those that are held already stay so."""
        if self.leases or self.connection in (DeviceConnectionType.NEVER, DeviceConnectionType.PRE_COMPILE):
            return
        pod = find_pod()
        wanted = 1 << (self.ipus - 1).bit_length()
        installed = None if pod.open else pod.partition.ipus

        def attach() -> Lease | None:
            return pod.attach(wanted, self.first, program=program, installed=installed)

        lease = attach()
        if lease is None and self.connection is DeviceConnectionType.ON_DEMAND:
            lease = pod.wait(attach, int(read_flags()["on_demand_device_timeout"]) / 1000)
        if lease is None:
            raise PodError(
                f"Could not attach /device:IPU:{self.ordinal} to {wanted} IPUs: "
                f"{pod.describe_rivals(wanted, self.first)}."
            )
        self.leases.append(lease)

    def release(self) -> None:
        """Give the IPUs back."""
        while self.leases:
            self.leases.pop().release()


class _System:
    """What was configured last."""

    def __init__(self) -> None:
        self.devices: list[IpuDevice] = []
        self.message: Message | None = None
        self.identity = 0  # counts configurations: programs compiled for an earlier one are not used again


_system = _System()


def configure_ipu_system(config: IPUConfig, device: str = "cpu", reset_configuration: bool = True) -> None:
    """Make the devices of a configuration. Another one than before takes its place, with a warning.

    `device` names where the original runs the op that does this; here nothing runs.
    """
    from openipu_tensorflow.ipu.configuration.tree import IPUConfig

    if not isinstance(config, IPUConfig):
        raise TypeError(f"`config` must be an instance of IPUConfig, not {type(config).__name__}.")
    if not isinstance(device, str):
        raise TypeError(f"`device` must be the name of a device, such as 'cpu', not {device!r}.")
    message: Message = config._create_protobuf()
    flags = read_flags()
    if flags["help"]:
        _print_flags()
    if _system.devices:
        if message == _system.message and [entry.ipus for entry in _system.devices] == _count_ipus(config):
            return
        if not reset_configuration:
            from tensorflow.python.framework import errors

            raise errors.FailedPreconditionError(
                None,
                None,
                "The IPU system is configured already, and this configuration is another one. Call "
                "ipu.config.reset_ipu_configuration() first, or leave out reset_configuration=False.",
            )
        _logger.warning("The IPU system was configured before: that configuration is reset.")
        reset_ipu_configuration()
    frozen = copy.deepcopy(config)
    firsts: list[int | None] = list(read_ipus(config.select_ipus)) or [None] * len(_count_ipus(config))
    made = [
        IpuDevice(ordinal, count, first, frozen)
        for ordinal, (count, first) in enumerate(zip(_count_ipus(config), firsts, strict=True))
    ]
    try:
        for entry in made:
            if entry.connection is DeviceConnectionType.ALWAYS:
                entry.attach()
    except BaseException:
        for entry in made:
            entry.release()
        raise
    _system.devices, _system.message = made, message
    _system.identity += 1


def _count_ipus(config: IPUConfig) -> list[int]:
    return read_ipus(config.auto_select_ipus) or [1] * len(read_ipus(config.select_ipus)) or [1]


def _print_flags() -> None:
    from openipu_tensorflow.ipu.configuration.flags import FLAGS, VARIABLE

    print(f"Flags of {VARIABLE}:")
    for name, flag in FLAGS.items():
        print(f"  --{name} (default {flag.default!r}): {flag.effect}")


def reset_ipu_configuration() -> None:
    """Give all IPUs back; afterwards no device is configured."""
    for entry in _system.devices:
        entry.release()
    _system.devices, _system.message = [], None
    _system.identity += 1


def get_ipu_config(session: Any = None) -> list[Message]:
    """The configuration of each device, by the names of the driver."""
    if not _system.devices or _system.message is None:
        raise RuntimeError(
            "No IPU devices configured. Make an IPUConfig and call its configure_ipu_system() before this."
        )
    return [copy.deepcopy(_system.message) for _ in _system.devices]


def count_configurations() -> int:
    """A number that changes whenever the system is configured or reset."""
    return _system.identity


def list_devices() -> list[IpuDevice]:
    """What is configured."""
    return list(_system.devices)


def is_ipu_device(name: str) -> bool:
    """Does this name of TensorFlow mean an IPU?"""
    return bool(name) and _NAME.fullmatch(name) is not None


def strip_job(name: str) -> str:
    """The name of a device without its job, replica and task."""
    return name[name.find("/device:") :] if "/device:" in name else name


def read_ordinal(name: str) -> int:
    """The number in "/device:IPU:1"."""
    found = _NAME.fullmatch(name)
    if found is None:
        raise ValueError(f"{name!r} is not the name of an IPU device, such as '/device:IPU:0'.")
    return int(found.group(1) or 0)


def find_device(name: str = "/device:IPU:0") -> IpuDevice:
    """The device of a name. A system that was not configured is configured by default when a program needs it."""
    ordinal = read_ordinal(name)
    if not _system.devices:
        from openipu_tensorflow.ipu.configuration.tree import IPUConfig

        configure_ipu_system(IPUConfig())
    if ordinal >= len(_system.devices):
        from tensorflow.python.framework import errors

        raise errors.InvalidArgumentError(
            None,
            None,
            f"The device {name} is not there: {len(_system.devices)} IPU devices are configured. One number in "
            "auto_select_ipus makes one device with so many IPUs; a list makes a device of each entry.",
        )
    return _system.devices[ordinal]


def get_num_of_ipus_in_device(ipu_device: str, device: str = "cpu") -> int:
    """How many IPUs a device has; 1 where none is configured."""
    ordinal = read_ordinal(ipu_device)
    return find_device(ipu_device).ipus if ordinal < len(_system.devices) else 1
