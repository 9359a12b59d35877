"""`ipu.horovod.ipu_horovod_strategy`: one replica for each instance, reduced between the hosts."""

from __future__ import annotations

from openipu_tensorflow.ipu.distributed.popdist_strategy import PopDistStrategy


class IPUHorovodStrategy(PopDistStrategy):
    """Data parallelism over instances with one replica each."""

    def __init__(self, ipu_device: str = "/device:IPU:0") -> None:
        super().__init__(ipu_device)
