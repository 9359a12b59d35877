"""Options of a program, by the names that programs reach them by: `ir._pb_ir.getSessionOptions()`."""

from __future__ import annotations

from popart import SessionOptions


class Settings:
    """What there is of PopART's own object behind an `Ir`: its session options."""

    def __init__(self) -> None:
        self._options = SessionOptions()

    def getSessionOptions(self) -> SessionOptions:  # noqa: N802 (PopART's own names)
        """The options. Those that act: numIOTiles, partialsTypeMatMuls, enableStochasticRounding,
        enableFloatingPointChecks, engineOptions, enableEngineCaching and cachePath."""
        return self._options

    def logIr(self) -> None:  # noqa: N802
        """Nothing is logged: `Ir.dot_checkpoint` draws a program."""
