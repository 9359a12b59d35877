"""`ipu.horovod.popdist_strategy`: the older place of `ipu.distributed.popdist_strategy`."""

from openipu_tensorflow.ipu.distributed.popdist_strategy import PopDistExtendedV1, PopDistStrategy

__all__ = ["PopDistExtendedV1", "PopDistStrategy"]
