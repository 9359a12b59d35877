"""Functions that do more than return values: what they write is kept, and they run where nobody reads their results."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from openipu.capture import call_custom_op, call_host, capture_program, register_custom_op
from openipu.errors import CaptureError, InputError
from openipu.graph import EngineMode, OutputKind, RunOptions
from openipu.run import Executable

DECAY = 0.75


def average(inputs, attributes):
    """An exponential moving average: only writes, and returns what nobody reads."""
    online, slow = inputs
    slow.mul_(attributes["decay"]).add_(online * (1 - attributes["decay"]))
    return [slow.clone()]


class Teacher(nn.Module):
    """A student that is trained, and a teacher whose weights follow it."""

    def __init__(self, version: int) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.version = version
        self.student, self.teacher = nn.Linear(2, 2), nn.Linear(2, 2).requires_grad_(False)

    def follow(self):
        for online, slow in zip(self.student.parameters(), self.teacher.parameters(), strict=True):
            call_custom_op("Average", "test.effects", self.version, [online, slow], [slow], {"decay": DECAY})

    def forward(self, x):
        self.follow()
        return nn.functional.mse_loss(self.student(x), self.teacher(x))


class EagerTeacher(Teacher):
    def follow(self):
        with torch.no_grad():
            for online, slow in zip(self.student.parameters(), self.teacher.parameters(), strict=True):
                average([online, slow], {"decay": DECAY})


@pytest.fixture(params=["detected", "declared"])
def version(request):
    register_custom_op("Average", "test.effects", 1, forward=average, backward=lambda *_: [None, None])
    register_custom_op("Average", "test.effects", 2, forward=average, backward=lambda *_: [None, None], writes=[1])
    return {"detected": 1, "declared": 2}[request.param]


@pytest.mark.parametrize("accumulation", [1, 3])
def test_a_custom_op_that_writes_weights_moves_them_in_every_micro_batch(start_training, version, accumulation):
    model, eager = Teacher(version), EagerTeacher(version)
    options = RunOptions(training=True, engine=EngineMode.OPERATORS, gradient_accumulation=accumulation)
    data = torch.randn(4, 2 * accumulation, 2, generator=torch.Generator().manual_seed(1))
    trained = start_training(model, torch.optim.SGD(model.student.parameters(), lr=0.5), (data[0],), options)
    optimizer = torch.optim.SGD(eager.student.parameters(), lr=0.5)
    for batch in data:
        trained.executable.run((batch,))
        optimizer.zero_grad()
        for micro in batch.split(2):
            (eager(micro) / accumulation).backward()
        optimizer.step()
    expected = eager.state_dict()
    before = Teacher(version).state_dict()
    for name, value in trained.read_weights().items():
        torch.testing.assert_close(value, expected[name], atol=1e-6, rtol=1e-5)
        assert not torch.equal(value, before[name]), name


def run_inference(model, *inputs, weights=None):
    program = capture_program(model, inputs, {}, training=False, optimizer=None, name="model")
    executable = Executable(program, RunOptions(engine=EngineMode.OPERATORS))
    named = weights or nn.Module()
    executable.load_weights(dict(named.named_parameters()), dict(named.named_buffers()))
    return program, executable


def test_a_custom_op_writes_buffers_and_inputs_in_inference_too():
    def count(inputs, attributes):
        inputs[0] += 1
        inputs[1].zero_()
        return [inputs[0] * 10]

    register_custom_op("Count", "test.effects", forward=count)

    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("calls", torch.zeros(1))

        def forward(self, x):
            unread = x * 2
            call_custom_op("Count", "test.effects", 1, [self.calls, unread], [self.calls], {})
            return self.calls * 1, unread

    model = Counter()
    program, executable = run_inference(model, torch.ones(2), weights=model)
    assert [entry.name for entry in program.micro.outputs_of(OutputKind.BUFFER)] == ["calls"]
    for expected in (1.0, 2.0, 3.0):
        calls, unread = executable.run((torch.ones(2),)).outputs
        assert calls.item() == expected
        assert unread.tolist() == [0.0, 0.0]
    assert model.calls.item() == 0  # capture left it alone
    executable.read_weights({}, dict(model.named_buffers()))
    assert model.calls.item() == 3


def test_a_write_that_zeros_did_not_show_is_an_error_and_not_lost():
    def clear_large(inputs, attributes):
        if inputs[0].max() > 1:
            inputs[0].zero_()
        return [inputs[0] + 1]

    register_custom_op("Clear", "test.effects", forward=clear_large)
    _, executable = run_inference(
        lambda x: call_custom_op("Clear", "test.effects", 1, [x * 1], [x], {})[0], torch.ones(2)
    )
    assert executable.run((torch.zeros(2),)).outputs[0].tolist() == [1.0, 1.0]
    with pytest.raises(InputError, match=r"Custom op test\.effects\.Clear:1 wrote to one of its inputs.*writes="):
        executable.run((torch.full((2,), 5.0),))


def test_an_op_that_is_said_to_write_an_input_that_it_is_not_given_is_refused():
    register_custom_op("Far", "test.effects", forward=lambda inputs, attributes: [inputs[0] + 1], writes=[2])
    with pytest.raises(CaptureError, match=r"write its inputs \[2\], and is given 1"):
        run_inference(lambda x: call_custom_op("Far", "test.effects", 1, [x], [x], {})[0], torch.ones(2))


def test_trying_a_custom_op_on_zeros_draws_no_random_numbers():
    register_custom_op("Noise", "test.effects", forward=lambda inputs, _: [inputs[0] + torch.rand(2)])
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    run_inference(lambda x: call_custom_op("Noise", "test.effects", 1, [x], [x], {})[0], torch.ones(2))
    assert torch.equal(torch.rand(1), expected)


def test_functions_run_where_nobody_reads_their_results():
    seen = []

    def note(inputs, attributes):
        seen.append(("op", inputs[0].sum().item()))
        return [inputs[0]]

    register_custom_op("Note", "test.effects", forward=note, writes=[])

    def forward(x):
        call_custom_op("Note", "test.effects", 1, [x * 3], [x], {})
        call_host(lambda y: (seen.append(("host", y.sum().item())), y)[1], [x * 5], "note")
        return x + 1

    _, executable = run_inference(forward, torch.ones(2))
    seen.clear()  # of capture, which runs functions of the host on zeros
    executable.run((torch.ones(2),))
    executable.run((torch.ones(2),))
    assert seen == [("op", 6.0), ("host", 10.0)] * 2
