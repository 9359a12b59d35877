"""IPUs as executors see them: whether there are any, who holds which, and how long to wait for one.

In: options and the IPUs that a program uses. Out: a lease, or `poptorch.Error`. IPUs are numbers here, shared by the
executors of this process. OPENIPU_REPORT_HARDWARE=1 lets programs believe that 64 IPUs are installed.
"""

from __future__ import annotations

import os
import time

from openipu.machine.pool import LARGEST_LEASE, IpuPool, Lease
from openipu.session import choose_system
from poptorch._logging import TRACE, logger
from poptorch.enums import ConnectionType
from poptorch.errors import createPoptorchError
from poptorch.options import Options

HARDWARE_VARIABLE = "OPENIPU_REPORT_HARDWARE"
INSTALLED_IPUS = 64
_VERSIONS = {"ipu1": 1, "ipu2": 2, "ipu21": 21}
_WAIT_SECONDS = 0.25

_installed = IpuPool(INSTALLED_IPUS)
_modelled = IpuPool()  # without hardware a program has a model of its own, unless it asks for an IPU by number


def _reports_hardware() -> bool:
    return os.environ.get(HARDWARE_VARIABLE, "0") not in ("", "0")


def ipuHardwareIsAvailable(num_ipus: int = 1) -> bool:
    """False: there is no IPU below. Models run all the same. OPENIPU_REPORT_HARDWARE=1 makes it True."""
    return _reports_hardware() and num_ipus <= INSTALLED_IPUS


def ipuHardwareVersion() -> int:
    """The version of the modelled IPU if hardware is reported; else there is no hardware that could have one."""
    assert _reports_hardware(), "No IPU hardware available on this system"
    return _VERSIONS[choose_system(None).target.architecture]


def count_ipus(options: Options, ipus_per_replica: int) -> int:
    """IPUs that a program occupies: a power of two on hardware."""
    wanted = ipus_per_replica * options.replication_factor
    if wanted > LARGEST_LEASE:
        raise createPoptorchError(
            f"Too many IPUs requested ({wanted}). Experiments that need more than {LARGEST_LEASE} IPUs require "
            "distributed execution."
        )
    rounded = 1 << (wanted - 1).bit_length()
    if rounded == wanted or not _reports_hardware():
        return wanted
    if not options.auto_round_num_ipus:
        raise createPoptorchError(
            f"The model specifies the use of {wanted} IPUs, however PopTorch must reserve a minimum of {rounded} in "
            f"order to allow the model to run, because PopTorch must reserve a power of 2 or maximum of "
            f"{LARGEST_LEASE} IPUs per process. Please reconfigure your model to use a different number of IPUs or set "
            "poptorch.Options().autoRoundNumIPUs(True)."
        )
    return rounded


def announce_device(options: Options, ipus: int) -> None:
    """Log the device that a program is compiled for. It need not be free yet."""
    if options.exists("use_model"):
        word = "Enabled" if options.use_model else "Disabled"
        logger.info("From the user configuration: Ipu model: %s", word)
    if options.exists("ipu_id"):
        first: int | None = options.ipu_id
    else:
        first = _pool().find(ipus) if options.connection_type == ConnectionType.Always else 0
    logger.debug("Acquired %d IPU(s): running on device Id %s", ipus, first if first is not None else "none")


def attach(options: Options, ipus: int) -> Lease:
    """Take IPUs, or wait for them if POPTORCH_WAIT_FOR_IPU says so."""
    first = options.get("ipu_id")
    if first is None and not _reports_hardware():
        return Lease(0, ipus)  # a model of its own
    pool = _pool()
    lease = pool.acquire(ipus, first)
    while lease is None and os.environ.get("POPTORCH_WAIT_FOR_IPU", "0") not in ("", "0"):
        logger.log(TRACE, "No IPU available, sleeping")
        time.sleep(_WAIT_SECONDS)
        lease = pool.acquire(ipus, first)
    if lease is None:
        where = "" if first is None else f" with id {first}"
        raise createPoptorchError(
            f"Failed to acquire {ipus} IPU(s){where}: another model of this process holds it. Call "
            "detachFromDevice() or destroy() on that model first, or choose another IPU."
        )
    logger.debug("Attached to device %d", lease.first)
    return lease


def release(lease: Lease) -> None:
    """Give IPUs back."""
    _installed.release(lease)
    _modelled.release(lease)


def _pool() -> IpuPool:
    return _installed if _reports_hardware() else _modelled
