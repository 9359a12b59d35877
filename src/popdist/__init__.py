"""`popdist`: which instance of how many this process is, as poprun tells every process that it starts.

In: the environment. Out: numbers, and the start of torch.distributed. Without poprun it is instance 0 of 1.
"""

from openipu.heartbeat import start_heartbeat
from popdist._context import execute_on_instances, init, isBackendInitialized
from popdist._environment import (
    checkNumIpusPerReplica,
    getDeviceId,
    getInstanceIndex,
    getLocalInstanceIndex,
    getNumInstances,
    getNumIpusPerReplica,
    getNumLocalReplicas,
    getNumTotalReplicas,
    getReplicaIndexOffset,
    isPopdistEnvSet,
)

start_heartbeat()  # under poprun, which ends jobs with an instance that is frozen

__all__ = [
    "checkNumIpusPerReplica",
    "execute_on_instances",
    "getDeviceId",
    "getInstanceIndex",
    "getLocalInstanceIndex",
    "getNumInstances",
    "getNumIpusPerReplica",
    "getNumLocalReplicas",
    "getNumTotalReplicas",
    "getReplicaIndexOffset",
    "init",
    "isBackendInitialized",
    "isPopdistEnvSet",
]
