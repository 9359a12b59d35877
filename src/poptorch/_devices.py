"""IPUs as executors see them: whether there are any, who holds which, and how long to wait for one.

In: options and the IPUs that a program uses. Out: a lease of the virtual pod, or `poptorch.Error`. Where no pod is set
up, programs get IPUs of their own. OPENIPU_REPORT_HARDWARE=1 lets programs believe that the pod's IPUs are installed,
or 64 without one.
"""

from __future__ import annotations

import os

from openipu.errors import PodError
from openipu.pod import LARGEST_LEASE, Lease, Pod, find_pod
from openipu.session import choose_system
from poptorch._logging import TRACE, logger
from poptorch.errors import createPoptorchError
from poptorch.options import Options

HARDWARE_VARIABLE = "OPENIPU_REPORT_HARDWARE"
WAIT_VARIABLE = "POPTORCH_WAIT_FOR_IPU"
INSTALLED_IPUS = 64
_VERSIONS = {"ipu1": 1, "ipu2": 2, "ipu21": 21}


def _reports_hardware() -> bool:
    return os.environ.get(HARDWARE_VARIABLE, "0") not in ("", "0")


def _count_installed(pod: Pod) -> int | None:
    """IPUs that there are for this process; None: as many as it asks for."""
    if not pod.open:
        return pod.partition.ipus
    return INSTALLED_IPUS if _reports_hardware() else None


def ipuHardwareIsAvailable(num_ipus: int = 1) -> bool:
    """False: there is no IPU below. Models run all the same. OPENIPU_REPORT_HARDWARE=1 makes it True."""
    return _reports_hardware() and num_ipus <= (_count_installed(find_pod()) or 0)


def ipuHardwareVersion() -> int:
    """The version of the modelled IPU if hardware is reported; else there is no hardware that could have one."""
    assert _reports_hardware(), "No IPU hardware available on this system"
    pod = find_pod()
    system = choose_system(None) if pod.open else pod.description.system
    return _VERSIONS[system.target.architecture]


def count_ipus(options: Options, ipus_per_replica: int) -> int:
    """IPUs that a program occupies: a power of two on hardware."""
    wanted = ipus_per_replica * int(options.replication_factor)
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


def announce_device(options: Options, ipus: int, lease: Lease | None) -> None:
    """Log the device that a program is compiled for. It need not be free yet."""
    if options.exists("use_model"):
        word = "Enabled" if options.use_model else "Disabled"
        logger.info("From the user configuration: Ipu model: %s", word)
    first = lease.first if lease is not None else options.get("ipu_id", 0)
    logger.debug("Acquired %d IPU(s): running on device Id %s", ipus, first)


def attach(options: Options, ipus: int, *, announce: bool = False) -> Lease:
    """Take IPUs, or wait for them if POPTORCH_WAIT_FOR_IPU says so; `announce` them for a compilation first."""
    first = options.get("ipu_id")
    where = "" if first is None else f" with id {first}"
    try:
        pod = find_pod()

        def try_once() -> Lease | None:
            return pod.attach(ipus, first, program=options.get("model_name") or "", installed=_count_installed(pod))

        waits = os.environ.get(WAIT_VARIABLE, "0") not in ("", "0")
        lease = pod.wait(try_once, None, _log_waiting) if waits else try_once()
        if lease is None:
            rivals = pod.describe_rivals(ipus, first)
    except PodError as error:
        raise createPoptorchError(f"Failed to acquire {ipus} IPU(s){where}: {error}") from error
    if lease is None:
        raise createPoptorchError(
            f"Failed to acquire {ipus} IPU(s){where}: {rivals}. Call detachFromDevice() or destroy() on that model "
            f"first, choose another IPU, or set {WAIT_VARIABLE}=1 to wait."
        )
    if announce:
        announce_device(options, ipus, lease)
    logger.debug("Attached to device %d", lease.first)
    return lease


def release(lease: Lease) -> None:
    """Give IPUs back."""
    lease.release()


def _log_waiting() -> None:
    logger.log(TRACE, "No IPU available, sleeping")
