"""`ipu.distributed.ipu_horovod_strategy`, by which releases for TensorFlow 1.15 name it, too."""

from openipu_tensorflow.ipu.horovod.ipu_horovod_strategy import IPUHorovodStrategy

__all__ = ["IPUHorovodStrategy"]
