"""Products of one row by native code: the results of eager PyTorch, and weights that can change."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from openipu.capture import capture_program
from openipu.graph import EngineMode, Program, RunOptions
from openipu.run import Executable, thresholds
from openipu.run.drafts.draft import Draft
from openipu.run.drafts.passes import apply_passes
from openipu.run.engine.kernel_choice import list_inference_kernels
from openipu.run.engine.micro import draft_micro
from openipu.run.engine.pass_list import BATCHED
from openipu.run.engine.setting import Setting
from openipu.run.kernels import KernelLibrary
from openipu.run.kernels.catalog import GEMV
from openipu.run.memory.device_memory import DeviceMemory
from openipu.run.rewrites.products import packed_weights
from openipu.run.rewrites.products.gemv import GemvProduct

pytestmark = pytest.mark.slow


class Model(nn.Module):
    """Weights in both orders, with and without a bias; 203 columns and 150 rows fill no vector."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(150, 256), nn.Linear(256, 203, bias=False)
        self.turned, self.offset = nn.Parameter(torch.randn(203, 160) / 16), nn.Parameter(torch.randn(160))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.second(torch.relu(self.first(x)))
        return torch.tanh(x) @ self.turned + self.offset


class Halves(Model):
    """The same with a program that computes in half."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x.half()).float()


def capture(model: nn.Module, x: torch.Tensor) -> Program:
    return capture_program(model, (x,), {}, training=False, optimizer=None, name="model")


def start(model: nn.Module, x: torch.Tensor) -> Executable:
    executable = Executable(capture(model, x), RunOptions(engine=EngineMode.KERNELS))
    executable.load_weights(dict(model.named_parameters()), {})
    return executable


def check(executable: Executable, model: nn.Module, x: torch.Tensor) -> None:
    with torch.no_grad():
        torch.testing.assert_close(executable.run([x]).outputs[0], model(x), rtol=1e-5, atol=1e-5)


def simplify(program: Program, kernels: KernelLibrary | None = None) -> Draft:
    draft, memory = draft_micro(program, RunOptions()), DeviceMemory(program, 1)
    apply_passes(BATCHED, draft, Setting(program, RunOptions(), memory=memory, library=kernels or KernelLibrary()))
    draft.graph.lint()
    return draft


def count_native(draft: Draft) -> int:
    return sum(isinstance(getattr(node.target, "__self__", None), GemvProduct) for node in draft.graph.nodes)


@pytest.fixture(autouse=True)
def kernels(use_kernels: Callable[..., KernelLibrary], monkeypatch: pytest.MonkeyPatch) -> KernelLibrary:
    """The kernel, in the cache of all programs of this module."""
    library = use_kernels(GEMV)
    monkeypatch.setattr(thresholds, "GEMV_ALL_ELEMENTS", 1)
    torch.manual_seed(0)
    return library


def test_native_products_give_what_eager_pytorch_gives() -> None:
    model, x = Model().eval(), torch.randn(1, 150)
    executable = start(model, x)
    check(executable, model, x)
    assert executable.engine_mode is EngineMode.KERNELS


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16])
def test_the_default_format_of_a_program_changes_nothing(dtype: torch.dtype) -> None:
    model, x = Model().eval(), torch.randn(1, 150)
    executable = start(model, x)
    with torch.no_grad():
        expected = model(x)
    torch.set_default_dtype(dtype)
    try:
        found = executable.run([x]).outputs
    finally:
        torch.set_default_dtype(torch.float32)
    torch.testing.assert_close(found, (expected,), rtol=1e-5, atol=1e-5)


def test_the_number_of_threads_does_not_change_a_bit() -> None:
    model, x = Model().eval(), torch.randn(1, 150)
    executable, found = start(model, x), []
    threads = torch.get_num_threads()
    try:
        for count in (1, 3):
            torch.set_num_threads(count)
            found.append(executable.run([x]).outputs[0])
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(*found)


def test_loaded_weights_are_copied_anew() -> None:
    model, x = Model().eval(), torch.randn(1, 150)
    executable = start(model, x)
    check(executable, model, x)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter) / 8)
    executable.load_weights(dict(model.named_parameters()), {})
    check(executable, model, x)


def test_half_weights_are_read_in_float32() -> None:
    model, x = Halves().eval().half(), torch.randn(1, 150)
    found = start(model, x).run([x]).outputs[0]
    with torch.no_grad():
        expected = Model.forward(model.float(), x.half().float())
    torch.testing.assert_close(found, expected, rtol=1e-2, atol=1e-2)


def test_all_products_are_replaced_with_their_biases(kernels: KernelLibrary) -> None:
    program = capture(Model().eval(), torch.randn(1, 150))
    assert list_inference_kernels(simplify(program)) == (GEMV,)
    draft = simplify(program, kernels)
    assert count_native(draft) == 3
    assert not draft.graph.find_nodes(op="call_function", target=torch.ops.aten.add.Tensor)
    draft.drop_unread_weights()
    assert not any(entry.name in ("first.weight", "second.weight", "turned") for entry in draft.inputs)


def test_two_rows_small_programs_and_convolutions_are_left_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model().eval()
    assert not list_inference_kernels(simplify(capture(model, torch.randn(2, 150))))
    images = nn.Sequential(nn.Conv2d(16, 16, 3), nn.Flatten(), nn.Linear(3136, 32))
    assert not list_inference_kernels(simplify(capture(images, torch.randn(1, 16, 16, 16)))).count(GEMV)
    monkeypatch.setattr(thresholds, "GEMV_ALL_ELEMENTS", 1 << 22)
    assert not list_inference_kernels(simplify(capture(model, torch.randn(1, 150))))


def test_copies_end_where_the_host_has_no_room_for_them(
    kernels: KernelLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packed_weights, "_read_host_bytes", lambda: 0)
    draft = simplify(capture(Model().eval(), torch.randn(1, 150)), kernels)
    assert count_native(draft) == 2  # weights that lie as they are read need no copy
