"""Inputs and outputs of the user's own types."""

import collections

import pytest
import torch

import poptorch


class Pair:
    def __init__(self, left, right, label="pair"):
        self.left, self.right, self.label = left, right, label


class Derived(Pair):
    pass


class PairParser(poptorch.ICustomArgParser):
    def yieldTensors(self, struct):
        yield struct.left
        yield struct.right

    def reconstruct(self, original_structure, tensor_iterator):
        return type(original_structure)(next(tensor_iterator), next(tensor_iterator), original_structure.label)


class Adder(torch.nn.Module):
    def forward(self, pair):
        return type(pair)(pair.left + pair.right, pair.left - pair.right)


@pytest.fixture
def registered():
    poptorch.registerCustomArgParser(Pair, PairParser())
    yield
    poptorch.registerCustomArgParser(Pair, None)


def make_model(model):
    return poptorch.inferenceModel(model, poptorch.Options().showCompilationProgressBar(False))


@pytest.mark.parametrize("kind", [Pair, Derived])
def test_a_registered_type_goes_in_and_comes_out(registered, kind):
    executor = make_model(Adder())
    for number in (1.0, 5.0):
        result = executor(kind(torch.tensor([number]), torch.tensor([2.0])))
        assert type(result) is kind
        assert result.left.item() == number + 2
        assert result.right.item() == number - 2


def test_tensors_inside_must_keep_their_shapes(registered):
    executor = make_model(Adder())
    executor(Pair(torch.ones(1), torch.ones(1)))
    with pytest.raises(poptorch.Error, match=r"Shape mismatch for tensors of pair\[1\]"):
        executor(Pair(torch.ones(1), torch.ones(2)))


def test_an_unregistered_type_is_refused_again(registered):
    poptorch.registerCustomArgParser(Pair, None)
    with pytest.raises(poptorch.Error, match="An input of type Pair holds tensors"):
        make_model(Adder())(Pair(torch.ones(1), torch.ones(1)))


def test_only_parsers_can_be_registered():
    with pytest.raises(poptorch.Error, match="arg_parser must inherit from ICustomArgParser"):
        poptorch.registerCustomArgParser(Pair, object())


def test_containers_of_the_users_own_need_no_parser():
    class Settings(collections.OrderedDict):
        pass

    class Model(torch.nn.Module):
        def forward(self, values):
            assert isinstance(values, Settings)
            return values["a"] - values["b"]

    executor = make_model(Model())
    assert executor(Settings(a=torch.tensor([3.0]), b=torch.tensor([1.0]))).item() == 2
    assert executor(Settings(b=torch.tensor([1.0]), a=torch.tensor([9.0]))).item() == 8
