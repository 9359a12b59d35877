"""A session's model: an ONNX graph as a program, with the infos of all its tensors.

In: an ONNX model, shapes that it leaves open, anchors, a loss. Out: a captured `Program`, and what each name stands
for. Anchors are outputs of the program: results of ops, inputs, weights, gradients of any of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

from openipu.capture import Traced, capture_program
from openipu.errors import MissingGradientError, TranslationError
from openipu.graph import OptimizerSpec, OutputKind, Program, RunOptions
from openipu.translate import ForeignGraph, ForeignModule, ForeignNode, Goal, TensorType
from openipu.translate.onnx import OnnxModel, read_model
from popart._build.external import take_in
from popart._dataflow import DataFlow, InputShapeInfo
from popart._exceptions import popart_exception
from popart._formats import BY_NAME, BY_TORCH
from popart._prefixes import ACCUMULATOR, GRADIENT, UPDATED
from popart._sessions.checks.limits import POPART_TABLE
from popart.tensorinfo import TensorInfo

FOLLOWED = "hidden gradient of "
HIDDEN = "hidden "  # before the names of outputs that no anchor is, but something that is made of them
_LONGEST_PATH = 4096
_LARGE_BYTES = 1 << 28  # a model file beyond holds its weights, and is mapped instead of being read


@dataclass(frozen=True)
class InputEntry:
    """One input of the model: what a micro-batch of it is."""

    name: str
    info: TensorInfo
    host: TensorInfo  # as the host hands it over: 64-bit numbers are narrowed on the way
    shared: bool = False  # all replicas get the same
    used: bool = True  # else the host need not hand it over

    @property
    def held_shape(self) -> tuple[int, ...]:
        """Micro-batches lie behind one another: a tensor without dimensions gets one."""
        return tuple(self.info.shape()) or (1,)

    def count_taken(self, options: RunOptions) -> int:
        """How many micro-batches the host hands over for one step."""
        return options.micro_batches // (options.replicas if self.shared else 1)


class SessionModule(ForeignModule):
    """A foreign graph whose inputs may have no dimensions, and which tells what its tensors are."""

    def __init__(self, graph: ForeignGraph, scalars: frozenset[str], **others: Any) -> None:
        super().__init__(graph, POPART_TABLE, **others)
        self.scalars = scalars
        self.types: dict[str, tuple[torch.dtype, tuple[int, ...]]] = {}

    def forward(self, *inputs: torch.Tensor) -> Mapping[str, torch.Tensor] | Traced:
        """As of the graph; what is anchored in it comes back as a tensor of its own."""
        given = zip(self.input_names, inputs, strict=True)
        found = super().forward(*[value.reshape(()) if name in self.scalars else value for name, value in given])
        held = {*self._parameters, *self._buffers, *self.input_names, *self._fixed}
        if isinstance(found, Traced):
            return replace(found, outputs=_part(found.outputs, held))
        return _part(found, held)

    def observe(self, values: Mapping[str, torch.Tensor]) -> None:
        """What the tensors of the graph are."""
        self.types.update((name, (value.dtype, tuple(value.shape))) for name, value in values.items())


def _part(outputs: Mapping[str, torch.Tensor], held: set[str]) -> dict[str, torch.Tensor]:
    return {name: value.clone() if name in held else value for name, value in outputs.items()}


@dataclass(frozen=True, eq=False)
class SessionModel:
    """A captured model."""

    onnx: OnnxModel
    module: SessionModule
    program: Program
    inputs: tuple[InputEntry, ...]
    leaves: Mapping[str, int]  # anchor -> output of the program
    updated: Mapping[str, str]  # anchor -> the weight whose new value it is
    accumulated: Mapping[str, int]  # anchor -> output that has the gradients to add up
    tracked: tuple[int, ...] = ()  # outputs with the gradients that a loss scale follows

    def describe(self, name: str) -> TensorInfo | None:
        """The format and shape of a tensor, as the device has it."""
        kind: tuple[torch.dtype, tuple[int, ...]] | None
        base = name.removeprefix(GRADIENT).removeprefix(UPDATED).removeprefix(ACCUMULATOR)
        kind = self.module.types.get(base)
        if kind is None and base in self.onnx.graph.weights:
            weight = self.onnx.graph.weights[base]
            kind = (weight.dtype, weight.shape)
        return None if kind is None else make_device_info(*kind)


def make_device_info(dtype: torch.dtype, shape: Sequence[int]) -> TensorInfo:
    """An IPU has no 64-bit numbers."""
    return TensorInfo(BY_TORCH[dtype].on_device, shape)


def load(source: Any) -> OnnxModel:
    """Read a model from bytes or a path."""
    if isinstance(source, bytes):
        try:
            return read_model(take_in(source, Path.cwd()))
        except TranslationError as error:
            if "not an ONNX model" in str(error):
                raise popart_exception(f"Failed to load a ModelProto from the string: {error}") from error
            raise
    path = Path(source)
    if len(str(source)) > _LONGEST_PATH or not path.is_file():
        raise popart_exception(
            f"Failed to load a ModelProto from the string {str(source)[:200]!r}: it is not the path of a file. Pass "
            "bytes or a path."
        )
    if path.stat().st_size < _LARGE_BYTES:
        return read_model(take_in(path.read_bytes(), path.parent))
    return read_model(path)


def list_inputs(
    model: OnnxModel, infos: InputShapeInfo, shared: Collection[str] = (), anchored: Collection[str] = ()
) -> tuple[InputEntry, ...]:
    """The inputs that the host hands over. `shared`: those that all replicas get the same of."""
    found = []
    read = {name for node in model.graph.list_nodes() for name in node.inputs} | _list_results(model.graph)
    for name, kind in model.graph.inputs.items():
        host = infos.get(name) if infos.has(name) else _read_info(name, kind)
        info = TensorInfo(BY_NAME[host._number_format.on_device].name, host.shape())
        found.append(InputEntry(name, info, host, name in shared, name in read or name in anchored))
    return tuple(found)


def _list_results(graph: ForeignGraph) -> set[str]:
    """Names that a graph, or one inside it, returns."""
    return {name for one in (graph, *graph.list_bodies()) for name in one.outputs}


def _read_info(name: str, kind: TensorType) -> TensorInfo:
    shape = kind.fixed_shape
    if shape is None or any(size < 0 for size in shape):
        sizes = [-1 if size is None else size for size in kind.shape or ()]
        unknown = next((size for size in sizes if not isinstance(size, int) or size < 0), "")
        raise popart_exception(
            f"Input tensor '{name}' must be specified in InputShapeInfo, as it has shape "
            f"[{', '.join(str(size) for size in sizes)}], which uses an unknown value '{unknown}'."
        )
    return TensorInfo(BY_TORCH[kind.dtype].name, shape)


def capture(
    model: OnnxModel,
    inputs: Sequence[InputEntry],
    flow: DataFlow,
    *,
    loss: str,
    describe_optimizer: Any,
    name: str,
    others: Callable[[Program], Collection[str]],
    after_update: bool,
    tracked: Sequence[str] = (),
    replicas: int = 1,
) -> SessionModel:
    """Run the graph once on meta tensors, with its gradients where there is a loss.

    `others`: names that an optimizer adds, once it is known. `after_update`: anchors of weights have their new values.
    `tracked`: tensors whose gradients a loss scale follows. `replicas`: of the session; ops between them need to know.
    """
    graph = model.graph
    known = _list_names(graph)
    anchors = flow.anchors()
    gradients = {anchor: anchor.removeprefix(GRADIENT) for anchor in anchors if anchor.startswith(GRADIENT)}
    summed = [anchor for anchor in anchors if loss and anchor.startswith(ACCUMULATOR)]
    accumulated = {anchor: anchor.removeprefix(ACCUMULATOR) for anchor in summed}
    gradients |= {f"{HIDDEN}{anchor}": weight for anchor, weight in accumulated.items()}
    gradients |= {f"{FOLLOWED}{tensor}": tensor for tensor in tracked}
    updated = [anchor for anchor in anchors if anchor.startswith(UPDATED)]
    strange = {anchor for anchor in anchors if loss and anchor not in known and _may_be_held(anchor)}
    strange -= {*gradients, *accumulated, *updated}
    wanted = [anchor for anchor in anchors if anchor not in {*gradients, *accumulated, *updated, *strange}]
    for anchor in [*wanted, *gradients.values(), *([loss] if loss else [])]:
        if anchor not in known:
            raise popart_exception(
                f"Anchor tensor `{anchor}' not in Ir Tensors. Anchors are names of tensors of the model, and "
                f"{GRADIENT} in front of one of them when training."
            )
    types = {entry.name: TensorType(_dtype(entry.info), tuple(entry.info.shape())) for entry in inputs}
    module = SessionModule(
        replace(graph, inputs=types),
        frozenset(entry.name for entry in inputs if not entry.info.shape()),
        wanted=wanted,
        goal=Goal(loss=loss, gradients=gradients if loss else {}),
        replicas=replicas,
    )
    module.train(bool(loss))
    spec: OptimizerSpec | None = describe_optimizer(module) if loss else None
    twins = [torch.empty(entry.held_shape, dtype=_dtype(entry.info), device="meta") for entry in inputs]
    try:
        program = capture_program(module, tuple(twins), {}, training=bool(loss), optimizer=spec, name=name)
    except MissingGradientError as error:
        raise _refuse(error.names[0]) from error
    if gradients and not loss:
        raise _refuse(next(iter(gradients)))
    if loss and math.prod(module.types[loss][1]) != 1:
        raise popart_exception(
            f"Loss tensor, {loss}, has the shape {list(module.types[loss][1])}: it must be a scalar tensor"
        )
    spec_tree = program.output_tree.spec
    order: Mapping[str, int] = pytree.tree_unflatten(list(range(spec_tree.num_leaves)), spec_tree)
    for anchor in strange - set(others(program)):
        raise _refuse(anchor)
    trained = set() if program.update is None else {one.name for one in program.update.outputs_of(OutputKind.PARAMETER)}
    renewed = {anchor: anchor.removeprefix(UPDATED) for anchor in updated}
    if after_update:
        renewed |= {anchor: anchor for anchor in wanted if anchor in trained}
    for weight in renewed.values():
        if weight not in trained:
            raise _refuse(UPDATED + weight)
    sums = {anchor: order[f"{HIDDEN}{anchor}"] for anchor in accumulated}
    leaves = {anchor: leaf for anchor, leaf in order.items() if not anchor.startswith(HIDDEN) and anchor not in renewed}
    followed = tuple(leaf for anchor, leaf in order.items() if anchor.startswith(FOLLOWED))
    return SessionModel(model, module, program, tuple(inputs), leaves, renewed, sums, followed)


def _may_be_held(anchor: str) -> bool:
    """Whether it may be a tensor of the optimizer."""
    return "___" in anchor or anchor.startswith("lossScaling_") or anchor == "finalLossScale"


def _refuse(anchor: str) -> popart_exception:
    return popart_exception(
        f"Anchor tensor `{anchor}' not in Ir Tensors. Anchors are names of tensors of the model, with {GRADIENT} in "
        "front of one of them when training."
    )


def _dtype(info: TensorInfo) -> torch.dtype:
    found = info._number_format.torch
    assert found is not None
    return found


def _list_names(graph: ForeignGraph) -> set[str]:
    made = {name for node in graph.nodes for name in node.outputs if name}
    return made | set(graph.inputs) | set(graph.weights)


def list_nodes(graph: ForeignGraph) -> tuple[ForeignNode, ...]:
    """All nodes, those of inner graphs too."""
    return tuple(graph.list_nodes())


__all__ = ["InputEntry", "SessionModel", "TranslationError", "capture", "list_inputs", "list_nodes", "load"]
