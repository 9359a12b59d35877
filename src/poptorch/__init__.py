"""PopTorch's names on openipu: train and run PyTorch models as IPU programs on any machine. Unofficial.

There is no IPU and no SDK below: results come from PyTorch at native speed, and what an IPU would do is modelled.
"""

import builtins
import os
from typing import Any, NoReturn

from openipu.capture import register_internal_directory
from openipu.environment.log_levels import apply_log_levels
from openipu.trace import start_tracing
from poptorch import _impl as _impl
from poptorch import enums, optim, options, poptorch_core, profiling, strategies, testing
from poptorch._args_parser import ICustomArgParser, registerCustomArgParser
from poptorch._devices import ipuHardwareIsAvailable, ipuHardwareVersion
from poptorch._distribution import provide_distribution
from poptorch._hooks import registerPostCompileHook, registerPreCompileHook
from poptorch._logging import logger, setLogLevel
from poptorch._poplar_executor import PoplarExecutor
from poptorch._wrappers import inferenceModel, load, trainingModel
from poptorch.annotations import BeginBlock, Block, BlockFunction, module_repr, removeBlocks
from poptorch.dataloader import AsynchronousDataAccessor, DataLoader
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
from poptorch.errors import Error, RecoverableError, UnrecoverableError, createPoptorchError, translate_errors
from poptorch.ops import (
    CPU,
    Attribute,
    MultiConv,
    NameScope,
    cond,
    ctc_beam_search_decoder,
    custom_op,
    dynamic_slice,
    dynamic_update,
    for_loop,
    fps,
    identity_loss,
    ipu_print_tensor,
    isRunningOnIpu,
    nearest,
    nop,
    recomputationCheckpoint,
    serializedMatMul,
    set_available_memory,
    set_overlap_for_input,
    set_overlap_for_output,
)
from poptorch.options import ConfigFileError, Options, TensorLocationSettings
from poptorch.strategies import (
    AutomaticExecution,
    ParallelPhasedExecution,
    Phase,
    PipelinedExecution,
    SerialPhasedExecution,
    ShardedExecution,
    Stage,
)

register_internal_directory(os.path.dirname(__file__))  # errors name the user's line, never one in here
with translate_errors():
    apply_log_levels()
    start_tracing()  # if PVTI_OPTIONS asks for it

__version__ = "3.4.0"  # the version of the interface that is implemented
provide_distribution(__version__)


def print(module: Any) -> None:
    """Print a module with the blocks that its layers begin."""
    builtins.print(module_repr(module))


# Names of the original that only its own C++ side has a use for, or that happen by themselves here.
_NOT_YET = (
    "accessAttributes",
    "getIpuTensorId",
    "importPoptorchMetadataFromFile",
    "poptorchAtExit",
    "registerGeometricCustomArgParsers",
)


def __getattr__(name: str) -> NoReturn:
    if name in _NOT_YET:
        raise AttributeError(f"poptorch.{name} of PopTorch {__version__} is not supported here yet.")
    raise AttributeError(f"module 'poptorch' has no attribute {name!r}")


__all__ = [
    "CPU",
    "AsynchronousDataAccessor",
    "Attribute",
    "AutoStage",
    "AutomaticExecution",
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
    "ICustomArgParser",
    "Liveness",
    "MatMulSerializationMode",
    "MeanReductionStrategy",
    "MultiConv",
    "MultiConvPlanType",
    "NameScope",
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
    "cond",
    "createPoptorchError",
    "ctc_beam_search_decoder",
    "custom_op",
    "dynamic_slice",
    "dynamic_update",
    "enums",
    "for_loop",
    "fps",
    "identity_loss",
    "inferenceModel",
    "ipuHardwareIsAvailable",
    "ipuHardwareVersion",
    "ipu_print_tensor",
    "isRunningOnIpu",
    "load",
    "logger",
    "module_repr",
    "nearest",
    "nop",
    "optim",
    "options",
    "poptorch_core",
    "profiling",
    "recomputationCheckpoint",
    "registerCustomArgParser",
    "registerPostCompileHook",
    "registerPreCompileHook",
    "removeBlocks",
    "serializedMatMul",
    "setLogLevel",
    "set_available_memory",
    "set_overlap_for_input",
    "set_overlap_for_output",
    "strategies",
    "testing",
    "trainingModel",
]
