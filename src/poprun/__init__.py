"""`poprun`: starts one process per instance, on this host or on several, and ends them all when one fails."""

from poprun.main import main

__all__ = ["main"]
