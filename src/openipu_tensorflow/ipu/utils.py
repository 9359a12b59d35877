"""`ipu.utils`: the configuration by its older place, and helpers for scripts."""

from __future__ import annotations

from typing import Any, NoReturn

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
from openipu_tensorflow.ipu.configuration.devices import find_device, get_num_of_ipus_in_device
from openipu_tensorflow.ipu.configuration.flags import SyntheticDataCategory, use_synthetic_data_for


def reset_ipu_seed(
    seed: int,
    device: str = "/device:IPU:0",
    cpu_device: str = "cpu",
    experimental_identical_replicas: bool = False,
) -> None:
    """Random numbers of programs on a device follow from this seed. Programs that have run are compiled again for it.

    `cpu_device` names where the original runs the op that does this; here nothing runs.
    """
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise TypeError(f"The seed must be a whole number, not {seed!r}.")
    if experimental_identical_replicas:
        raise NotImplementedError(
            "experimental_identical_replicas=True: replicas here draw numbers of their own. Leave it out."
        )
    find_device(device).reset_seed(seed & 0x7FFFFFFFFFFFFFFF)


def export_dataset_to_file(*args: Any, **kwargs: Any) -> NoReturn:
    """A data set as a file for the original's runtime."""
    raise NotImplementedError(
        "export_dataset_to_file: files of the original's runtime are not written here. Use tf.data.Dataset.save."
    )


def export_inputs_to_file(*args: Any, **kwargs: Any) -> NoReturn:
    """Inputs as a file for the original's runtime."""
    raise NotImplementedError(
        "export_inputs_to_file: files of the original's runtime are not written here. Use numpy.savez."
    )


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
    "export_dataset_to_file",
    "export_inputs_to_file",
    "get_ipu_config",
    "get_num_of_ipus_in_device",
    "move_variable_initialization_to_cpu",
    "reset_ipu_configuration",
    "reset_ipu_seed",
    "running_on_ipu_model",
    "use_synthetic_data_for",
]
