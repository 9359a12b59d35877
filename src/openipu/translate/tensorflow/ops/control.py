"""`While`, `If` and `Case`: functions inside a node.

A loop whose condition is known at each pass when the program is compiled is written out; a branch of a known condition
is the one that is taken. A branch that the data of a run decides becomes a branch of the program, such a loop a call of
the host.
"""

from __future__ import annotations

import sys

import torch

from openipu.capture import call_in_graph, capture_branches, is_capturing, is_on_ipu, lift
from openipu.graph import FunctionCall
from openipu.host.tensor_text import TextStyle, format_tensor
from openipu.translate.foreign import ForeignGraph
from openipu.translate.interpret import Interpreter
from openipu.translate.rules import Results, rule
from openipu.translate.site import Site
from openipu.translate.tensorflow.ops.collectives import MEETING
from openipu.translate.tensorflow.ops.lists import TensorList

Tensor = torch.Tensor


@rule("While", "StatelessWhile")
def loop(site: Site) -> Results:
    condition, body = _body(site, "cond"), _body(site, "body")
    carried = [_given(site, place) for place in range(site.count)]
    passes = 0
    while True:
        (going,) = site.run_body(condition, carried)
        if is_on_ipu(going):
            return _run_by_data(site, condition, body, carried)
        if not bool(going.reshape(())):
            return carried
        passes += 1
        site.check_steps(passes)
        carried = site.run_body(body, carried)


def _run_by_data(site: Site, condition: ForeignGraph, body: ForeignGraph, carried: list[Tensor]) -> Results:
    """A loop that goes on for as long as the data says: a call of the host, which runs the body with the same rules."""
    if not is_capturing() or any(isinstance(value, TensorList) for value in carried):
        site.fail(
            "goes on for as long as a condition holds that depends on the data of a run, and collects a result of each "
            "pass, so that nobody knows the shapes when it is compiled. Give the loop a fixed number of passes"
        )
    from openipu.translate.tensorflow.table import TABLE  # which is made of this module

    def run_pass(graph: ForeignGraph, values: list[Tensor]) -> list[Tensor]:
        found = Interpreter(TABLE, file=site.file).run(graph, dict(zip(graph.inputs, values, strict=True)))
        return [found[name] for name in graph.outputs]

    def run(*tensors: Tensor) -> list[Tensor]:
        values = [tensor.clone() for tensor in tensors]
        while bool(run_pass(condition, values)[0].reshape(())):
            values = run_pass(body, values)
        return [value.to(tensor.dtype).clone() for value, tensor in zip(values, tensors, strict=True)]

    inputs = [lift(value) for value in carried]
    joins = meets_replicas(condition) or meets_replicas(body)
    return call_in_graph(FunctionCall("while_loop", run, joins=joins), inputs, inputs)


def meets_replicas(graph: ForeignGraph) -> bool:
    """Do replicas exchange values in a graph, or in those inside it?"""
    return any(node.op in MEETING or any(meets_replicas(body) for body in node.bodies) for node in graph.nodes)


@rule("If", "StatelessIf")
def branch(site: Site) -> Results:
    chosen, otherwise = _body(site, "then_branch"), _body(site, "else_branch")
    inputs = [_given(site, place) for place in range(1, site.count)]
    condition = _given(site, 0)
    if not is_on_ipu(condition):
        taken = bool((condition != 0).any()) if condition.numel() else False
        return site.run_body(chosen if taken else otherwise, inputs)
    if not is_capturing():
        site.fail("depends on a tensor without data")

    def run(graph: ForeignGraph) -> list[Tensor]:
        return [lift(value) for value in site.run_body(graph, inputs)]

    decided = condition if condition.dtype is torch.bool else condition != 0
    return capture_branches(decided, lambda: run(chosen), (), lambda: run(otherwise), ())


@rule("Case", "StatelessCase", static=(0,))
def choose_case(site: Site) -> Results:
    branches = site.get("branches")
    chosen = site.numbers(0, "branch")[0]
    chosen = chosen if 0 <= chosen < len(branches) else len(branches) - 1
    return site.run_body(branches[chosen], [_given(site, place) for place in range(1, site.count)])


@rule("PartitionedCall", "StatefulPartitionedCall")
def call(site: Site) -> Results:
    return site.run_body(_body(site, "f"), [_given(site, place) for place in range(site.count)])


def _given(site: Site, place: int) -> Tensor:
    """As it came: what is known stays known inside."""
    value = site.inputs[place]
    assert value is not None
    return value


def _body(site: Site, name: str) -> ForeignGraph:
    body = site.get(name)
    if not isinstance(body, ForeignGraph):
        site.fail(f"has no function as its {name}")
    return body


@rule("OptionalFromValue", "OptionalGetValue")
def hand_on(site: Site) -> Results:
    """What a branch hands to its gradient."""
    return [_given(site, place) for place in range(site.count)]


@rule("OptionalNone")
def nothing(site: Site) -> Tensor:
    """What the other branch hands on, which nobody reads."""
    return torch.zeros((), dtype=torch.float32)


@rule("IpuPrintTensor", folds=False)
def print_tensor(site: Site) -> Results:
    x, title = site.input(0), str(site.get("title", ""))

    def write(value: Tensor) -> list[Tensor]:
        print(format_tensor(value, TextStyle(), title or site.node.name), file=sys.stderr)
        return [value.clone()]

    if not is_capturing():
        write(x)
        return ()
    call_in_graph(FunctionCall("print_tensor", write, {"title": title}, acts=True), [x], [x])
    return ()
