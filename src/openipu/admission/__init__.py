"""Programs from files that somebody else may have written: read, and checked before anything of them runs."""

from openipu.admission.limits import Limits
from openipu.admission.programs import check_program, read_program
from openipu.admission.trial import run_once

__all__ = ["Limits", "check_program", "read_program", "run_once"]
