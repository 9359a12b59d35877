"""`popdist.poptorch.Options`: PopTorch's options, as this instance of a job needs them.

In: poprun's environment. Out: options with the instance's own replicas and its number among the processes. What poprun
decides cannot be set again. Everything compiled goes through a cache that the instances share, so that one compiles.
"""

from __future__ import annotations

import os
from typing import Any, NoReturn

import poptorch
from popdist import _environment as environment
from poptorch.options import _DistributedOptions


class _InstanceOptions(_DistributedOptions):
    """`Options.Distributed`, as poprun has set it."""

    def __init__(self) -> None:
        super().__init__()
        super().configureProcessId(environment.getInstanceIndex(), environment.getNumInstances())

    def disable(self) -> NoReturn:
        """poprun's to say."""
        _refuse("Distributed.disable", "start the program without poprun")

    def setEnvVarNames(self, *args: Any, **kwargs: Any) -> Any:
        """poprun's to say."""
        if "_settled" not in self.__dict__:  # the base class reads its defaults
            self._settled = True
            return self
        return _refuse("Distributed.setEnvVarNames", "poprun sets the number of each instance")

    def configureProcessId(self, *args: Any, **kwargs: Any) -> NoReturn:
        """poprun's to say."""
        _refuse("Distributed.configureProcessId", "change --num-instances of poprun")


class Options(poptorch.Options):
    """`poptorch.Options` of one instance."""

    def __init__(self, ipus_per_replica: int | None = None) -> None:
        super().__init__()
        if ipus_per_replica is not None:
            environment.checkNumIpusPerReplica(ipus_per_replica)
        self._distributed = _InstanceOptions()
        self.set(replication_factor=environment.getNumLocalReplicas())
        cache = os.environ.get(environment.CACHE_PATH)
        if cache:
            self.enableExecutableCaching(cache)
        self.showCompilationProgressBar(
            not environment.isPopdistEnvSet()
        )  # a bar makes no lines to put a number before

    def replicationFactor(self, replication_factor: int) -> NoReturn:
        """poprun's to say."""
        _refuse("replicationFactor", "change --num-replicas of poprun")

    def useIpuId(self, ipu_id: int) -> NoReturn:
        """The pod's to say."""
        _refuse("useIpuId", "every instance takes IPUs that are free")


def _refuse(call: str, advice: str) -> NoReturn:
    raise RuntimeError(f"Cannot call `{call}` with popdist.poptorch.Options: {advice}.")
