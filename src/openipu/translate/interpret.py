"""Runs a foreign graph, op by op, as torch ops.

In: a `ForeignGraph`, a `Table`, and values for its inputs and weights: real tensors, or the meta tensors of a capture.
Out: the values of its outputs, or of any other tensor. What depends on static values alone is computed at once, so
constant folding is free. While a capture runs, each op's note says which foreign node it is from.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext

import torch

from openipu.capture import Origin, at_origin, is_capturing, is_capturing_training, is_on_ipu, lift, on_host
from openipu.errors import OpenIpuError, TranslationError
from openipu.graph import SourceLine
from openipu.translate.foreign import ForeignGraph, ForeignNode, Weight
from openipu.translate.rules import Results, Table
from openipu.translate.site import Site, Variables

DEEPEST_BODY = 32  # graphs inside graphs
MOST_WRITTEN_OUT = 1_000_000  # nodes of graphs inside, counted as often as they run
# What torch and Python raise for inputs and attributes that do not go together, such as a file may hold.
_WRONG_NODES = (
    *(RuntimeError, TypeError, ValueError, LookupError, ArithmeticError, AttributeError, AssertionError, MemoryError),
)


class Interpreter:
    """One run over a graph and the graphs inside it."""

    def __init__(
        self,
        table: Table,
        *,
        training: bool = False,
        file: str = "",
        variables: Variables | None = None,
        replicas: int = 1,
        inner: Mapping[int, torch.Tensor] | None = None,
        watched: frozenset[str] = frozenset(),
    ) -> None:
        """`watched`: tensors whose gradients are asked for."""
        self._table = table
        self._training = training
        self._file = file
        self._replicas = replicas
        self._variables = Variables() if variables is None else variables
        self._inner = dict(inner or {})  # weights of the graphs inside, by the identity of their `Weight`
        self._watched = watched
        self._depth = 0
        self._written_out = 0
        self.values: Mapping[str, torch.Tensor] = {}  # of the outermost graph, once it has run

    def run(
        self, graph: ForeignGraph, values: Mapping[str, torch.Tensor], wanted: Iterable[str] | None = None
    ) -> dict[str, torch.Tensor]:
        """The values of the graph's outputs, or of the tensors that are `wanted`."""
        known = dict(values)
        for node in graph.nodes:
            self._run_node(graph, node, known)
        self.values = known if self._depth == 0 else self.values
        names = list(graph.outputs if wanted is None else wanted)
        missing = [name for name in names if name not in known]
        if missing:
            raise TranslationError(
                f"{self._file or graph.name}: no node makes {', '.join(map(repr, missing[:5]))}. "
                "Check the names of outputs and anchors."
            )
        return {name: known[name] for name in names}

    def _run_node(self, graph: ForeignGraph, node: ForeignNode, known: dict[str, torch.Tensor]) -> None:
        missing = [name for name in node.inputs if name and name not in known]
        if missing:
            raise TranslationError(
                f"{self._file or graph.name}: {node.title} reads {missing[0]!r}, which is neither an input nor made by "
                "a node before it. The file is damaged, or its nodes form a cycle."
            )

        def run_body(body: ForeignGraph, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
            return self._run_body(body, inputs, known)

        inputs = tuple(known[name] if name else None for name in node.inputs)
        rule = self._table.need(node, self._file)
        has_bodies = bool(node.bodies)
        folds = rule.folds and not has_bodies and not any(value is not None and is_on_ipu(value) for value in inputs)
        lift_value = None if folds or has_bodies or not is_capturing() else lift
        site = Site(node, inputs, self._file, run_body, self._training, lift_value, self._variables, self._replicas)
        with at_origin(self._describe(node)), on_host() if folds else nullcontext():
            try:
                results = _part(_list_results(rule.handler(site)), site.inputs)
            except OpenIpuError:
                raise
            except _WRONG_NODES as error:
                raise TranslationError(
                    f"{self._file or graph.name}: {node.title} cannot be computed for inputs of "
                    f"{_describe_inputs(inputs)}: {_first_line(error)}. Check its inputs and attributes."
                    f"{node.quoted}"
                ) from error
        for name, value in zip(node.outputs, results, strict=False):
            if name and value is not None:
                known[name] = self._watch(value) if name in self._watched else value

    def _watch(self, value: torch.Tensor) -> torch.Tensor:
        """A tensor whose gradient is asked for has one, also where it is a constant, or made of whole numbers."""
        if value.requires_grad or not value.dtype.is_floating_point or not is_capturing_training():
            return value
        return lift(value).detach().requires_grad_()

    def _run_body(
        self, body: ForeignGraph, inputs: Sequence[torch.Tensor], around: Mapping[str, torch.Tensor]
    ) -> list[torch.Tensor]:
        if self._depth >= DEEPEST_BODY:
            raise TranslationError(
                f"{self._file or body.name}: graph {body.name!r} lies more than {DEEPEST_BODY} graphs deep. "
                "Flatten the model."
            )
        self._written_out += max(1, len(body.nodes))
        if self._written_out > MOST_WRITTEN_OUT:
            raise TranslationError(
                f"{self._file or body.name}: the passes of its loops write out more than {MOST_WRITTEN_OUT:,} nodes, "
                f"the last ones those of graph {body.name!r}. Give its loops fewer passes."
            )
        self._depth += 1
        try:
            own = dict(zip(body.inputs, inputs, strict=False))
            weights = {name: self._find_weight(weight) for name, weight in body.weights.items()}
            results = self.run(body, {**around, **weights, **own})
            return [results[name] for name in body.outputs]  # a body may return one tensor twice
        finally:
            self._depth -= 1

    def _find_weight(self, weight: Weight) -> torch.Tensor:
        """A weight of a graph inside: held like those of the whole graph, or a constant."""
        held = self._inner.get(id(weight))
        if held is None:
            held = self._inner[id(weight)] = weight.read()
        return held

    def _describe(self, node: ForeignNode) -> Origin:
        line = SourceLine(self._file, node.number, node.name) if self._file else node.line
        place = node.place
        stage = place.stage if place.stage is not None else place.phase
        return Origin(node.scope or node.name, line, place.ipu or 0, stage or 0, node.notes, node.part)


def _list_results(results: Results) -> Sequence[torch.Tensor | None]:
    return (results,) if results is None or isinstance(results, torch.Tensor) else results


def _part(results: Sequence[torch.Tensor | None], inputs: Sequence[torch.Tensor | None]) -> list[torch.Tensor | None]:
    """Results that are tensors of their own where gradients flow: those of an input and of its copy differ."""
    passed = {id(value) for value in inputs if value is not None and value.requires_grad}
    return [value.view_as(value) if value is not None and id(value) in passed else value for value in results]


def _describe_inputs(inputs: Iterable[torch.Tensor | None]) -> str:
    parts = [
        "nothing" if value is None else f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
        for value in inputs
    ]
    return ", ".join(parts) or "no inputs"


def _first_line(error: BaseException) -> str:
    text = str(error).strip().splitlines()
    return text[0].rstrip(".") if text else type(error).__name__
