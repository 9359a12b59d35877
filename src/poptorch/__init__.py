"""PopTorch's names on openipu: train and run PyTorch models as IPU programs on any machine. Unofficial.

There is no IPU and no SDK below: results come from PyTorch at native speed, and what an IPU would do is modelled.
"""

import os
from typing import NoReturn

from openipu.capture import register_internal_directory
from poptorch import enums, optim, options, poptorch_core, strategies
from poptorch._hooks import registerPostCompileHook, registerPreCompileHook
from poptorch._logging import logger, setLogLevel
from poptorch._poplar_executor import PoplarExecutor
from poptorch._wrappers import inferenceModel, trainingModel
from poptorch.annotations import BeginBlock, Block, BlockFunction, module_repr, removeBlocks
from poptorch.dataloader import DataLoader
from poptorch.enums import (
    AutoStage,
    CommGroupType,
    ConnectionType,
    DataLoaderMode,
    HalfFloatCastingBehavior,
    Liveness,
    MatMulSerializationMode,
    MeanReductionStrategy,
    MultiConvPlanType,
    OutputMode,
    OverlapMode,
    ReductionType,
    SharingStrategy,
    SyncPattern,
    VariableRetrievalMode,
)
from poptorch.errors import Error, RecoverableError, UnrecoverableError, createPoptorchError
from poptorch.ops import identity_loss, isRunningOnIpu, nop
from poptorch.options import ConfigFileError, Options, TensorLocationSettings
from poptorch.strategies import (
    ParallelPhasedExecution,
    Phase,
    PipelinedExecution,
    SerialPhasedExecution,
    ShardedExecution,
    Stage,
)

register_internal_directory(os.path.dirname(__file__))  # errors name the user's line, never one in here

__version__ = "3.4.0"  # the version of the interface that is implemented


def ipuHardwareIsAvailable(num_ipus: int = 1) -> bool:
    """False: there is no IPU below. Models run all the same; code that asks first should not wait for hardware."""
    return False


def ipuHardwareVersion() -> NoReturn:
    """There is no hardware, so it has no version."""
    raise AssertionError("No IPU hardware available on this system")


_NOT_YET = (
    "AsynchronousDataAccessor",
    "Attribute",
    "CPU",
    "ICustomArgParser",
    "MultiConv",
    "NameScope",
    "cond",
    "ctc_beam_search_decoder",
    "custom_op",
    "dynamic_slice",
    "dynamic_update",
    "for_loop",
    "fps",
    "ipu_print_tensor",
    "load",
    "nearest",
    "recomputationCheckpoint",
    "registerCustomArgParser",
    "serializedMatMul",
    "set_available_memory",
    "set_overlap_for_input",
    "set_overlap_for_output",
)


def __getattr__(name: str) -> NoReturn:
    if name in _NOT_YET:
        raise AttributeError(f"poptorch.{name} of PopTorch {__version__} is not supported here yet.")
    raise AttributeError(f"module 'poptorch' has no attribute {name!r}")


__all__ = [
    "AutoStage",
    "BeginBlock",
    "Block",
    "BlockFunction",
    "CommGroupType",
    "ConfigFileError",
    "ConnectionType",
    "DataLoader",
    "DataLoaderMode",
    "Error",
    "HalfFloatCastingBehavior",
    "Liveness",
    "MatMulSerializationMode",
    "MeanReductionStrategy",
    "MultiConvPlanType",
    "Options",
    "OutputMode",
    "OverlapMode",
    "ParallelPhasedExecution",
    "Phase",
    "PipelinedExecution",
    "PoplarExecutor",
    "RecoverableError",
    "ReductionType",
    "SerialPhasedExecution",
    "ShardedExecution",
    "SharingStrategy",
    "Stage",
    "SyncPattern",
    "TensorLocationSettings",
    "UnrecoverableError",
    "VariableRetrievalMode",
    "createPoptorchError",
    "enums",
    "identity_loss",
    "inferenceModel",
    "ipuHardwareIsAvailable",
    "ipuHardwareVersion",
    "isRunningOnIpu",
    "logger",
    "module_repr",
    "nop",
    "optim",
    "options",
    "poptorch_core",
    "registerPostCompileHook",
    "registerPreCompileHook",
    "removeBlocks",
    "setLogLevel",
    "strategies",
    "trainingModel",
]
