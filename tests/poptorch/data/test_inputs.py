"""Inputs: binding to forward's signature, what must stay the same between calls, and what the device makes of them."""

from collections import UserDict, namedtuple

import pytest
import torch

import poptorch

Pair = namedtuple("Pair", ["left", "right"])


class Call(torch.nn.Module):
    """A module whose forward is any function."""

    def __init__(self, function):
        super().__init__()
        self.forward = function


def quiet():
    return poptorch.Options().showCompilationProgressBar(False)


def wrap(function, options=None):
    return poptorch.inferenceModel(function, options or quiet())


def test_positional_keyword_and_default_arguments_are_one_call():
    def forward(x, y, scale=2, *, shift=1):
        return x * scale + y + shift

    model = wrap(forward)
    x, y = torch.tensor([1.0]), torch.tensor([10.0])
    assert model(x, y) == 13
    assert model(y=y, x=x) == 13
    assert model(x, y, 2, shift=1) == 13


def test_star_arguments_are_bound():
    def forward(*values, **named):
        return sum(values) + named["z"]

    model = wrap(forward)
    one = torch.ones(1)
    assert model(one, one, z=one) == 3
    with pytest.raises(poptorch.Error, match="Number of positional arguments mismatch: expected 2 arguments but got 1"):
        model(one, z=one)
    with pytest.raises(poptorch.Error, match=r"Keys mismatch for .*: Missing arguments: z\."):
        model(one, one)


def test_wrong_calls_are_refused_before_anything_is_compiled():
    model = wrap(lambda a, b: a + b)
    one = torch.ones(1)
    with pytest.raises(AssertionError, match="Too many arguments provided"):
        model(one, one, one)
    with pytest.raises(AssertionError, match=r"Unknown arguments \['c'\]"):
        model(one, one, c=one)
    with pytest.raises(poptorch.Error, match="Mandatory parameter b missing"):
        model(one)
    assert not model.isCompiled()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"x": torch.ones(2)}, r"Shape mismatch for x: expected torch.Size\(\[1\]\) but got torch.Size\(\[2\]\)"),
        ({"x": torch.ones(1).int()}, r"Data type mismatch for x: expected torch.float32 but got torch.int32\."),
        ({"x": None}, "Type mismatch for x: expected .*Tensor.* but got .*NoneType"),
        ({"u": 3}, "Value mismatch for u: expected 5 but got 3"),
        ({"pair": [torch.ones(1)]}, "Length mismatch for pair: expected 2 but got 1"),
        ({"pair": [torch.ones(1), torch.ones(3)]}, r"Shape mismatch for pair\[1\]"),
        ({"table": {}}, r"Keys mismatch for table: Missing arguments: k\."),
        ({"table": {"k": torch.ones(1), "z": 0}}, r"Keys mismatch for table: Unexpected arguments: z\."),
    ],
)
def test_inputs_must_stay_as_they_were_compiled(change, words):
    def forward(x, u, pair, table):
        return x * u + pair[0] + pair[1] + table["k"]

    one = torch.ones(1)
    inputs = {"x": one, "u": 5, "pair": [one, one], "table": {"k": one}}
    model = wrap(forward)
    assert model(**inputs) == 8
    with pytest.raises(poptorch.Error, match=words) as caught:
        model(**{**inputs, **change})
    assert "destroy()" in str(caught.value)
    assert model(**inputs) == 8


def test_destroy_lets_shapes_change():
    model = wrap(lambda x: x + 1)
    assert model(torch.zeros(2)).shape == (2,)
    model.destroy()
    assert not model.isCompiled()
    assert model(torch.zeros(3)).shape == (3,)


def test_nested_inputs_and_dictionaries_in_another_order():
    def forward(pair, table):
        return pair.left - pair.right, table["a"] - table["b"]

    model = wrap(forward)
    one, two = torch.ones(1), torch.full((1,), 2.0)
    assert model(Pair(one, two), {"a": one, "b": two}) == (-1, -1)
    assert model(Pair(two, one), {"b": two, "a": one}) == (1, -1)


