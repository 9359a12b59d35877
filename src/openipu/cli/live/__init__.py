"""`openipu run --live`: a page on this machine alone that shows programs while they compile and run."""

from openipu.cli.live.board import Board
from openipu.cli.live.server import LiveServer

__all__ = ["Board", "LiveServer"]
