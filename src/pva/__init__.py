"""The PopVision analysis library's Python interface, over profiles that openipu wrote.

In: the path of a `profile.pop`. Out: a `Report` with the attributes that scripts of the original use. Everything is
modelled. Lists are sequences over NumPy arrays: nothing is read twice, and an element is made when it is asked for.
"""

from openipu import __version__
from pva import pva_core
from pva._enums import Architecture, ComputeInstrumentationLevel, ExternalExchangeInstrumentationLevel, TargetType
from pva._execution import Execution
from pva._operations import DebugContext, Operation, OperationAnalysis
from pva._programs import ComputeSet, Program, ProgramVisitor
from pva._report import Compilation, Report, openReport
from pva._trace import Event, Process, Thread, Trace, openTrace


class IPU:
    """Holds the names of IPU generations, as `pva.IPU.Architecture`."""

    Architecture = Architecture


__all__ = [
    "IPU",
    "Compilation",
    "ComputeInstrumentationLevel",
    "ComputeSet",
    "DebugContext",
    "Event",
    "Execution",
    "ExternalExchangeInstrumentationLevel",
    "Operation",
    "OperationAnalysis",
    "Process",
    "Program",
    "ProgramVisitor",
    "Report",
    "TargetType",
    "Thread",
    "Trace",
    "__version__",
    "openReport",
    "openTrace",
    "pva_core",
]
