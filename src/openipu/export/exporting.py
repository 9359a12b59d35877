"""The way out, in order: check that it can be exported, write, run what was written, compare, and only then publish.

In: a program with its values, and a path. Out: files, and an `ExportReport` that says how near their results are.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from openipu.environment.extras import suggest_install
from openipu.errors import ExportError, OptionError
from openipu.export.comparison import Comparison
from openipu.export.snapshot import Snapshot, check_exportable, list_differences, snapshot_executable, snapshot_job
from openipu.export.torch_file.checking import check_module
from openipu.export.torch_file.saving import write_torch_files
from openipu.files.saving import put_in_place
from openipu.jobs import PlanningJob
from openipu.run import Executable
from openipu.session import Compiled

PROTOCOL = "__openipu_compiled__"  # a method of front ends' models: what they compiled


class Format(StrEnum):
    """What a program can be written as."""

    ONNX = "onnx"
    TORCH = "torch"


SUFFIXES = {Format.ONNX: ".onnx", Format.TORCH: ".py"}


@dataclass(frozen=True, slots=True)
class ExportReport:
    """What was written, and how near its results are to openipu's."""

    files: tuple[Path, ...]  # the one to open first
    comparisons: tuple[Comparison, ...]  # none: nobody wanted a check
    notes: tuple[str, ...] = ()  # how the files compute otherwise than the options say


def export_program(
    source: Any, path: str | os.PathLike[str], *, to: Format | str | None = None, check: bool = True
) -> ExportReport:
    """Write a program as plain ONNX or PyTorch, with its weights, and compare its results with openipu's.

    `source`: a compiled model of a front end, such as `poptorch.inferenceModel(…)` after its first call; something
    that `openipu.session` compiled; or an `openipu.jobs.PlanningJob`. `to`: "onnx" or "torch"; by default what the
    path ends in says it: .onnx or .py. An error leaves nothing behind.
    """
    return export_snapshot(take_snapshot(source), Path(path), to=to, check=check)


def take_snapshot(source: Any) -> Snapshot:
    """The program of whatever holds one, with its values."""
    if isinstance(source, Snapshot):
        return source
    if isinstance(source, PlanningJob):
        return snapshot_job(source)
    found = getattr(type(source), PROTOCOL, None)
    if found is not None:
        source = found(source)
    if isinstance(source, Compiled):
        source = source.executable
    if isinstance(source, Executable):
        return snapshot_executable(source)
    raise OptionError(
        f"A {type(source).__name__} holds no captured program. Export a compiled model of a front end, such as "
        "poptorch.inferenceModel(model) after its first call, or an openipu.jobs.PlanningJob."
    )


def export_snapshot(
    snapshot: Snapshot, path: Path, *, to: Format | str | None = None, check: bool = True
) -> ExportReport:
    """As `export_program`."""
    kind = choose_format(path, to)
    check_exportable(snapshot)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".openipu-export-", dir=path.parent) as place:
            comparisons = _write(snapshot, kind, Path(place), path.name, check)
            # What others read is put in place last.
            written = sorted(Path(place).iterdir(), key=lambda file: file.name == path.name)
            put_in_place(written, path.parent)
    except OSError as error:
        raise ExportError(f"{path} cannot be written ({error.strerror or error}). Choose another place.") from error
    files = tuple(path.parent / file.name for file in reversed(written))
    return ExportReport(files, tuple(comparisons), list_differences(snapshot.options))


def choose_format(path: Path, to: Format | str | None) -> Format:
    """What to write. The name must end as such a file does, because its other files are named after it."""
    if to is None:
        found = [kind for kind, suffix in SUFFIXES.items() if path.suffix == suffix]
        if not found:
            raise OptionError(f"{path}: say what to write, by to=onnx or to=torch, or by a name in .onnx or .py.")
        return found[0]
    if to not in list(Format):
        raise OptionError(f"There is no format {to!r}. Choose one of {', '.join(Format)}.")
    kind = Format(to)
    if path.suffix != SUFFIXES[kind]:
        raise OptionError(f"{path}: the name of a file for {kind} ends in {SUFFIXES[kind]}.")
    return kind


def _write(snapshot: Snapshot, kind: Format, folder: Path, name: str, check: bool) -> list[Comparison]:
    if kind is Format.TORCH:
        files = write_torch_files(snapshot, folder, name)
        return check_module(snapshot, files[0]) if check else []
    try:
        import onnx  # noqa: F401
    except ModuleNotFoundError as error:
        raise ExportError(f"ONNX files need the package onnx: {suggest_install('onnx')}") from error
    from openipu.export.onnx_file.checking import check_models
    from openipu.export.onnx_file.models import build_models
    from openipu.export.onnx_file.saving import write_onnx_files

    models = build_models(snapshot)
    places = write_onnx_files(models, folder, name)
    return check_models(snapshot, models, places) if check else []
