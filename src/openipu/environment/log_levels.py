"""Log levels and destinations by the original's variables: `POPLAR_LOG_LEVEL`, `POPLAR_LOG_DEST` and their like.

In: the environment. Out: levels and handlers of openipu's loggers. Without these variables nothing is touched: an
application's own logging stays in charge.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Mapping
from typing import TextIO

from openipu.errors import OptionError

TRACE = 5  # below logging.DEBUG
OFF = logging.CRITICAL + 10
LEVELS = {
    "OFF": OFF,
    "CRITICAL": logging.CRITICAL,
    "ERR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": TRACE,
}
# Which part of openipu does what each library of the original did.
LOGGERS = {"POPLAR": "openipu", "POPLIBS": "openipu.ops", "POPART": "openipu.capture"}


def apply_log_levels(environment: Mapping[str, str] = os.environ) -> None:
    """Set up the loggers whose variables are set. A second call sets them up anew."""
    for library, name in LOGGERS.items():
        level = read_level(f"{library}_LOG_LEVEL", environment)
        stream = open_destination(f"{library}_LOG_DEST", environment)
        logger = logging.getLogger(name)
        for handler in [entry for entry in logger.handlers if isinstance(entry, _LogHandler)]:
            logger.removeHandler(handler)
            logger.propagate = True
        if level is not None:
            logger.setLevel(level)
            logger.propagate = False
            logger.addHandler(_LogHandler(library.lower(), stream))


def read_level(variable: str, environment: Mapping[str, str] = os.environ) -> int | None:
    """The level that a variable names; None if it is not set."""
    word = environment.get(variable, "").strip()
    if not word:
        return None
    if word.upper() not in LEVELS:
        raise OptionError(f"{variable} is {word!r}, which is not a log level. Set it to one of {', '.join(LEVELS)}.")
    return LEVELS[word.upper()]


def open_destination(variable: str, environment: Mapping[str, str] = os.environ) -> TextIO | str:
    """A file that is open for more lines, or the name of a standard stream."""
    word = environment.get(variable, "").strip() or "stderr"
    if word.lower() in ("stdout", "stderr"):
        return word.lower()
    try:
        return open(word, "a", encoding="utf-8", buffering=1)
    except OSError as error:
        raise OptionError(
            f"{variable} is {word!r}, and that file cannot be written ({error.strerror}). Set it to stdout, stderr or "
            "the path of a file."
        ) from None


class _LogHandler(logging.Handler):
    """One line a record. A standard stream is what it is now, so that redirection works."""

    def __init__(self, library: str, stream: TextIO | str) -> None:
        super().__init__()
        self._library, self._stream = library, stream

    def emit(self, record: logging.LogRecord) -> None:
        clock = time.strftime("%H:%M:%S", time.localtime(record.created))
        level = "trace" if record.levelno == TRACE else record.levelname.lower()
        line = f"[{clock}.{int(record.msecs):03d}] [{self._library}] [{level}] {record.getMessage()}"
        stream = getattr(sys, self._stream) if isinstance(self._stream, str) else self._stream
        print(line, file=stream, flush=True)
