"""`popdist.tensorflow`: an `IPUConfig` as this instance of a job needs it.

In: poprun's environment. Out: a configuration with the instance's own IPUs and its number among the processes. What is
compiled goes through the cache that poprun names, so that instances share it.
"""

from __future__ import annotations

import os
from typing import Any

from popdist import _environment as environment

_FLAGS = "TF_POPLAR_FLAGS"


def set_ipu_config(config: Any, ipus_per_replica: int | None = None, configure_device: bool = True) -> None:
    """Let a configuration be that of one instance; without poprun, of the only one.

    Args:
        config: an `ipu.config.IPUConfig`.
        ipus_per_replica: refused where poprun was told another number; None: what poprun was told.
        configure_device: let the device have the IPUs of this instance's replicas.
    """
    if ipus_per_replica is not None:
        environment.checkNumIpusPerReplica(ipus_per_replica)
    each = ipus_per_replica or environment.getNumIpusPerReplica()
    distribution = config.experimental.multi_replica_distribution
    distribution.process_count = environment.getNumInstances()
    distribution.process_index = environment.getInstanceIndex()
    if configure_device:
        config.auto_select_ipus = environment.getNumLocalReplicas() * each
    cache, flags = os.environ.get(environment.CACHE_PATH), os.environ.get(_FLAGS, "")
    if cache and "--executable_cache_path" not in flags:
        os.environ[_FLAGS] = f"{flags} --executable_cache_path={cache}".strip()
