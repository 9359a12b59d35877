"""Options for model files: what a file of ONNX, Paddle or TensorFlow leaves open.

In: words such as `--input tokens=8,128`. Out: `Sizes`. They hold for every target that is a model file.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from openipu.errors import OptionError

if TYPE_CHECKING:
    from openipu.model_files import Sizes

_LARGEST = 1 << 40
SUFFIXES = (".onnx", ".pdmodel", ".json")  # ONNX; Paddle's legacy and new form
NAMES = "FILE.onnx, .pdmodel, .json, .keras, a SavedModel's folder"
KERAS_SUFFIX = ".keras"
SAVED_MODEL = "saved_model.pb"  # in the folder of a SavedModel


def add_model_options(parser: argparse.ArgumentParser) -> None:
    """Add the options to a command that takes model files."""
    group = parser.add_argument_group(f"model files ({NAMES})")
    group.add_argument(
        "--input", dest="shapes", metavar="NAME=2,3,224,224", action="append", help="the shape of an input"
    )
    group.add_argument(
        "--dimension", dest="dimensions", metavar="NAME=8", action="append", help="a symbolic size of all inputs"
    )
    group.add_argument(
        "--constant", dest="constants", metavar="NAME=1,2", action="append", help="an input that decides shapes"
    )


def is_model_file(target: str) -> bool:
    """Is it a file that holds a model, rather than a function that makes one?"""
    return target.lower().endswith(SUFFIXES)


def is_tensorflow_model(target: str) -> bool:
    """Is it a `.keras` file or the folder of a SavedModel? They are planned, by TensorFlow's own reader."""
    return target.lower().endswith(KERAS_SUFFIX) or (Path(target) / SAVED_MODEL).is_file()


def read_sizes(arguments: argparse.Namespace, *targets: str) -> Sizes:
    """What the options say for the model files among the targets."""
    from openipu.model_files import Sizes

    shapes = _read(arguments.shapes, "--input", _read_size)
    dimensions = _read(arguments.dimensions, "--dimension", _read_size)
    for name, sizes in dimensions.items():
        if len(sizes) != 1:
            raise OptionError(f"--dimension {name} needs one size, and has {len(sizes)}. Write --dimension {name}=8.")
    constants = _read(arguments.constants, "--constant", _read_number)
    if (shapes or dimensions or constants) and not any(
        is_model_file(target) or is_tensorflow_model(target) for target in targets
    ):
        raise OptionError(
            f"{' '.join(targets)}: --input, --dimension and --constant are for model files ({NAMES}). Let"
            " the function return a job with the inputs that you want."
        )
    return Sizes(shapes=shapes, dimensions={name: sizes[0] for name, sizes in dimensions.items()}, constants=constants)


def _read(words: Sequence[str] | None, option: str, read: Callable[[str], float]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for word in words or ():
        name, equals, numbers = word.rpartition("=")  # a name may hold "="
        try:
            if not equals or not name:
                raise ValueError
            found[name] = [read(number.strip()) for number in numbers.split(",")] if numbers else []  # type: ignore[misc]
        except ValueError:
            raise OptionError(f"{option} {word}: write {option} NAME=NUMBER,NUMBER,….") from None
    return found


def _read_size(text: str) -> int:
    size = int(text)
    if not 0 <= size <= _LARGEST:
        raise ValueError
    return size


def _read_number(text: str) -> float:
    try:
        return int(text)
    except ValueError:
        number = float(text)
        if math.isnan(number):
            raise
        return number
