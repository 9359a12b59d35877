"""The logger `poptorch::python`: `[HH:MM:SS.mmm] [poptorch::python] [warning] message` on stderr.

In: a level by name or number, from `setLogLevel` or from the environment variable POPTORCH_LOG_LEVEL; another place
than stderr, from POPTORCH_LOG_DEST.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from typing import TextIO

from openipu.log_levels import open_destination

TRACE = 5  # below logging.DEBUG
OFF = logging.CRITICAL + 10

_LEVELS = {
    "TRACE": TRACE,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERR": logging.ERROR,
    "OFF": OFF,
}
_INTERNAL_LEVELS = {"TRACE_ALL": 1, "DEBUG_IR": 8}
_NUMBERS = {0: "TRACE", 1: "DEBUG", 2: "INFO", 3: "WARN", 4: "ERR", 6: "OFF"}
_POPART_LEVELS = ("TRACE", "DEBUG", "INFO", "WARN", "ERR", "CRITICAL", "OFF")

_COLOURS = {"trace": "\033[37m", "debug": "\033[36m", "info": "\033[32m", "warning": "\033[33m", "error": "\033[31m"}
_PLAIN = "\033[0m"

logger = logging.getLogger("poptorch::python")


class _Formatter(logging.Formatter):
    """One line a record; the level is coloured on a terminal only."""

    def format(self, record: logging.LogRecord) -> str:
        clock = time.strftime("%H:%M:%S", time.localtime(record.created))
        level = record.levelname.lower()
        if sys.stderr.isatty() and level in _COLOURS:
            level = f"{_COLOURS[level]}{level}{_PLAIN}"
        line = f"[{clock}.{int(record.msecs):03d}] [{record.name}] [{level}] {record.getMessage()}"
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


class _StreamHandler(logging.Handler):
    """Writes to a file, or to what `sys.stderr` or `sys.stdout` is now, so that redirection works.

    It takes the place of propagation: handlers of the application's root logger see a record, too, unless it would
    appear a second time on the console.
    """

    def __init__(self, destination: TextIO | str) -> None:
        super().__init__()
        self._destination = destination
        self.setFormatter(_Formatter())

    def emit(self, record: logging.LogRecord) -> None:
        destination = self._destination
        named = isinstance(destination, str)
        stream: TextIO = getattr(sys, destination) if isinstance(destination, str) else destination
        print(self.format(record), file=stream, flush=True)
        for handler in logging.getLogger().handlers:
            if handler in logger.handlers:  # it was put there as well, by pytest for example
                continue
            if record.levelno >= handler.level and not (named and _is_console(handler)):
                handler.handle(record)


def _is_console(handler: logging.Handler) -> bool:
    streams = (sys.stderr, sys.stdout, sys.__stderr__, sys.__stdout__)
    return isinstance(handler, logging.StreamHandler) and any(handler.stream is stream for stream in streams)


def setLogLevel(level: str | int) -> None:
    """Show messages of this level and above: TRACE, DEBUG, INFO, WARN, ERR, OFF, or 0 to 4 and 6."""
    if isinstance(level, int):
        if level not in _NUMBERS:
            raise ValueError("Invalid log level integer")
        level = _NUMBERS[level]
    known = _LEVELS | _INTERNAL_LEVELS
    if level not in known:
        raise ValueError(f"Unknown log level: {level}. Valid values are DEBUG, ERR, INFO, OFF, TRACE and WARN")
    logger.setLevel(known[level])


def setPopartLogLevel(level: str) -> None:
    """Accepted and checked; there is no PopART below, so nothing logs under that name."""
    if not isinstance(level, str) or level not in _POPART_LEVELS:
        raise ValueError(f"Level must be one of {', '.join(_POPART_LEVELS)}")


_warned: set[str] = set()


def warn_once(message: str) -> None:
    """Log a warning the first time this process has reason for it."""
    if message not in _warned:
        _warned.add(message)
        logger.warning(message)


def _start() -> None:
    logging.addLevelName(TRACE, "TRACE")
    if not any(isinstance(handler, _StreamHandler) for handler in logger.handlers):
        logger.addHandler(_StreamHandler(open_destination("POPTORCH_LOG_DEST")))
    logger.propagate = False
    wished = os.environ.get("POPTORCH_LOG_LEVEL", "").strip() or "WARN"
    try:
        setLogLevel(int(wished) if wished.isdigit() else wished.upper())
    except ValueError as error:
        raise ValueError(f"The environment variable POPTORCH_LOG_LEVEL is {wished!r}. {error}") from None


_start()
