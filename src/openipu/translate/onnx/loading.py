"""An ONNX file as a module with the inputs of one micro-batch, for planning and running.

In: a path, sizes for what the file leaves open, values for inputs that decide shapes. Out: a `LoadedModel`. For a plan
no weight is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from openipu.errors import TranslationError
from openipu.translate.foreign import TensorType
from openipu.translate.module import ForeignModule, find_static_names
from openipu.translate.onnx.reading import OnnxModel, read_model
from openipu.translate.onnx.table import TABLE


@dataclass(frozen=True, eq=False)
class LoadedModel:
    """A module, and meta tensors with the shapes of one micro-batch."""

    module: ForeignModule
    inputs: tuple[torch.Tensor, ...]
    name: str


def load_model(
    source: Path | str | bytes | OnnxModel,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    sizes: Mapping[str, int] | None = None,
    constants: Mapping[str, torch.Tensor] | None = None,
    weights: bool = True,
) -> LoadedModel:
    """Read a model. `shapes`: of inputs by name; `sizes`: of symbolic dimensions by name."""
    model = source if isinstance(source, OnnxModel) else read_model(source)
    graph = model.graph
    what = graph.file or "The ONNX model"
    _check_names(what, "input", {*(shapes or {}), *(constants or {})}, graph.inputs)
    fixed = {name: _fit_constant(what, name, value, graph.inputs[name]) for name, value in (constants or {}).items()}
    deciding = [name for name in list_deciding(model) if name not in fixed]
    if deciding:
        name = deciding[0]
        raise TranslationError(
            f"{what}: input {name!r} decides shapes, and on an IPU shapes are static. Give its value when the model is "
            f"compiled: --constant {name}=1,2,3 on the command line, constants={{{name!r}: …}} in Python."
        )
    open_sizes = {size for entry in graph.inputs.values() for size in entry.shape or () if isinstance(size, str)}
    _check_names(what, "symbolic dimension", set(sizes or {}), open_sizes)
    inputs = tuple(
        torch.empty(_find_shape(what, name, entry, shapes or {}, sizes or {}), dtype=entry.dtype, device="meta")
        for name, entry in graph.inputs.items()
        if name not in fixed
    )
    module = ForeignModule(graph, TABLE, constants=fixed, load=weights).eval()
    return LoadedModel(module, inputs, Path(graph.file).stem if graph.file else graph.name)


def list_deciding(model: OnnxModel) -> list[str]:
    """Inputs whose values decide shapes, in the model's order."""
    static = find_static_names(model.graph, TABLE)
    return [name for name in model.graph.inputs if name in static]


def _fit_constant(what: str, name: str, value: torch.Tensor, entry: TensorType) -> torch.Tensor:
    """A value in the number format and, where the model says one, the shape of its input."""
    shape = entry.fixed_shape
    if shape is None and entry.shape is not None and len(entry.shape) == value.dim():
        shape = tuple(value.shape)
    elements = 1
    for size in shape or ():
        elements *= size
    if shape is not None and elements != value.numel():
        raise TranslationError(
            f"{what}: input {name!r} has the shape {_show(entry)}, and {value.numel()} numbers are given for it."
        )
    return value.to(entry.dtype).reshape(value.shape if shape is None else shape)


def _check_names(what: str, kind: str, given: set[str], known: Mapping[str, object] | set[str]) -> None:
    unknown = sorted(given - set(known))
    if unknown:
        names = ", ".join(sorted(known)) or "none"
        raise TranslationError(f"{what} has no {kind} {unknown[0]!r}. It has: {names}.")


def _find_shape(
    what: str, name: str, entry: TensorType, shapes: Mapping[str, Sequence[int]], sizes: Mapping[str, int]
) -> tuple[int, ...]:
    if name in shapes:
        given = tuple(shapes[name])
        if entry.shape is not None and (
            len(given) != len(entry.shape)
            or any(isinstance(size, int) and size != new for size, new in zip(entry.shape, given, strict=True))
        ):
            raise TranslationError(f"{what}: input {name!r} has the shape {_show(entry)}, which {list(given)} is not.")
        return given
    if entry.shape is None:
        raise TranslationError(f"{what} does not say the shape of input {name!r}. Give it: --input {name}=8,128.")
    found = [sizes.get(size) if isinstance(size, str) else size for size in entry.shape]
    missing = [size for size, new in zip(entry.shape, found, strict=True) if new is None]
    if missing:
        example = ",".join("8" if size is None else str(size) for size in found)
        named = f", or --dimension {missing[0]}=8 for every input" if isinstance(missing[0], str) else ""
        raise TranslationError(
            f"{what}: input {name!r} has the shape {_show(entry)}, and on an IPU every size is known when a program is "
            f"compiled. Give its shape: --input {name}={example}{named}."
        )
    return tuple(int(size) for size in found if size is not None)


def _show(entry: TensorType) -> str:
    return "[" + ", ".join("?" if size is None else str(size) for size in entry.shape or ()) + "]"
