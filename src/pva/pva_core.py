"""Some scripts reach the classes by way of `pva.pva_core`."""

from pva._operations import OperationAnalysis as OperationAnalysis
from pva._programs import Program as Program
from pva._programs import ProgramVisitor as ProgramVisitor
from pva._report import Report as Report
from pva._report import openReport as openReport
