"""`openipu garden list`, `run`, `plan` and `report`: one module each, with `execute`."""

from openipu_garden.commands import listing, planning, reporting, running

EXECUTE = {"list": listing.execute, "run": running.execute, "plan": planning.execute, "report": reporting.execute}

__all__ = ["EXECUTE"]
