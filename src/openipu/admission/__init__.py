"""Programs from files that somebody else may have written: read, and checked before anything of them runs."""

from openipu.admission.limits import Limits
from openipu.admission.mapped import check_mapped_program
from openipu.admission.programs import check_program, read_program
from openipu.admission.trial import run_once

__all__ = ["Limits", "check_mapped_program", "check_program", "read_program", "run_once"]
