"""`ipu.ipu_multi_worker_strategy`: workers of TensorFlow's own clusters."""

from __future__ import annotations

from typing import Any, NoReturn


class IPUMultiWorkerStrategyV1:
    """Gradients that workers of a TensorFlow cluster reduce on their hosts: refused by name."""

    _collective_key_base = 0

    def __new__(cls, cluster_resolver: Any = None, **settings: Any) -> NoReturn:
        raise NotImplementedError(
            "IPUMultiWorkerStrategyV1: clusters of TensorFlow servers are not there. Use popdist, and poprun to start "
            "the processes."
        )


IPUMultiWorkerStrategy = IPUMultiWorkerStrategyV1
