"""Values of variables in files that are mapped into memory: models larger than the host's memory."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch.distributed

import popdist

__all__ = ["initialise_memmap_dir_from_checkpoint", "map_variable"]

logger = logging.getLogger(__name__)

Array = np.ndarray[Any, Any]


def map_variable(
    directory: str,
    name: str,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    fill: Callable[[], Array] | None,
    read_only_if_exists: bool,
) -> Array:
    """The array of ``directory/name.npy``; if there is no such file, the first instance makes it with ``fill``."""
    path = os.path.join(directory, name + ".npy")
    first = popdist.getInstanceIndex() == 0
    if first and not os.path.exists(path):
        os.makedirs(directory, exist_ok=True)
        logger.debug("new file for a variable: %s", path)
        data: Array = np.memmap(path, dtype=dtype, shape=shape, mode="w+")
        if fill is not None:
            np.copyto(data, fill())
        _meet()
        return data
    _meet()
    logger.debug("variable from %s", path)
    return np.memmap(path, dtype=dtype, shape=shape, mode="r" if read_only_if_exists else "r+")


def initialise_memmap_dir_from_checkpoint(checkpoint_dir: str, memmap_dir: str) -> None:
    """Copy the mapped files of a checkpoint to where variables look for theirs."""
    for file in sorted(Path(checkpoint_dir, "model").glob("*.npy")):
        shutil.copyfile(file, Path(memmap_dir, file.name))


def _meet() -> None:
    """Wait for the other instances of the job: a file is read by all, and made by one."""
    if popdist.getNumInstances() > 1:
        popdist.init()
        torch.distributed.barrier()
