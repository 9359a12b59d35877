"""`poptorch.options`: Options, its groups, and the table of what each option does here."""

from poptorch.options._effects import POPART, TABLE, Effect
from poptorch.options._groups import (
    _DistributedOptions,
    _JitOptions,
    _PopartOptions,
    _PrecisionOptions,
    _TrainingOptions,
)
from poptorch.options._locations import TensorLocationSettings, _TensorLocationOptions
from poptorch.options._options import Options
from poptorch.options._popart import check_options
from poptorch.options._text import ConfigFileError
from poptorch.options._translate import (
    build_run_options,
    choose_output_mode,
    choose_profile_directory,
    number_execution_mode,
    read_synthetic_mode,
)

__all__ = [
    "POPART",
    "TABLE",
    "ConfigFileError",
    "Effect",
    "Options",
    "TensorLocationSettings",
    "_DistributedOptions",
    "_JitOptions",
    "_PopartOptions",
    "_PrecisionOptions",
    "_TensorLocationOptions",
    "_TrainingOptions",
    "build_run_options",
    "check_options",
    "choose_output_mode",
    "choose_profile_directory",
    "number_execution_mode",
    "read_synthetic_mode",
]
