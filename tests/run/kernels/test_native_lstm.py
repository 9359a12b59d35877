"""LSTM layers of inference by native code: the results of eager PyTorch, and weights that can change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from openipu.capture import capture_program
from openipu.graph import EngineMode, Program, RunOptions
from openipu.run import Executable, thresholds
from openipu.run.drafts.draft import Draft
from openipu.run.drafts.onednn_lstm import LSTM_ONEDNN
from openipu.run.drafts.passes import apply_passes
from openipu.run.engine.kernel_choice import list_inference_kernels
from openipu.run.engine.micro import draft_micro
from openipu.run.engine.pass_list import BATCHED
from openipu.run.engine.setting import Setting
from openipu.run.kernels import KernelLibrary
from openipu.run.kernels.catalog import LSTM
from openipu.run.memory.device_memory import DeviceMemory
from openipu.run.rewrites.recurrent.lstm_kernel import LstmLayer

pytestmark = pytest.mark.slow

STEPS, BATCH, FEATURES = 9, 17, 12  # 17 samples: no number of rows divides them
HIDDEN = 40  # does not fill its last block of 16


class Model(nn.Module):
    """Two layers, in both directions, from states that are given."""

    def __init__(self, hidden: int = HIDDEN, **options: Any) -> None:
        super().__init__()
        self.layer = nn.LSTM(FEATURES, hidden, 2, bidirectional=True, **options)

    def forward(self, source: torch.Tensor, first: torch.Tensor, cell: torch.Tensor) -> tuple[torch.Tensor, ...]:
        output, (last, cells) = self.layer(source, (first, cell))
        return output, last, cells


def make_inputs(steps: int = STEPS, batch: int = BATCH, hidden: int = HIDDEN) -> tuple[torch.Tensor, ...]:
    states = (torch.randn(4, batch, hidden), 3 * torch.randn(4, batch, hidden))
    return (4 * torch.randn(steps, batch, FEATURES), *states)


def capture(model: nn.Module, inputs: tuple[torch.Tensor, ...]) -> Program:
    return capture_program(model, inputs, {}, training=False, optimizer=None, name="model")


def start(model: nn.Module, inputs: tuple[torch.Tensor, ...]) -> Executable:
    executable = Executable(capture(model, inputs), RunOptions(engine=EngineMode.KERNELS))
    executable.load_weights(dict(model.named_parameters()), dict(model.named_buffers()))
    return executable


def check(executable: Executable, model: nn.Module, inputs: tuple[torch.Tensor, ...]) -> None:
    with torch.no_grad():
        expected = model(*inputs)
    for found, wanted in zip(executable.run(list(inputs)).outputs, expected, strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-6)


def count_native(draft: Draft) -> int:
    return sum(isinstance(getattr(node.target, "__self__", None), LstmLayer) for node in draft.graph.nodes)


@pytest.fixture(autouse=True)
def kernels(use_kernels: Callable[..., KernelLibrary], monkeypatch: pytest.MonkeyPatch) -> KernelLibrary:
    """The kernel, in the cache of all programs of this module."""
    library = use_kernels(LSTM)
    monkeypatch.setattr(thresholds, "LSTM_WORK", 1)
    torch.manual_seed(0)
    return library


@pytest.mark.parametrize("bias", [True, False])
def test_native_layers_give_what_eager_pytorch_gives(bias: bool) -> None:
    model, inputs = Model(bias=bias).eval(), make_inputs()
    executable = start(model, inputs)
    check(executable, model, inputs)
    assert executable.engine_mode is EngineMode.KERNELS


@pytest.mark.parametrize(("steps", "batch", "hidden"), [(1, 1, 3), (5, 1, 64), (2, 6, 16), (3, 13, 33)])
def test_any_number_of_steps_samples_and_units(steps: int, batch: int, hidden: int) -> None:
    model, inputs = Model(hidden).eval(), make_inputs(steps, batch, hidden)
    check(start(model, inputs), model, inputs)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16])
def test_the_default_format_of_a_program_changes_nothing(dtype: torch.dtype) -> None:
    model, inputs = Model().eval(), make_inputs()
    executable = start(model, inputs)
    with torch.no_grad():
        expected = model(*inputs)
    torch.set_default_dtype(dtype)
    try:
        found = executable.run(list(inputs)).outputs
    finally:
        torch.set_default_dtype(torch.float32)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


def test_the_number_of_threads_does_not_change_a_bit() -> None:
    model, inputs = Model(64).eval(), make_inputs(hidden=64)
    executable, found = start(model, inputs), []
    threads = torch.get_num_threads()
    try:
        for count in (1, 2, 3):  # samples are shared out by two threads, units by three
            torch.set_num_threads(count)
            found.append(executable.run(list(inputs)).outputs)
    finally:
        torch.set_num_threads(threads)
    for results in zip(*found, strict=True):
        assert all(torch.equal(results[0], other) for other in results[1:])


def test_loaded_weights_are_packed_anew() -> None:
    model, inputs = Model().eval(), make_inputs()
    executable = start(model, inputs)
    check(executable, model, inputs)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter) / 4)
    executable.load_weights(dict(model.named_parameters()), {})
    check(executable, model, inputs)


def test_large_numbers_saturate_and_what_is_no_number_stays_so() -> None:
    model, inputs = Model().eval(), make_inputs()
    inputs[0][0], inputs[0][1, 0] = 1e30, float("nan")
    executable = start(model, inputs)
    with torch.no_grad():
        expected = model(*inputs)
    for found, wanted in zip(executable.run(list(inputs)).outputs, expected, strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-6, equal_nan=True)


@pytest.mark.parametrize("weight", [0.5, float("inf"), float("nan")])
def test_a_first_state_of_zeros_adds_what_eager_pytorch_adds(weight: float) -> None:
    model, (source, first, cell) = Model().eval(), make_inputs(steps=2)
    with torch.no_grad():
        model.layer.weight_hh_l0[3, 5] = weight  # times zero: nothing, unless it is no finite number
    inputs = (source, torch.zeros_like(first), cell)
    executable = start(model, inputs)
    with torch.no_grad():
        expected = model(*inputs)
    for found, wanted in zip(executable.run(list(inputs)).outputs, expected, strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-6, equal_nan=True)


def test_sequences_of_any_order_in_memory_are_read_as_they_lie() -> None:
    model, (source, *states) = Model().eval(), make_inputs()
    for order in ((1, 0, 2), (2, 1, 0)):
        inputs = (source.permute(order).contiguous().permute(order), *states)
        check(start(model, inputs), model, inputs)


def test_every_held_layer_is_replaced_and_its_weights_are_read_packed_alone(kernels: KernelLibrary) -> None:
    model, inputs = Model().eval(), make_inputs()
    program = capture(model, inputs)
    draft = draft_micro(program, RunOptions())
    apply_passes(BATCHED, draft, Setting(program, RunOptions()))
    assert list_inference_kernels(draft) == (LSTM,)
    memory = DeviceMemory(program, 1)
    draft = draft_micro(program, RunOptions())
    apply_passes(BATCHED, draft, Setting(program, RunOptions(), memory=memory, library=kernels))
    assert count_native(draft) == 4
    assert not draft.graph.find_nodes(op="call_function", target=LSTM_ONEDNN)
    draft.drop_unread_weights()
    assert not any("weight" in entry.name for entry in draft.inputs)


def test_small_layers_are_not_worth_a_compilation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    program = capture(Model().eval(), make_inputs(1, 1))
    draft = draft_micro(program, RunOptions())
    apply_passes(BATCHED, draft, Setting(program, RunOptions()))
    assert not list_inference_kernels(draft)


def test_half_layers_are_computed_in_float32(kernels: KernelLibrary) -> None:
    model, inputs = Model().eval(), make_inputs()
    halves = tuple(value.half() for value in inputs)
    executable = start(model.half(), halves)
    with torch.no_grad():
        expected = model.float()(*(value.float() for value in halves))
    for found, wanted in zip(executable.run(list(halves)).outputs, expected, strict=True):
        assert found.dtype is torch.float16
        torch.testing.assert_close(found.float(), wanted, rtol=2e-3, atol=2e-3)
