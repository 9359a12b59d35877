"""Stands in for pylibtiff, which needs a library of the system: images are written by Pillow."""

from __future__ import annotations

from typing import Any

import numpy
from PIL import Image


class TIFF:
    """A file that is written once."""

    def __init__(self, path: str) -> None:
        self._path = path

    @classmethod
    def open(cls, path: str, mode: str = "r") -> TIFF:
        if mode != "w":
            raise NotImplementedError(f"Files are only written here, not opened with {mode!r}.")
        return cls(path)

    def write_image(self, image: Any, compression: str | None = None) -> None:
        Image.fromarray(numpy.asarray(image, numpy.float32)).save(self._path, "TIFF", compression=compression)
