"""`ipu.utils`: the configuration by its older place, and helpers for scripts."""

from __future__ import annotations

from typing import Any

from openipu_tensorflow.ipu.config import (
    DeviceConnectionType,
    ExecutionProfileType,
    IPUConfig,
    MergeRemoteBuffersBehaviour,
    SchedulingAlgorithm,
    SelectionOrder,
    StochasticRoundingBehaviour,
    configure_ipu_system,
    get_ipu_config,
    reset_ipu_configuration,
    running_on_ipu_model,
)
from openipu_tensorflow.ipu.configuration.devices import get_num_of_ipus_in_device
from openipu_tensorflow.ipu.configuration.flags import SyntheticDataCategory, use_synthetic_data_for


def move_variable_initialization_to_cpu(graph: Any = None) -> None:
    """Variables are initialised on the host before they go to an IPU. They always are here, so that nothing moves."""
    if graph is not None and not hasattr(graph, "get_operations"):
        raise TypeError(f"`graph` must be a tf.Graph, not {graph!r}.")


__all__ = [
    "DeviceConnectionType",
    "ExecutionProfileType",
    "IPUConfig",
    "MergeRemoteBuffersBehaviour",
    "SchedulingAlgorithm",
    "SelectionOrder",
    "StochasticRoundingBehaviour",
    "SyntheticDataCategory",
    "configure_ipu_system",
    "get_ipu_config",
    "get_num_of_ipus_in_device",
    "move_variable_initialization_to_cpu",
    "reset_ipu_configuration",
    "running_on_ipu_model",
    "use_synthetic_data_for",
]
