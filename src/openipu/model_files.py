"""Model files as planning jobs, and as programs that run: what the command line does with `model.onnx`.

In: the path of an ONNX or Paddle file, sizes that it leaves open, values of inputs that decide shapes, and data. Out: a
`PlanningJob`, for which no weights are read, or the results of one call by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch.utils import _pytree as pytree

from openipu.errors import InputError
from openipu.graph import RunOptions
from openipu.jobs import PlanningJob
from openipu.machine import System
from openipu.session import Compiled, compile_model
from openipu.translate.onnx.loading import list_deciding, load_model
from openipu.translate.onnx.reading import OnnxModel, read_model
from openipu.translate.paddle import loading as paddle_loading

SUFFIX = ".onnx"
PADDLE_SUFFIXES = (paddle_loading.LEGACY_SUFFIX, paddle_loading.PIR_SUFFIX)


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """What a model file leaves open."""

    shapes: Mapping[str, Sequence[int]] = field(default_factory=dict)  # of inputs
    dimensions: Mapping[str, int] = field(default_factory=dict)  # symbolic ones, of all inputs
    constants: Mapping[str, Sequence[float]] = field(default_factory=dict)  # inputs that decide shapes

    def __bool__(self) -> bool:
        return bool(self.shapes or self.dimensions or self.constants)


def load_file_job(path: Path, sizes: Sizes | None = None, *, weights: bool = False) -> PlanningJob:
    """An inference job with the shapes of one micro-batch; no weights are read unless they are asked for."""
    sizes = sizes or Sizes()
    if path.suffix.lower() in PADDLE_SUFFIXES:
        if sizes.constants:
            raise InputError(f"{path}: --constant is for ONNX models. Make the input a constant of the Paddle program.")
        paddle = paddle_loading.load_model(path, shapes=sizes.shapes, sizes=sizes.dimensions, weights=weights)
        return PlanningJob(model=paddle.module, args=paddle.inputs, name=paddle.name)
    constants = {name: torch.tensor(list(numbers)) for name, numbers in sizes.constants.items()}
    loaded = load_model(path, shapes=sizes.shapes, sizes=sizes.dimensions, constants=constants, weights=weights)
    return PlanningJob(model=loaded.module, args=loaded.inputs, name=loaded.name)


def compile_file(
    source: Path | bytes | OnnxModel,
    inputs: Mapping[str, torch.Tensor],
    options: RunOptions | None = None,
    *,
    system: System | str | None = None,
    show_progress: bool = False,
) -> tuple[Compiled, list[torch.Tensor]]:
    """Compile a model for some inputs and load its weights. Also answers with the inputs in the program's order.

    Inputs that decide shapes, and those without elements, become constants of the program.
    """
    model = source if isinstance(source, OnnxModel) else read_model(source)
    what = model.graph.file or "The ONNX model"
    _check_inputs(what, model, inputs)
    empty = [name for name, value in inputs.items() if value.numel() == 0]  # what has no elements is known
    constants = {name: inputs[name] for name in (*list_deciding(model), *empty)}
    shapes = {name: tuple(value.shape) for name, value in inputs.items() if name not in constants}
    loaded = load_model(model, shapes=shapes, constants=constants)
    data = [inputs[name] for name in loaded.module.input_names]
    compiled = compile_model(
        loaded.module,
        data,
        options=options or RunOptions(),
        system=system,
        name=loaded.name,
        show_progress=show_progress,
    )
    weights = dict(loaded.module.named_parameters())
    compiled.executable.load_weights(weights, dict(loaded.module.named_buffers()))
    return compiled, data


def run_file(
    source: Path | bytes | OnnxModel,
    inputs: Mapping[str, torch.Tensor],
    options: RunOptions | None = None,
    *,
    system: System | str | None = None,
) -> dict[str, torch.Tensor]:
    """The outputs of a model by name, in the number formats that the file says: an IPU has no double or int64."""
    if isinstance(source, Path) and source.suffix.lower() in PADDLE_SUFFIXES:
        return _run_paddle(source, inputs, options, system)
    model = source if isinstance(source, OnnxModel) else read_model(source)
    compiled, data = compile_file(model, inputs, options, system=system)
    outputs = compiled.executable.run(data).outputs
    results: dict[str, torch.Tensor] = pytree.tree_unflatten(list(outputs), compiled.program.output_tree.spec)
    types = model.graph.output_types
    return {name: value.to(types[name].dtype) if name in types else value for name, value in results.items()}


def _run_paddle(
    path: Path, inputs: Mapping[str, torch.Tensor], options: RunOptions | None, system: System | str | None
) -> dict[str, torch.Tensor]:
    shapes = {name: tuple(value.shape) for name, value in inputs.items()}
    loaded = paddle_loading.load_model(path, shapes=shapes, weights=True)
    missing = [name for name in loaded.module.input_names if name not in inputs]
    if missing:
        names = ", ".join(map(repr, loaded.module.input_names))
        raise InputError(f"{path} needs the input {missing[0]!r}. Its inputs are: {names}.")
    data = [inputs[name] for name in loaded.module.input_names]
    compiled = compile_model(
        *(loaded.module, data), options=options or RunOptions(), system=system, name=loaded.name, show_progress=False
    )
    compiled.executable.load_weights(dict(loaded.module.named_parameters()), dict(loaded.module.named_buffers()))
    return dict(zip(loaded.model.fetches, compiled.executable.run(data).outputs, strict=True))


def _check_inputs(what: str, model: OnnxModel, inputs: Mapping[str, torch.Tensor]) -> None:
    entries = model.graph.inputs
    missing = [name for name in entries if name not in inputs]
    unknown = [name for name in inputs if name not in entries]
    if missing or unknown:
        problem = f"needs the input {missing[0]!r}" if missing else f"has no input {unknown[0]!r}"
        raise InputError(f"{what} {problem}. Its inputs are: {', '.join(map(repr, entries)) or 'none'}.")
    for name, value in inputs.items():
        if value.dtype is not entries[name].dtype:
            wanted = str(entries[name].dtype).removeprefix("torch.")
            given = str(value.dtype).removeprefix("torch.")
            raise InputError(f"{what}: input {name!r} is {wanted}, and {given} is given. Convert the data to {wanted}.")