@pytest.mark.parametrize("batch", [7, 3])
def test_the_batch_must_divide(batch):
    options = quiet().deviceIterations(2)
    words = (
        rf"Invalid batch dimension: In the input torch.Size\(\[{batch}, 1\]\), the batch dimension \({batch}\) must "
        r"be a multiple of Options.deviceIterations\(2\) \* \(Options.replicationFactor\(1\) / .*\) \* "
        r"Options.Training.gradientAccumulation\(1\) = 2:"
    )
    with pytest.raises(AssertionError, match=words):
        wrap(lambda x: x, options)(torch.zeros(batch, 1))


def test_non_contiguous_inputs_are_read_right_and_told_once(caplog):
    model = wrap(lambda x: x * 2)
    values = torch.arange(6.0).reshape(2, 3).t()
    for _ in range(2):
        assert torch.equal(model(values), values * 2)
    assert caplog.text.count("not contiguous") == 1


def test_inputs_that_require_gradients_are_detached_and_told_once(caplog):
    model = wrap(lambda x: x * 2)
    for _ in range(2):
        assert not model(torch.ones(1, requires_grad=True)).requires_grad
    assert caplog.text.count("Input tensor has requires_grad=True set. This tensor will be detached") == 1


def test_changes_of_inputs_in_place_are_seen_by_the_caller():
    def forward(x, table):
        x += 1
        table["y"][0] = 5
        return x * 2

    model = wrap(forward)
    x, y = torch.zeros(2), torch.zeros(2, dtype=torch.float64)
    for step in (1, 2):
        assert torch.equal(model(x, {"y": y}), torch.full((2,), 2.0 * step))
        assert torch.equal(x, torch.full((2,), float(step)))
        assert y.tolist() == [5, 0]


def test_changes_of_a_non_contiguous_input_reach_its_own_memory():
    def forward(x):
        x.mul_(3)
        return x

    base = torch.ones(2, 4)
    wrap(forward)(base[:, ::2])
    assert base.tolist() == [[3, 1, 3, 1], [3, 1, 3, 1]]


def test_wide_numbers_become_those_of_an_ipu():
    def forward(x, i):
        return x == x.float(), x, i, (i > 1).sum()

    same, x, i, count = wrap(forward)(torch.tensor([550.4], dtype=torch.float64), torch.tensor([1]))
    assert same.item() is True
    assert (x.dtype, i.dtype, count.dtype) == (torch.float32, torch.int32, torch.int32)


@pytest.mark.parametrize(
    ("kind", "groups"),
    [(poptorch.CommGroupType.Consecutive, [0, 0, 1, 1]), (poptorch.CommGroupType.Orthogonal, [0, 1, 0, 1])],
)
def test_replicas_of_a_group_read_the_same_input(kind, groups):
    options = quiet().replicationFactor(4).deviceIterations(2).inputReplicaGrouping(2, kind)
    x = torch.tensor([10.0, 20.0, 30.0, 40.0])  # [device iteration, group]
    expected = [10.0 + 10 * group for group in groups] + [30.0 + 10 * group for group in groups]
    assert wrap(lambda x: x, options)(x).tolist() == expected


def test_an_input_that_is_returned_is_fresh_each_time():
    model = wrap(lambda x: (x, x + 0))
    for value in (1.0, 2.0):
        assert model(torch.tensor([value]))[0].item() == value


def test_forward_runs_once_and_sees_one_micro_batch_on_an_ipu():
    seen = []

    def forward(x):
        seen.append((poptorch.isRunningOnIpu(), x.device.type, tuple(x.shape)))
        return x

    model = wrap(forward, quiet().deviceIterations(3))
    for _ in range(3):
        model(torch.zeros(6, 2))
    assert seen == [(True, "ipu", (2, 2))]
    assert not poptorch.isRunningOnIpu()


class Batch(UserDict):
    pass


class Record:
    def __init__(self, values):
        self.values = values


@pytest.mark.parametrize("make", [lambda x: Batch(x=x), lambda x: Record([x])])
def test_containers_that_are_not_looked_into_are_refused_rather_than_frozen(make):
    with pytest.raises(poptorch.Error, match="holds tensors, and inputs of this type are not looked into"):
        wrap(lambda batch: 1)(make(torch.ones(1)))


def test_functions_written_in_c_can_be_wrapped():
    run = poptorch.inferenceModel(torch.log, poptorch.Options().showCompilationProgressBar(False))
    assert torch.allclose(run(torch.full((3,), 2.0)), torch.full((3,), 2.0).log())
