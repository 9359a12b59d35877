"""One module a command: `add_parser` describes it, `execute` does it and returns the exit code."""

from openipu.cli.commands import cache, doctor, plan, report, run, systems

ALL = (run, plan, report, systems, cache, doctor)

__all__ = ["ALL", "cache", "doctor", "plan", "report", "run", "systems"]
