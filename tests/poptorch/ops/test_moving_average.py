"""`ExpMovAvg`: weights that follow others move once a weight update."""

import copy

import pytest
import torch

import openipu
import poptorch
from openipu.errors import ExportError
from openipu.graph import Phase
from openipu.machine import Provenance

RATE, FACTOR = 0.5, 0.75


class Follower(torch.nn.Module):
    """A teacher that follows its student, as DINO's does."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.student, self.teacher = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2).requires_grad_(False)

    def forward(self, x, factor):
        for followed, average in zip(self.student.parameters(), self.teacher.parameters(), strict=True):
            poptorch.custom_op([followed, average, factor], "ExpMovAvg", "com.acme", 1, [followed])
        return poptorch.identity_loss((self.student(x) - self.teacher(x)).square().mean(), "none")


def make_options(*, accumulation=1, replicas=1):
    options = poptorch.Options().showCompilationProgressBar(False).replicationFactor(replicas)
    options.Training.gradientAccumulation(accumulation)
    return options.outputMode(poptorch.OutputMode.All)


def train(options, calls=3):
    """The losses of all micro-batches and the weights at the end."""
    model = Follower()
    training = poptorch.trainingModel(model, options, torch.optim.SGD(model.student.parameters(), lr=RATE))
    count = options.Training.gradient_accumulation * options.replication_factor
    losses = [training(*inputs).flatten().tolist() for inputs in list_inputs(count, calls)]
    training.copyWeightsToHost()
    return [loss for call in losses for loss in call], model, training


def list_inputs(count, calls):
    values = torch.linspace(-1, 1, calls * count * 2).view(calls, count, 2)
    return [(x, torch.full((count,), FACTOR)) for x in values]


def train_by_hand(count, calls=3):
    """Plain PyTorch: the teacher that all micro-batches see is the old one, and so is the student that it follows."""
    model, losses = Follower(), []
    optimizer = torch.optim.SGD(model.student.parameters(), lr=RATE)
    for x, _ in list_inputs(count, calls):
        followed = copy.deepcopy(model.student)
        optimizer.zero_grad()
        for row in x:
            loss = (model.student(row) - model.teacher(row)).square().mean()
            losses.append(loss.item())
            (loss / count).backward()
        optimizer.step()
        for old, average in zip(followed.parameters(), model.teacher.parameters(), strict=True):
            average.data.copy_(FACTOR * average + (1 - FACTOR) * old)
    return losses, model


@pytest.mark.parametrize(("accumulation", "replicas"), [(1, 1), (3, 1), (2, 2)])
def test_a_teacher_moves_once_an_update_however_many_micro_batches_there_are(accumulation, replicas):
    losses, model, _ = train(make_options(accumulation=accumulation, replicas=replicas))
    expected, twin = train_by_hand(accumulation * replicas)
    assert losses == pytest.approx(expected, rel=1e-5)
    for name, value in twin.state_dict().items():
        assert torch.allclose(model.state_dict()[name], value, rtol=1e-5, atol=1e-6), name


def test_the_move_is_planned_once_an_update_and_not_guessed():
    _, _, training = train(make_options(accumulation=3), calls=1)
    plan = training._compiled.plan
    moves = [op for op in plan.ops if op.line is not None and "test_moving_average" in op.line.file]
    moved = [op for op in moves if op.phase is Phase.UPDATE]
    # Of each weight: average * factor, followed * (1 - factor), their sum; 1 - factor may be shared.
    assert len([op for op in moved if op.op.startswith("aten.mul")]) == 4
    assert not any(op.op.startswith("aten.mul") and op.phase is Phase.FORWARD for op in moves)
    assert not any(op.provenance is Provenance.GUESSED for op in moved)


class Inferring(Follower):
    def forward(self, x, factor):
        poptorch.custom_op([self.student.bias, self.teacher.bias, factor], "ExpMovAvg", "com.acme", 1, [x])
        return self.teacher(x)


def test_without_training_it_moves_after_every_iteration():
    model = Inferring()
    first, second = model.teacher.bias.clone(), None
    inference = poptorch.inferenceModel(model, make_options().deviceIterations(2))
    results = inference(torch.zeros(2, 2), torch.full((2,), FACTOR))
    second = FACTOR * first + (1 - FACTOR) * model.student.bias
    assert torch.allclose(results, torch.stack([first, second]), rtol=1e-6)


class Trained(Follower):
    def __init__(self):
        super().__init__()
        self.teacher.requires_grad_(True)


class Twice(Follower):
    def forward(self, x, factor):
        super().forward(x, factor)
        return super().forward(x, factor)


class Elsewhere(Follower):
    def forward(self, x, factor):
        poptorch.custom_op([x, x * 2, factor], "ExpMovAvg", "com.acme", 1, [x])
        return poptorch.identity_loss(self.student(x).mean(), "none")


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (Trained, "the optimizer trains it as well"),
        (Twice, "student.weight|teacher.weight is moved twice"),
        (Elsewhere, "Only a parameter of the model"),
    ],
)
def test_what_cannot_be_moved_so_is_refused(kind, said):
    model = kind()
    training = poptorch.trainingModel(model, make_options(), torch.optim.SGD(model.parameters(), lr=RATE))
    with pytest.raises(poptorch.Error, match=said):
        training(torch.zeros(1, 2), torch.ones(1))


def test_a_file_with_accumulation_cannot_move_weights_and_is_not_written(tmp_path):
    for accumulation in (1, 2):
        training = train(make_options(accumulation=accumulation), calls=1)[2]
        if accumulation == 1:
            report = openipu.export_program(training, tmp_path / "once.py")
            assert [entry.what for entry in report.comparisons] == ["outputs", "weights after 3 updates"]
        else:
            with pytest.raises(ExportError, match=r"moves teacher\.weight once an update"):
                openipu.export_program(training, tmp_path / "accumulated.py")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["once.pt", "once.py"]


def test_on_the_host_it_moves_at_once():
    model = Follower()
    expected = FACTOR * model.teacher.weight + (1 - FACTOR) * model.student.weight
    model(torch.zeros(1, 2), torch.tensor([FACTOR]))
    assert torch.allclose(model.teacher.weight, expected)


def test_a_program_that_moves_weights_runs_from_a_file(tmp_path):
    options = make_options(accumulation=2)
    model = Follower()
    training = poptorch.trainingModel(model, options, torch.optim.SGD(model.student.parameters(), lr=RATE))
    inputs = list_inputs(2, 1)[0]
    training.compile(*inputs)
    training.save(str(tmp_path / "follower.poptorch"))
    loaded = poptorch.load(str(tmp_path / "follower.poptorch"))
    loaded(*inputs)
    loaded.copyWeightsToHost()
    assert torch.allclose(loaded.model.teacher.weight, train_by_hand(2, 1)[1].teacher.weight, rtol=1e-5)
