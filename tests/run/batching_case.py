"""A draft of one micro-batch beside its batched form: run both, and compare."""

import collections
import dataclasses

import torch
from torch import fx

from openipu.graph import InputKind, OutputKind
from openipu.run.drafts.codegen import generate_function
from openipu.run.drafts.draft import Draft, draft_graph
from openipu.run.rewrites.micro_batches import Batched, batch_draft
from openipu.run.rewrites.simplify import own_outputs, simplify

aten = torch.ops.aten
FACTOR = 3


@dataclasses.dataclass
class Case:
    """A draft of one micro-batch, and the values of its placeholders."""

    draft: Draft
    bound: dict[str, torch.Tensor]
    inputs: dict[str, torch.Tensor]  # of all micro-batches

    def run_loop(self, factor=FACTOR):
        function = generate_function(self.draft.graph, self.bound, "loop")
        parts = []
        for step in range(factor):
            arguments = [self.cut(entry, step) for entry in self.draft.inputs if entry.node in self.inputs]
            parts.append(function(*arguments))
        combined = []
        for entry, values in zip(self.draft.outputs, zip(*parts, strict=True), strict=True):
            if entry.kind is OutputKind.GRADIENT:
                combined.append(sum(values))
            else:
                combined.append(torch.cat([value.reshape(-1, *value.shape[1:]) for value in values]))
        return combined

    def cut(self, entry, step):
        value = self.inputs[entry.node]
        if entry.kind is InputKind.SEED:
            return value[step]
        return value[step * entry.shape[0] : (step + 1) * entry.shape[0]] if entry.shape else value

    def run_batched(self, draft):
        arguments = [self.inputs[entry.node] for entry in draft.inputs if entry.node in self.inputs]
        return generate_function(draft.graph, self.bound, "batched")(*arguments)


def batch(draft, factor=FACTOR) -> Draft:
    result = batch_draft(draft, factor)
    assert isinstance(result, Batched), str(result)
    result.draft.graph.lint()
    return result.draft


@torch.no_grad()
def check(case: Case, factor=FACTOR, tolerance=2e-5) -> Draft:
    """Batch, run both, compare results, shapes and strides."""
    batched = batch(case.draft, factor)
    got, expected = case.run_batched(batched), case.run_loop(factor)
    for entry, left, right in zip(batched.outputs, got, expected, strict=True):
        assert tuple(left.shape) == entry.shape, entry
        size = 1.0 if not right.is_floating_point() or right.numel() == 0 else max(float(right.abs().max()), 1e-3)
        torch.testing.assert_close(left, right, atol=tolerance * size, rtol=tolerance, msg=lambda m: f"{entry}: {m}")  # noqa: B023
    check_shapes(case, batched)
    return batched


def check_shapes(case: Case, batched: Draft) -> None:
    """Every node really has the shape, strides and number format that its meta value promises."""
    env = {}
    for node in batched.graph.nodes:
        if node.op == "placeholder":
            env[node] = case.inputs.get(node.name, case.bound.get(node.name))
        elif node.op == "call_function":
            args, kwargs = fx.map_arg((node.args, node.kwargs), env.__getitem__)
            env[node] = node.target(*args, **kwargs)
        else:
            continue
        promised, real = node.meta["val"], env[node]
        if isinstance(real, torch.Tensor):
            assert (promised.shape, promised.dtype) == (real.shape, real.dtype), node.format_node()
            dimensions = [place for place, size in enumerate(real.shape) if size > 1]
            if node.op == "call_function" and real.numel() > 0 and node.target is not aten.expand.default:
                strides = [[value.stride(place) for place in dimensions] for value in (promised, real)]
                assert strides[0] == strides[1], node.format_node()


def count(draft, *targets):
    """How often each operator is there."""
    counter = collections.Counter(node.target for node in draft.graph.nodes)
    return [counter[target] for target in targets]


def trace(build_program, function, inputs, parameter=None) -> Case:
    """Inputs are those of `FACTOR` micro-batches; the function returns outputs, and with a parameter its gradient."""
    small = {name: value[: value.shape[0] // FACTOR] if value.dim() else value for name, value in inputs.items()}
    parameters = {} if parameter is None else {"w": parameter}
    count = len(function(*parameters.values(), *small.values()))
    returns = [(OutputKind.OUTPUT, f"y{number}") for number in range(count)]
    if parameter is not None:
        returns[-1] = (OutputKind.GRADIENT, "w")
    program = build_program(function, parameters=parameters, inputs=small, returns=returns)
    draft = draft_graph(program.micro, program.constants)
    simplify(draft)
    own_outputs(draft)
    values = {entry.node: inputs[entry.name] for entry in draft.inputs if entry.kind is InputKind.INPUT}
    bound = dict(draft.bound)
    bound |= {entry.node: parameter for entry in draft.inputs if entry.kind is InputKind.PARAMETER}
    return Case(draft, bound, values)
