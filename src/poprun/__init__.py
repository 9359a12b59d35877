"""`poprun`: starts one process an instance, on this host or on several, and ends them all when one fails."""

from poprun.main import main

__all__ = ["main"]
