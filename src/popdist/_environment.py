"""What poprun put into the environment of an instance.

In: environment variables. Out: numbers. The names of the variables are poprun's own affair: programs call these
functions, or read the variables of Open MPI and torchrun, which poprun sets as well.
"""

from __future__ import annotations

import os

TOTAL_REPLICAS = "POPDIST_NUM_TOTAL_REPLICAS"
LOCAL_REPLICAS = "POPDIST_NUM_LOCAL_REPLICAS"
IPUS_PER_REPLICA = "POPDIST_NUM_IPUS_PER_REPLICA"
INSTANCES = "POPDIST_NUM_INSTANCES"
INSTANCE_INDEX = "POPDIST_INSTANCE_INDEX"
LOCAL_INSTANCE_INDEX = "POPDIST_LOCAL_INSTANCE_INDEX"
CACHE_PATH = "POPDIST_EXECUTABLE_CACHE_PATH"


def isPopdistEnvSet() -> bool:
    """Was this process started by poprun?"""
    return TOTAL_REPLICAS in os.environ


def getInstanceIndex() -> int:
    """The number of this process in the job."""
    return _read(INSTANCE_INDEX, 0)


def getLocalInstanceIndex() -> int:
    """The number of this process among those of its host."""
    return _read(LOCAL_INSTANCE_INDEX, 0)


def getNumInstances() -> int:
    """Processes of the job."""
    return _read(INSTANCES, 1)


def getNumTotalReplicas() -> int:
    """Replicas of the job."""
    return _read(TOTAL_REPLICAS, 1)


def getNumLocalReplicas() -> int:
    """Replicas of this process."""
    return _read(LOCAL_REPLICAS, 1)


def getReplicaIndexOffset() -> int:
    """The number of this process's first replica in the job."""
    return getInstanceIndex() * getNumLocalReplicas()


def getNumIpusPerReplica() -> int:
    """IPUs of one replica, as poprun was told."""
    return _read(IPUS_PER_REPLICA, 1)


def checkNumIpusPerReplica(num_ipus: int) -> None:
    """Refuse a model that needs another number of IPUs than poprun was told."""
    told = getNumIpusPerReplica()
    if isPopdistEnvSet() and num_ipus != told:
        raise RuntimeError(
            f"The model has {num_ipus} IPUs a replica, and poprun was started for {told}: "
            f"start it with --ipus-per-replica {num_ipus}."
        )


def getDeviceId(ipus_per_replica: int = 0) -> int:
    """The first IPU of this instance, where the instances of a job lie side by side from IPU 0 on."""
    each = ipus_per_replica or getNumIpusPerReplica()
    return getLocalInstanceIndex() * getNumLocalReplicas() * each


def _read(name: str, default: int) -> int:
    text = os.environ.get(name)
    if text is None:
        return default
    try:
        return int(text)
    except ValueError:
        raise RuntimeError(f"{name} is {text!r}, which is not a number: it is for poprun alone to set.") from None
