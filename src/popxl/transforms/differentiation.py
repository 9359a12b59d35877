"""How a gradient graph is made: ops of the graph in reverse, each as its rule says.

In: a graph and what is given and wanted of it. Out: the gradient graph with its connections. Values that backward reads
are inputs of the gradient graph if calls can deliver them; else they are computed again inside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from openipu.graph import Phase
from popart import popart_exception
from popxl._ir.operation import Op, Rule, add_op, make_op, make_place
from popxl._ir.sites import CallOp, ConditionalOp, RepeatOp
from popxl._lowering.gradients import pull_back
from popxl.context import get_current_context, ipu
from popxl.graph import Graph
from popxl.ops.call import CallSiteInfo
from popxl.tensor import Constant, Tensor, constant, graph_input, graph_output
from popxl.transforms.autodiff import ExpectedConnection, ExpectedConnectionType, GradGraphInfo
from popxl.transforms.branch_gradients import take_back_branch

_FWD, _GRAD = ExpectedConnectionType.Fwd, ExpectedConnectionType.FwdGrad


class Differentiation:
    """One graph that is being differentiated."""

    def __init__(
        self,
        graph: Graph,
        provided: Sequence[Tensor],
        required: Sequence[Tensor] | None,
        known: Mapping[Graph, GradGraphInfo],
        own: dict[tuple[Graph, frozenset[Tensor]], GradGraphInfo],
    ) -> None:
        self.graph, self.provided, self.required, self.known = graph, provided, required, known
        self.own = own  # of graphs that are called, by the outputs whose gradients they take
        self.made = graph.ir.create_empty_graph(f"{graph.name}_grad")
        self.gradients: dict[Tensor, Tensor] = {}  # by tensor of the graph
        self.values: dict[Tensor, Tensor] = {}  # tensors of the graph -> of the gradient graph
        self.inputs: list[ExpectedConnection] = []

    def run(self) -> GradGraphInfo:
        wanted = list(self.graph.inputs if self.required is None else self.required)
        reached = self._find_reached(wanted)
        with self.made:
            for tensor in self.provided:
                if tensor not in self.graph:
                    raise popart_exception(f"Autodiff: {tensor} is no tensor of {self.graph}.")
                self.gradients[tensor] = self._add_input(tensor, _GRAD, f"Gradient___{tensor.name}")
            for op in reversed(list(self.graph._ops)):
                self._take_back(op, reached)
            outputs = []
            for tensor in wanted:
                found = self.gradients.get(tensor)
                if found is None or (tensor in self.provided and tensor not in reached):
                    if self.required is None:
                        continue
                    raise popart_exception(
                        f"[Autodiff] Unable to provide required gradient: no gradient of the outputs of {self.graph} "
                        f"reaches {tensor}."
                    )
                graph_output(found)
                outputs.append(ExpectedConnection._make(_GRAD, tensor))
        return GradGraphInfo._make(self.made, self.graph, self.inputs, outputs)

    def _find_reached(self, wanted: Sequence[Tensor]) -> set[Tensor]:
        """Tensors through which a gradient may flow to one that is wanted."""
        reached = {tensor for tensor in wanted if tensor.dtype.is_floating_point}
        for op in self.graph._ops:
            if not self._has_rule(op) or not any(tensor in reached for tensor in op.inputs):
                continue
            reached |= {tensor for tensor in op.outputs if tensor.dtype.is_floating_point}
        return reached

    @staticmethod
    def _has_rule(op: Op) -> bool:
        return op.rule is not None or isinstance(op, CallOp | ConditionalOp) or bool(op.writes)

    def _take_back(self, op: Op, reached: set[Tensor]) -> None:
        given = [self.gradients.get(tensor) for tensor in op.outputs]
        places = [place for place, tensor in enumerate(op.inputs) if tensor in reached]
        if all(gradient is None for gradient in given) or not places:
            return
        context = get_current_context()
        with context.standing_for(Phase.BACKWARD, op.place.line), ipu(op.place.ipu):
            if isinstance(op, RepeatOp):
                raise popart_exception(
                    f"Autodiff: {self.graph} repeats {op.target}, and a repeat has no gradient. Differentiate the "
                    "graph that is repeated, and repeat a graph that calls both."
                )
            if isinstance(op, CallOp):
                self._take_back_call(op, given, places)
            elif isinstance(op, ConditionalOp):
                take_back_branch(self, op, given, places)
            else:
                self._take_back_op(op, given, places)

    def _take_back_op(self, op: Op, given: Sequence[Tensor | None], places: Sequence[int]) -> None:
        rule = op.rule
        if rule is None and not op.writes:
            return
        if rule is None or op.function is None:
            raise popart_exception(
                f"Autodiff: {op.kind} of {self.graph} writes over its input and has no gradient. Use the op that "
                "returns a new tensor in graphs that are differentiated."
            )
        read = tuple(range(len(op.inputs))) if rule.inputs is None else rule.inputs
        inputs = [(place, self.find_value(op.inputs[place])) for place in read]
        outputs = [(place, self.find_value(op.outputs[place])) for place in rule.outputs]
        seeds = [(place, gradient) for place, gradient in enumerate(given) if gradient is not None]
        function = pull_back(
            op.attributes.get("pure", op.function),
            rule,
            [(t.shape, t.dtype._held) for t in op.inputs],
            [(t.shape, t.dtype._held) for t in op.outputs],
            [place for place, _ in seeds],
            [place for place, _ in inputs],
            [place for place, _ in outputs],
            list(places),
        )
        found = self._make(op, function, [t for _, t in (*seeds, *inputs, *outputs)], places)
        for place, gradient in zip(places, found, strict=True):
            self.add_gradient(op.inputs[place], gradient)

    def _make(self, op: Op, function: Any, tensors: Sequence[Tensor], places: Sequence[int]) -> list[Tensor]:
        targets = [op.inputs[place] for place in places]
        attributes = {key: value for key, value in op.attributes.items() if key not in ("shows", "pure")}
        if "destination" in attributes:
            attributes = {"source": attributes["destination"], "destination": attributes["source"], "shows": True}
        if "to_io_tiles" in attributes:
            attributes = {"to_io_tiles": not attributes["to_io_tiles"], "shows": True}
        return make_op(
            f"{op.kind}Grad",
            function,
            tensors,
            names=[f"Gradient___{t.name}" for t in targets],
            specs=[(t.shape, t.dtype) for t in targets],
            attributes=attributes,
        )

    def _take_back_call(self, op: CallOp, given: Sequence[Tensor | None], places: Sequence[int]) -> None:
        info = self.find_info(op.target, [op.target.outputs[p] for p, g in enumerate(given) if g is not None])
        tensors = []
        for entry in info.expected_inputs:
            outer = CallSiteInfo(op).graph_to_parent(entry.fwd_tensor)
            if entry.connection_type is _FWD:
                tensors.append(self.find_value(outer))
            else:
                place = op.target._outputs.index(entry.fwd_tensor)
                seed = given[place] if place < len(given) else None
                tensors.append(seed if seed is not None else self.make_zeros(outer))
        outputs = [self.made._add_tensor(t.name, t.shape, t.dtype) for t in info.graph.outputs]
        site = CallOp(self.made, "Call", tensors, outputs, make_place(), target=info.graph)
        add_op(site)
        for tensor, gradient in zip(info.outputs, outputs, strict=True):
            place = op.target._inputs.index(tensor)
            if place in places:
                self.add_gradient(op.inputs[place], gradient)

    def find_info(self, graph: Graph, provided: Sequence[Tensor]) -> GradGraphInfo:
        """The gradient graph of a graph that is called: the one that the user gave, or one for these outputs.

        Calls of one graph may be read differently: what takes the gradients of some outputs would lose the others.
        """
        given = self.known.get(graph)
        if given is not None:
            return given
        key = graph, frozenset(provided)
        if key not in self.own:
            self.own[key] = Differentiation(graph, provided, None, self.known, self.own).run()
        return self.own[key]

    def make_zeros(self, like: Tensor) -> Tensor:
        """A gradient of zeros, for a tensor that nothing depends on."""
        shape, held = like.shape, like.dtype._held
        return make_op("Zeros", lambda: torch.zeros(shape, dtype=held), [], specs=[(like.shape, like.dtype)])[0]

    def add_gradient(self, tensor: Tensor, gradient: Tensor) -> None:
        """One more contribution to the gradient of a tensor."""
        before = self.gradients.get(tensor)
        if before is None:
            self.gradients[tensor] = gradient
            return
        rule = Rule(inputs=())
        self.gradients[tensor] = make_op(
            "AddGrad", torch.add, [before, gradient], rule=rule, name=f"Gradient___{tensor.name}"
        )[0]

    def find_value(self, tensor: Tensor) -> Tensor:
        """The value of a tensor of the graph, inside the gradient graph."""
        found = self.values.get(tensor)
        if found is None:
            found = self.values[tensor] = self._bring(tensor)
        return found

    def _bring(self, tensor: Tensor) -> Tensor:
        graph = self.graph
        if isinstance(tensor, Constant):
            return constant(tensor._data, tensor.dtype, tensor.name)
        if tensor in graph._inputs or tensor in graph._outputs:
            return self._add_input(tensor, _FWD, tensor.name)
        if all(type(site) is CallOp for site in graph._sites):
            graph._add_output(tensor)
            for site in graph._sites:
                assert isinstance(site, CallOp)
                site.add_output(tensor)
            return self._add_input(tensor, _FWD, tensor.name)
        return self._compute_again(tensor)

    def _compute_again(self, tensor: Tensor) -> Tensor:
        """A repeat or a branch delivers no more outputs: what backward reads of it is computed once more."""
        op = tensor._producer
        if op is None or op.function is None or op.writes:
            raise popart_exception(
                f"Autodiff: backward reads {tensor} of {self.graph}, which is neither an input nor an output, and "
                "cannot be computed again. Make it an output of the graph."
            )
        inputs = [self.find_value(entry) for entry in op.inputs]
        with get_current_context().standing_for(Phase.BACKWARD, op.place.line):
            again = make_op(
                op.kind,
                op.function,
                inputs,
                names=[t.name for t in op.outputs],
                specs=[(t.shape, t.dtype) for t in op.outputs],
                attributes=op.attributes,
            )
        for old, new in zip(op.outputs, again, strict=True):
            self.values[old] = new
        return self.values[tensor]

    def _add_input(self, tensor: Tensor, kind: ExpectedConnectionType, name: str) -> Tensor:
        self.inputs.append(ExpectedConnection._make(kind, tensor))
        return graph_input(tensor.shape, tensor.dtype, name, meta_shape=tensor.meta_shape)
