"""`ipu.config`: options of the IPU system, and the functions that configure it."""

from openipu_tensorflow.ipu.configuration.base import (
    ConfigBase as _ConfigBase,
)
from openipu_tensorflow.ipu.configuration.base import (
    deprecate_config_attribute,
    deprecate_config_attributes,
)
from openipu_tensorflow.ipu.configuration.devices import (
    configure_ipu_system,
    get_ipu_config,
    reset_ipu_configuration,
)
from openipu_tensorflow.ipu.configuration.enums import (
    DeviceConnectionType,
    ExecutionProfileType,
    MergeRemoteBuffersBehaviour,
    SchedulingAlgorithm,
    SelectionOrder,
    StochasticRoundingBehaviour,
)
from openipu_tensorflow.ipu.configuration.flags import running_on_ipu_model
from openipu_tensorflow.ipu.configuration.metadata import AttributeMetadata
from openipu_tensorflow.ipu.configuration.tree import IPUConfig

__all__ = [
    "AttributeMetadata",
    "DeviceConnectionType",
    "ExecutionProfileType",
    "IPUConfig",
    "MergeRemoteBuffersBehaviour",
    "SchedulingAlgorithm",
    "SelectionOrder",
    "StochasticRoundingBehaviour",
    "_ConfigBase",
    "configure_ipu_system",
    "deprecate_config_attribute",
    "deprecate_config_attributes",
    "get_ipu_config",
    "reset_ipu_configuration",
    "running_on_ipu_model",
]
