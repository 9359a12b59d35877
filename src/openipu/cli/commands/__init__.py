"""One module a command: `add_parser` describes it, `execute` does it and returns the exit code."""

from openipu.cli.commands import doctor, plan, report, run, systems

ALL = (run, plan, report, systems, doctor)

__all__ = ["ALL", "doctor", "plan", "report", "run", "systems"]
