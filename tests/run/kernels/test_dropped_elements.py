"""Dropout as TensorFlow writes it: the same elements are kept, whichever way they are chosen."""

from __future__ import annotations

import pytest
import torch

from openipu.graph import InputKind, OutputKind, RunOptions
from openipu.run.drafts.codegen import generate_function
from openipu.run.drafts.rules import apply_rules
from openipu.run.engine.micro import draft_micro
from openipu.run.rewrites.fusion.dropped_elements import make_rules

aten = torch.ops.aten


def drop(rate, scale=1.0, shift=0.0, rest=0.0):
    """What Keras' dropout becomes."""

    def layer(x):
        constants = [torch.full((), value) for value in (scale, shift, rate, rest)]
        uniform = aten.rand.default(list(x.shape), dtype=torch.float32, device=torch.device("cpu"))
        kept = aten.ge.Tensor(uniform * constants[0] + constants[1], constants[2])
        return [torch.where(kept, x * 2, constants[3])]

    return layer


def draft(build_program, layer, x):
    return draft_micro(build_program(layer, inputs={"x": x}, returns=[(OutputKind.OUTPUT, "result")]), RunOptions())


def run(subject, x):
    values = {InputKind.SEED: torch.tensor(7, dtype=torch.int32), InputKind.INPUT: x}
    arguments = [values[entry.kind] for entry in subject.inputs if entry.node not in subject.bound]
    return generate_function(subject.graph, subject.bound, "test")(*arguments)[0]


def count(subject, target):
    return len(subject.graph.find_nodes(op="call_function", target=target))


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.25, 0.3, 0.5, 2**-24, 1 - 2**-24, 1.0])
def test_the_same_elements_are_kept_and_the_others_are_zero_whatever_they_were(build_program, rate):
    x = torch.randn(400, 300)
    x[::7] = float("inf")
    x[::11] = float("nan")
    plain, subject = (draft(build_program, drop(rate), x) for _ in range(2))
    apply_rules(subject.graph, make_rules(subject))
    subject.graph.lint()
    assert (count(subject, aten.where.self), count(subject, aten.ge.Tensor)) == (0, 0)
    found, wanted = run(subject, x), run(plain, x)
    torch.testing.assert_close(found, wanted, rtol=0, atol=0, equal_nan=True)
    if 0.1 <= rate <= 0.5:
        dropped = float((found == 0).double().mean())
        assert abs(dropped - rate) < 5 * (rate * (1 - rate) / x.numel()) ** 0.5  # five standard deviations


@pytest.mark.parametrize(
    "options", [{"scale": 2.0}, {"shift": 0.5}, {"rest": 1.0}], ids=["scaled", "shifted", "not zero"]
)
def test_other_choices_stay(build_program, options):
    x = torch.randn(4, 3)
    subject = draft(build_program, drop(0.5, **options), x)
    apply_rules(subject.graph, make_rules(subject))
    assert count(subject, aten.where.self) == 1


def test_what_is_written_in_other_formats_stays(build_program):
    x = torch.randn(4, 3, dtype=torch.float64)
    subject = draft(build_program, drop(0.5), x)
    apply_rules(subject.graph, make_rules(subject))
    assert count(subject, aten.where.self) == 1
