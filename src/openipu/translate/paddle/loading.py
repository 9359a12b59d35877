"""A saved Paddle model as a module with the inputs of one micro-batch, for planning and running.

In: the path of a `.pdmodel` or `.json` file, with its `.pdiparams` beside it, and sizes that it leaves open. Out: a
`PaddleModel` or a `LoadedModel`. For a plan no weight is read, and none need be there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from openipu.errors import TranslationError
from openipu.files.documents import LARGEST_JSON
from openipu.files.origin import Origin
from openipu.files.plain import read_bytes
from openipu.translate.foreign import ForeignGraph, TensorType, Weight
from openipu.translate.mapped_files import map_file
from openipu.translate.paddle.building import build_graph, find_type
from openipu.translate.paddle.legacy import read_legacy
from openipu.translate.paddle.module import PaddleModule
from openipu.translate.paddle.parameters import read_parameters
from openipu.translate.paddle.pir import read_pir
from openipu.translate.paddle.program import PaddleOp, PaddleProgram
from openipu.translate.paddle.slicing import slice_program

LEGACY_SUFFIX, PIR_SUFFIX, PARAMETERS_SUFFIX = ".pdmodel", ".json", ".pdiparams"


@dataclass(frozen=True, eq=False)
class PaddleModel:
    """A program for inference: what it takes, what it gives, the names of its weights."""

    program: PaddleProgram
    graph: ForeignGraph
    held: tuple[str, ...]

    @property
    def feeds(self) -> Mapping[str, TensorType]:
        return self.graph.inputs

    @property
    def fetches(self) -> tuple[str, ...]:
        return self.graph.outputs

    @property
    def file(self) -> str:
        return self.program.file


@dataclass(frozen=True, eq=False)
class LoadedModel:
    """A module, and meta tensors with the shapes of one micro-batch."""

    model: PaddleModel
    module: PaddleModule
    inputs: tuple[torch.Tensor, ...]
    name: str


def read_model(path: Path) -> PaddleModel:
    """Read a program file, of either form."""
    if path.suffix.lower() == PIR_SUFFIX:
        origin = Origin(
            f"The Paddle model: {path}", TranslationError, "Check that the file is there, whole, and plain."
        )
        return open_model(read_pir(read_bytes(path, origin, LARGEST_JSON), str(path)).program)
    return open_model(read_legacy(map_file(path, "The Paddle model"), str(path)))


def open_model(program: PaddleProgram) -> PaddleModel:
    """The inference part of a program that says itself what is fed and fetched."""
    feeds = _list_columns(program, "feed")
    fetches = _list_columns(program, "fetch")
    if not fetches:
        raise TranslationError(
            f"{program.file or 'The program'} fetches nothing. Save it with paddle.static.save_inference_model or "
            "paddle.jit.save."
        )
    types = {}
    for name in feeds:
        variable = program.main.variables.get(name)
        found = None if variable is None else find_type(variable)
        if found is None:
            raise TranslationError(f"{program.file or 'The program'} does not declare its input {name!r}.")
        types[name] = found
    part = slice_program(program, fetches)
    built = build_graph(program, part.forward, types, fetches, name=Path(program.file).stem or "program")
    return PaddleModel(program, built.graph, built.held)


def _list_columns(program: PaddleProgram, kind: str) -> list[str]:
    """Names that feed or fetch ops move, in the order of their columns."""

    def column(op: PaddleOp) -> int:
        found = op.attributes.get("col", 0)
        return found if isinstance(found, int) else 0

    ops = sorted((op for op in program.main.ops if op.type == kind), key=column)
    slots = [op.outputs if kind == "feed" else op.inputs for op in ops]
    return [name for slot in slots for names in slot.values() for name in names]


def read_weights(model: PaddleModel, path: Path) -> dict[str, Weight]:
    """The weights of a model from their file."""
    kept = [
        entry.name
        for entry in model.program.main.variables.values()
        if entry.persistable and entry.dtype is not None and entry.name not in ("feed", "fetch")
    ]
    return read_parameters(map_file(path, "Weights of a Paddle model"), kept, str(path))


def load_model(
    path: Path,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    sizes: Mapping[str, int] | None = None,
    weights: bool = False,
) -> LoadedModel:
    """A model for a plan; with `weights` also those of the file beside it."""
    model = read_model(path)
    unknown = sorted(set(shapes or {}) - set(model.feeds))
    if unknown:
        raise TranslationError(f"{path} has no input {unknown[0]!r}. It has: {', '.join(model.feeds)}.")
    if sizes:
        raise TranslationError(
            f"{path}: dimensions of a Paddle model have no names. Give shapes: --input NAME=8,3,224."
        )
    stored = read_weights(model, path.with_suffix(PARAMETERS_SUFFIX)) if weights else {}
    held = {}
    for name in model.held:
        variable = model.program.main.variables[name]
        if variable.dtype is None or any(size < 0 for size in variable.shape):
            raise TranslationError(f"{path} does not say the shape of its weight {name!r}. It is damaged.")
        empty = torch.empty(variable.shape, dtype=variable.dtype, device="meta")
        held[name] = stored[name].read() if name in stored else empty
    inputs = tuple(
        torch.empty(find_shape(model, name, (shapes or {}).get(name)), dtype=entry.dtype, device="meta")
        for name, entry in model.feeds.items()
    )
    return LoadedModel(model, PaddleModule(model.graph, held).eval(), inputs, path.stem)


def find_shape(model: PaddleModel, name: str, given: Sequence[int] | None) -> tuple[int, ...]:
    """The shape of an input: as given, else as declared where every size is."""
    declared = model.feeds[name].shape or ()
    shown = [size if size is not None else "?" for size in declared]
    if given is not None:
        fits = len(given) == len(declared) and all(
            old is None or old == new for old, new in zip(declared, given, strict=True)
        )
        if not fits:
            raise TranslationError(f"{model.file}: input {name!r} has the shape {shown}, which {list(given)} is not.")
        return tuple(given)
    fixed = model.feeds[name].fixed_shape
    if fixed is None:
        example = ",".join("8" if size == "?" else str(size) for size in shown)
        raise TranslationError(
            f"{model.file}: input {name!r} has the shape {shown}, and on an IPU every size is known when a program is "
            f"compiled. Give its shape: --input {name}={example}."
        )
    return fixed
