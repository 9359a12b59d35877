"""`Options.enableExecutableCaching`: where the cache is, and who compiles first when several processes share it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from openipu.store import hold_file
from poptorch._logging import logger
from poptorch.options import Options


def choose_cache_directory(options: Options) -> Path | None:
    """The directory of the cache, if caching is on."""
    chosen = options._Popart.options
    return Path(chosen["cachePath"]) if chosen.get("enableEngineCaching") and chosen.get("cachePath") else None


@contextmanager
def share_compilation(options: Options, model: Any) -> Iterator[None]:
    """With several processes and a cache, one process compiles at a time."""
    processes = options.Distributed.numProcesses
    directory = choose_cache_directory(options)
    if processes == 1 or directory is None:
        if processes > 1:
            logger.warning(
                "Use poptorch.Options.enableExecutableCaching() to avoid compiling the model once per process"
            )
        yield
        return
    lock = directory / f"{hashlib.md5(repr(model).encode(), usedforsecurity=False).hexdigest()}.lock"
    with hold_file(lock):
        number = options.Distributed.processId + 1
        logger.debug("cache file locked by process %d (pos %d/%d)", os.getpid(), number, processes)
        yield
        logger.debug("Process %d released the cache lock", os.getpid())
