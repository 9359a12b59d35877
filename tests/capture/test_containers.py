"""What forward returns comes back in containers of the same classes, with new tensors in them."""

from __future__ import annotations

from collections import OrderedDict, namedtuple
from dataclasses import dataclass
from types import SimpleNamespace

import pytest
import torch
from torch.utils import _pytree as pytree


class Table(dict):
    pass


@dataclass
class Outputs(OrderedDict):
    """One that answers to its keys as attributes, as outputs of Transformers do."""

    loss: torch.Tensor | None = None
    logits: torch.Tensor | None = None

    def __post_init__(self):
        for name in ("loss", "logits"):
            if getattr(self, name) is not None:
                self[name] = getattr(self, name)

    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        super().__setattr__(key, value)


class Row(list):
    pass


class Pair(tuple):
    pass


Point = namedtuple("Point", "x y")


@dataclass(frozen=True)
class Frozen:
    values: torch.Tensor
    name: str = "frozen"


def rebuild(program, start=0.0):
    """Put 0, 1, 2, … where forward returned tensors."""
    tree = program.output_tree
    return pytree.tree_unflatten([tree.host_leaves.get(i, start + i) for i in range(tree.leaves)], tree.spec)


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda x: Table(b=x, a=x + 1), Table(b=0, a=1)),
        (lambda x: Row([x, Row([x + 1])]), Row([0, Row([1])])),
        (lambda x: Pair((x, "label")), Pair((0, "label"))),
        (lambda x: Point(x, Table(z=x)), Point(0, Table(z=1))),
        (lambda x: OrderedDict(b=x, a=Row([x])), OrderedDict(b=0, a=Row([1]))),
        (lambda x: SimpleNamespace(keys=[x], name="k"), SimpleNamespace(keys=[0], name="k")),
    ],
)
def test_containers_keep_their_class_and_order(capture_inference, make, expected):
    found = rebuild(capture_inference(make, torch.ones(2)))
    assert type(found) is type(expected)
    assert found == expected


def test_a_dictionary_with_attributes_has_new_values_under_both(capture_inference):
    found = rebuild(capture_inference(lambda x: Outputs(logits=x), torch.ones(2)))
    assert type(found) is Outputs
    assert dict(found) == {"logits": 0.0}
    assert (found.loss, found.logits) == (None, 0.0)


def test_a_frozen_dataclass_comes_back(capture_inference):
    found = rebuild(capture_inference(lambda x: Frozen(x), torch.ones(2)))
    assert (type(found), found.values, found.name) == (Frozen, 0.0, "frozen")


def test_each_call_gets_containers_of_its_own(capture_inference):
    program = capture_inference(lambda x: SimpleNamespace(values=Row([x])), torch.ones(2))
    first, second = rebuild(program), rebuild(program, 10.0)
    assert (first.values, second.values) == ([0.0], [10.0])


def test_a_container_without_traced_tensors_is_returned_as_it_was(capture_inference):
    kept = Table(a=1)
    assert rebuild(capture_inference(lambda x: (x, kept), torch.ones(2)))[1] is kept


def test_an_object_that_refers_to_itself_is_opened_once(capture_inference):
    def forward(x):
        node = SimpleNamespace(values=x)
        node.parent = node
        return node

    with pytest.warns(UserWarning, match="None is returned in its place"):
        program = capture_inference(forward, torch.ones(2))
    found = rebuild(program)
    assert (found.values, found.parent) == (0.0, None)
