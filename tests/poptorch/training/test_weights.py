"""Weights on two sides: the host's copy is fresh whenever somebody looks, at one copy for each dirty period."""

import copy
import io
import pickle

import pytest
import torch
from torch import nn

import poptorch


def quiet():
    return poptorch.Options().showCompilationProgressBar(False)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)
        self.scale = nn.Parameter(torch.ones(2))
        self.register_buffer("steps", torch.zeros(1))

    def forward(self, x):
        self.steps += 1
        y = self.layer(x) * self.scale
        return y, poptorch.identity_loss(y, "mean")


@pytest.fixture
def trained():
    """A model, its executor after one call, and the list of copies to the host."""
    model = Net()
    executor = poptorch.trainingModel(model, quiet(), torch.optim.SGD(model.parameters(), lr=0.1))
    copies = []
    original = executor.copyWeightsToHost

    def count():
        copies.append(1)
        original()

    executor.copyWeightsToHost = count
    executor(torch.ones(1, 2))
    return model, executor, copies


TOUCHES = {
    "a parameter's values": lambda model, weight: weight.data,
    "str": lambda model, weight: str(weight),
    "torch.equal": lambda model, weight: torch.equal(weight, torch.zeros(2, 2)),
    "state_dict": lambda model, weight: model.state_dict(),
    "named_parameters": lambda model, weight: list(model.named_parameters()),
    "a buffer": lambda model, weight: model.steps.item(),
    "a call on the host": lambda model, weight: model(torch.ones(1, 2)),
    "a call of a child": lambda model, weight: model.layer(torch.ones(1, 2)),
    "pickle": lambda model, weight: pickle.dumps(model),
    "deepcopy": lambda model, weight: copy.deepcopy(model),
    "an inference executor": lambda model, weight: poptorch.inferenceModel(model, quiet())(torch.ones(1, 2)),
}


@pytest.mark.parametrize("touch", TOUCHES.values(), ids=TOUCHES.keys())
def test_the_first_look_copies_once_and_the_second_not_at_all(trained, touch):
    model, executor, copies = trained
    weight = model.__dict__["_modules"]["layer"].weight  # a reference that was held before
    executor(torch.ones(1, 2))
    executor(torch.ones(1, 2))
    assert copies == []
    touch(model, weight)
    assert copies == [1]
    touch(model, weight)
    assert copies == [1]
    executor(torch.ones(1, 2))
    touch(model, weight)
    assert copies == [1, 1]


def test_what_is_read_is_what_was_trained(trained):
    model, executor, _ = trained
    reference = Net()
    with torch.no_grad():
        for ours, theirs in zip(model.parameters(), reference.parameters(), strict=True):
            theirs.copy_(ours)
    optimizer = torch.optim.SGD(reference.parameters(), lr=0.1)
    for _ in range(3):
        executor(torch.ones(1, 2))
        optimizer.zero_grad()
        reference(torch.ones(1, 2))[1].backward()
        optimizer.step()
    assert torch.allclose(model.layer.weight, reference.layer.weight, atol=1e-6)
    assert torch.allclose(model.scale, reference.scale, atol=1e-6)
    assert model.steps == 4


def test_saved_weights_and_models_need_no_poptorch(trained):
    model, executor, _ = trained
    state = model.state_dict()
    assert {type(value) for value in state.values()} == {torch.Tensor}
    file = io.BytesIO()
    torch.save(executor.state_dict(), file)
    file.seek(0)
    assert torch.equal(torch.load(file)["scale"], model.scale)
    assert b"poptorch" not in pickle.dumps(model.state_dict())
    again = pickle.loads(pickle.dumps(model))
    assert type(again) is Net
    assert type(again.scale) is nn.Parameter
    assert type(again.steps) is torch.Tensor


def test_the_model_changes_its_class_while_it_is_wrapped(trained):
    model, executor, _ = trained
    assert type(model).__name__ == "PoptorchNet"
    assert isinstance(model, Net)
    assert isinstance(model.scale, nn.Parameter)
    with pytest.raises(
        RuntimeError, match=r"Model has already been wrapped in 'poptorch.trainingModel'. Call model.destr"
    ):
        poptorch.trainingModel(model)
    with pytest.raises(RuntimeError, match="already been wrapped"):
        poptorch.trainingModel(executor)
    model.destroy()
    assert type(model) is Net
    assert type(model.scale) is nn.Parameter
    assert type(model.steps) is torch.Tensor
    assert not executor.isCompiled()
    poptorch.trainingModel(model, quiet())(torch.ones(1, 2))


def test_a_model_that_was_never_compiled_can_be_unwrapped():
    model = Net()
    poptorch.trainingModel(model)
    model.destroy()
    assert type(model) is Net


