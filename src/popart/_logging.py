"""PopART's loggers: `popart.getLogger("session").setLevel("DEBUG")`.

In: levels by name, also from POPART_LOG_LEVEL. Out: lines on stderr (or where POPART_LOG_DEST says), as PopART's users
grep for them. Off unless asked for.
"""

from __future__ import annotations

import logging
import os
import sys

from popart._exceptions import popart_exception

LEVELS = {"TRACE": 5, "DEBUG": 10, "INFO": 20, "WARN": 30, "ERR": 40, "CRITICAL": 50, "OFF": 100}
MODULES = ("session", "ir", "devicex", "transform", "pattern", "builder", "op", "opx", "ces", "python", "none")
_ROOT = "popart"


class _Standard(logging.StreamHandler):  # type: ignore[type-arg]
    """Writes to what stderr is at the time: tests and notebooks exchange it."""

    def __init__(self) -> None:
        super().__init__(sys.stderr)

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stdout if os.environ.get("POPART_LOG_DEST") == "stdout" else sys.stderr
        super().emit(record)


def _set_up() -> None:
    root = logging.getLogger(_ROOT)
    if not any(isinstance(handler, _Standard) for handler in root.handlers):
        handler = _Standard()
        handler.setFormatter(logging.Formatter("%(asctime)s %(name)s [%(levelname)s] %(message)s"))
        root.addHandler(handler)
    root.propagate = False
    root.setLevel(LEVELS.get(os.environ.get("POPART_LOG_LEVEL", "OFF").upper(), LEVELS["OFF"]))


class Logger:
    """One module's logger, or that of all."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._log = logging.getLogger(_ROOT if name == "all" else f"{_ROOT}.{name}")

    def setLevel(self, level: str) -> None:
        """TRACE, DEBUG, INFO, WARN, ERR, CRITICAL or OFF."""
        number = LEVELS.get(str(level).upper())
        if number is None:
            raise popart_exception(f"Unknown log level {level!r}: choose of {', '.join(LEVELS)}.")
        self._log.setLevel(number)
        if self._name == "all":
            for module in MODULES:
                logging.getLogger(f"{_ROOT}.{module}").setLevel(logging.NOTSET)

    def debug(self, info: str) -> None:
        """Log a line."""
        self._log.debug("%s", info)

    def info(self, info: str) -> None:
        """Log a line."""
        self._log.info("%s", info)

    def warn(self, info: str) -> None:
        """Log a line."""
        self._log.warning("%s", info)

    def error(self, info: str) -> None:
        """Log a line."""
        self._log.error("%s", info)

    def critical(self, info: str) -> None:
        """Log a line."""
        self._log.critical("%s", info)


def getLogger(name: str = "all") -> Logger:
    """The logger of a module ("session", "ir", "devicex" …), or of all of them."""
    return Logger(name)


_set_up()
session_log = logging.getLogger(f"{_ROOT}.session")
