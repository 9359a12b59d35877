"""Finds what a word of the command line names: a user's function, which is called, or a model file.

In: `package.module:function`, `path/script.py:function` or `path/model.onnx` (or `.pdmodel`, `.json`, `.keras`,
the folder of a SavedModel). Out: a `PlanningJob`.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from openipu.cli.model_options import is_model_file, is_tensorflow_model
from openipu.cli.near import suggest_file
from openipu.environment.extras import explain_missing
from openipu.errors import OptionError, suggest
from openipu.jobs import PlanningJob, read_job

if TYPE_CHECKING:
    from openipu.model_files import Sizes


def load_job(target: str, sizes: Sizes | None = None, *, weights: bool = False) -> PlanningJob:
    """Import the module, call the function, and read what it returned as a job; or read a model file.

    `sizes` say what a model file leaves open; functions need none. `weights`: read those of a model file, too.
    """
    if is_model_file(target):
        from openipu.model_files import load_file_job

        path = Path(target)
        if not path.exists():
            raise OptionError(f"There is no file {target} in {Path.cwd()}. Check the path.{suggest_file(path)}")
        return load_file_job(path, sizes, weights=weights)
    if is_tensorflow_model(target):
        return _load_tensorflow(Path(target), sizes)
    place, _, name = target.rpartition(":")
    if not place:
        place, name = target, ""
    module = _load_file(Path(place), target) if place.endswith(".py") else _load_module(place, target)
    if not name:
        raise OptionError(f"{target} names no function. Write {target}:NAME; {_list_functions(module)}.")
    factory = getattr(module, name, None)
    if not callable(factory):
        raise OptionError(
            f"{place} has no function {name!r}; {_list_functions(module)}.{suggest(name, _find_functions(module))}"
        )
    _check_signature(factory, target)
    return read_job(factory(), target, name)


def _load_tensorflow(path: Path, sizes: Sizes | None) -> PlanningJob:
    """A model in a format of TensorFlow, which its front end reads: `openipu` itself imports no other framework."""
    if not path.exists():
        raise OptionError(f"There is no file {path} in {Path.cwd()}. Check the path.{suggest_file(path)}")
    if sizes is not None and (sizes.dimensions or sizes.constants):
        raise OptionError(f"{path}: --dimension and --constant are for ONNX models. Use --input NAME=8,224,224,3.")
    try:
        reader = importlib.import_module("openipu_tensorflow.files")
    except ModuleNotFoundError as error:
        raise OptionError(str(explain_missing(error, "Reading models of TensorFlow", "tensorflow"))) from error
    job: PlanningJob = reader.load_job(path, {} if sizes is None else sizes.shapes)
    return job


def _load_file(path: Path, target: str) -> ModuleType:
    if not path.is_file():
        raise OptionError(f"{target}: there is no file {path} in {Path.cwd()}. Check the path.{suggest_file(path)}")
    name = f"openipu_target_{path.stem}"  # a file called like a module of Python must not take its place
    specification = importlib.util.spec_from_file_location(name, path.resolve())
    if specification is None or specification.loader is None:
        raise OptionError(f"{target}: {path} cannot be loaded as Python. Check the file.")
    already = sys.modules.get(name)
    if already is not None and getattr(already, "__file__", None) == str(path.resolve()):
        return already
    module = importlib.util.module_from_spec(specification)
    directory = str(path.resolve().parent)
    if directory not in sys.path:
        sys.path.insert(0, directory)  # so that the script finds its neighbours, as when it is run
    sys.modules[name] = module
    specification.loader.exec_module(module)
    return module


def _load_module(name: str, target: str) -> ModuleType:
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise  # the module is there; something that it imports is not
        raise OptionError(
            f"{target}: there is no module {error.name!r} on the path of this Python. "
            "Check the name, or give the path of a file: path/script.py:function."
        ) from error


def _check_signature(factory: Callable[..., Any], target: str) -> None:
    required = [
        parameter.name
        for parameter in inspect.signature(factory).parameters.values()
        if parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]
    if required:
        raise OptionError(
            f"{target} needs the arguments {', '.join(required)}, but is called with none. "
            "Give them defaults, or wrap it in a function without arguments."
        )


def _find_functions(module: ModuleType) -> list[str]:
    return [
        name
        for name, value in vars(module).items()
        if inspect.isfunction(value) and value.__module__ == module.__name__ and not name.startswith("_")
    ]


def _list_functions(module: ModuleType) -> str:
    names = _find_functions(module)
    return f"functions there: {', '.join(names)}" if names else "the module defines no public functions"