def test_destroy_keeps_what_was_trained_and_a_later_call_goes_on(trained):
    model, executor, copies = trained
    before = copy.deepcopy(model.state_dict())
    executor(torch.ones(1, 2))
    executor.destroy()
    assert copies == [1, 1]
    assert not torch.equal(model.scale, before["scale"])
    executor(torch.ones(2, 2))
    assert type(model).__name__ == "PoptorchNet"
    assert model.steps == 3


def test_inference_follows_training_of_the_same_or_a_larger_model():
    inner = nn.Linear(2, 2)

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = inner

        def forward(self, x):
            return poptorch.identity_loss(self.inner(x), "mean")

    outer = Outer()
    inference = poptorch.inferenceModel(inner, quiet())
    x = torch.ones(1, 2)
    first = inference(x)
    training = poptorch.trainingModel(outer, quiet(), torch.optim.SGD(outer.parameters(), lr=0.1))
    training(x)
    second = inference(x)
    assert not torch.equal(first, second)
    assert torch.allclose(second, inner(x))
    training(x)
    training.destroy()
    assert torch.allclose(inference(x), inner(x))
    assert not torch.equal(inference(x), second)


def test_changes_on_the_host_reach_the_device_when_told():
    model = nn.Linear(1, 1, bias=False)
    inference = poptorch.inferenceModel(model, quiet())
    x = torch.ones(1, 1)
    with torch.no_grad():
        model.weight.fill_(2)
        assert inference(x) == 2
        model.weight.fill_(3)
    assert inference(x) == 2
    inference.copyWeightsToDevice()
    assert inference(x) == 3
    inference.load_state_dict({"weight": torch.full((1, 1), 4.0)})
    assert inference(x) == 4


def test_copying_to_the_device_discards_what_it_trained(trained):
    model, executor, copies = trained
    before = model.scale.detach().clone()
    executor(torch.ones(1, 2))
    executor.copyWeightsToDevice()
    assert torch.equal(model.scale, before)
    assert copies == [1]
    executor.copyWeightsToHost()
    assert torch.equal(model.scale, before)


def test_detaching_reads_back_and_attaching_writes_again(trained):
    model, executor, copies = trained
    assert executor.isAttachedToDevice()
    with pytest.raises(poptorch.Error, match="Device is already attached"):
        executor.attachToDevice()
    executor.detachFromDevice()
    assert copies == [1]
    assert not executor.isAttachedToDevice()
    with pytest.raises(poptorch.Error, match="Device is not attached"):
        executor.detachFromDevice()
    with torch.no_grad():
        model.scale.fill_(0)
    executor(torch.ones(1, 2))  # attaches by itself, and writes the host's weights
    assert executor.isAttachedToDevice()
    assert model.scale.abs().max() < 0.5


def test_inference_keeps_its_buffers_on_the_device():
    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.zeros(1))

        def forward(self, x):
            self.count += 1
            return x + self.count

    model = Counter()
    inference = poptorch.inferenceModel(model, quiet().updatableNamedBuffers(["count"]))
    assert [inference(torch.zeros(1)).item() for _ in range(3)] == [1, 2, 3]
    assert model.count == 0
    inference.copyWeightsToHost()
    assert model.count == 3
    model.count.fill_(10)
    inference.copyNamedBuffersToDevice()
    assert inference(torch.zeros(1)) == 11


def test_tied_parameters_stay_tied():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False)
            self.second.weight = self.first.weight

        def forward(self, x):
            return poptorch.identity_loss(self.second(self.first(x)), "mean")

    model = Tied()
    before = model.first.weight.detach().clone()
    poptorch.trainingModel(model, quiet(), torch.optim.SGD(model.parameters(), lr=0.1))(torch.ones(1, 2))
    assert model.first.weight is model.second.weight
    assert not torch.equal(model.first.weight, before)


def test_buffers_must_be_plain_tensors():
    class Odd(torch.Tensor):
        pass

    model = nn.Linear(1, 1)
    model.register_buffer("odd", torch.ones(1).as_subclass(Odd))
    with pytest.raises(poptorch.Error, match="has to be a plain"):
        poptorch.trainingModel(model)


def test_weights_of_two_executors_meet_in_one_op():
    models = [Net(), Net()]
    models[1].load_state_dict(models[0].state_dict())
    for model in models:
        poptorch.trainingModel(model, quiet(), torch.optim.SGD(model.parameters(), lr=0.1))(torch.ones(1, 2))
    assert torch.equal(models[0].scale, models[1].scale)
    assert not torch.equal(models[0].scale, torch.ones(2))


def test_weights_are_printed_as_they_always_were(trained):
    model, _, _ = trained
    assert "Poptorch" not in repr(model.scale)
    assert repr(model.scale) == repr(nn.Parameter(model.scale.detach().clone()))
