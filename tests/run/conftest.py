"""Programs for these tests: from plain functions, and from models through capture."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from openipu.capture import capture_program, describe_optimizer, read_hyper_parameters
from openipu.graph import (
    Graph,
    GraphInput,
    GraphOutput,
    InputKind,
    OutputKind,
    OutputTree,
    Program,
    RunOptions,
)
from openipu.run import Executable, split_micro_batch
from openipu.run.drafts.draft import Draft
from openipu.run.drafts.passes import apply_passes
from openipu.run.engine import micro, pass_list
from openipu.run.kernels import Kernel, KernelLibrary, find_provider
from openipu.run.kernels.compiler import find_compiler

sys.path.insert(0, str(Path(__file__).parent))  # for the helpers beside the tests

BuildProgram = Callable[..., Program]


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Tiny tensors gain nothing from threads, and lose much on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(params=[1, 2, 3], ids=lambda count: f"{count} threads")
def threads(request: pytest.FixtureRequest) -> None:
    """Several numbers of threads; `_one_thread` puts it right again."""
    torch.set_num_threads(request.param)


@pytest.fixture
def bound_drafts(monkeypatch: pytest.MonkeyPatch) -> list[Draft]:
    """Each draft of a micro-batch behind all passes."""
    drafts: list[Draft] = []

    def note(passes: Any, draft: Draft, *others: Any) -> None:
        apply_passes(passes, draft, *others)
        if passes is pass_list.BOUND:
            drafts.append(draft)

    monkeypatch.setattr(micro, "apply_passes", note)
    return drafts


@pytest.fixture(autouse=True)
def _own_kernels(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache without kernels, and so a provider without any, for each test."""
    directory = tmp_path_factory.mktemp("cache")
    directory.chmod(0o700)
    monkeypatch.setenv("OPENIPU_CACHE_DIR", str(directory))


@pytest.fixture(scope="session")
def kernel_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Caches of kernels that tests share, one for each set of kernels."""
    return tmp_path_factory.mktemp("kernels")


@pytest.fixture
def use_kernels(kernel_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., KernelLibrary]:
    """Let programs find some kernels in their cache, and no others; says which these are."""

    def use(*kernels: Kernel) -> KernelLibrary:
        if find_compiler() is None:
            pytest.skip("needs a C++ compiler")
        directory = kernel_folder / ("-".join(kernel.source for kernel in kernels) or "none")
        directory.mkdir(mode=0o700, exist_ok=True)
        monkeypatch.setenv("OPENIPU_CACHE_DIR", str(directory))
        return find_provider().obtain(kernels).select(kernels)

    return use


@pytest.fixture
def build_program() -> BuildProgram:
    """An inference program from a function of parameters, buffers and inputs (one micro-batch of each)."""

    def build(
        function: Callable[..., Sequence[torch.Tensor]],
        *,
        parameters: Mapping[str, torch.Tensor] | None = None,
        buffers: Mapping[str, torch.Tensor] | None = None,
        inputs: Mapping[str, torch.Tensor] | None = None,
        returns: Sequence[tuple[OutputKind, str]],
        host_leaves: Mapping[int, Any] | None = None,
    ) -> Program:
        named = [
            *((InputKind.PARAMETER, name, value, -1) for name, value in (parameters or {}).items()),
            *((InputKind.BUFFER, name, value, -1) for name, value in (buffers or {}).items()),
            *((InputKind.INPUT, name, value, index) for index, (name, value) in enumerate((inputs or {}).items())),
        ]
        examples = [value for _, _, value, _ in named]
        module = make_fx(function, tracing_mode="fake")(*examples)
        results = function(*examples)
        for node in module.graph.nodes:  # capture leaves meta tensors, not fake ones
            if isinstance(node.meta.get("val"), torch.Tensor):
                value = node.meta["val"]
                node.meta["val"] = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")
        placeholders = module.graph.find_nodes(op="placeholder")
        graph_inputs = tuple(
            GraphInput(node.name, kind, name, tuple(value.shape), value.dtype, index)
            for node, (kind, name, value, index) in zip(placeholders, named, strict=True)
        )
        leaves = iter(index for index in range(100) if index not in (host_leaves or {}))
        graph_outputs = tuple(
            GraphOutput(
                kind,
                name,
                tuple(value.shape),
                value.dtype,
                next(leaves) if kind is OutputKind.OUTPUT else -1,
            )
            for (kind, name), value in zip(returns, results, strict=True)
        )
        count = sum(kind is OutputKind.OUTPUT for kind, _ in returns) + len(host_leaves or {})
        spec = pytree.tree_flatten([0] * count)[1]
        return Program(
            name="test",
            micro=Graph(module, graph_inputs, graph_outputs),
            update=None,
            constants={},
            output_tree=OutputTree(spec, dict(host_leaves or {})),
        )

    return build


@dataclass(frozen=True)
class Trained:
    """A model under training: the executable and how to read its weights back."""

    model: nn.Module
    executable: Executable
    hyper_parameters: dict[str, float]

    def read_weights(self) -> dict[str, torch.Tensor]:
        self.executable.read_weights(dict(self.model.named_parameters()), dict(self.model.named_buffers()))
        return {name: value.detach().clone() for name, value in self.model.state_dict().items()}


@pytest.fixture
def start_training() -> Callable[..., Trained]:
    """Capture a training step of a model and load its weights."""

    def start(
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        leaves: Sequence[torch.Tensor],
        options: RunOptions,
        max_grad_norm: float | None = None,
    ) -> Trained:
        spec = describe_optimizer(optimizer, {id(value): name for name, value in model.named_parameters()})
        spec = dataclasses.replace(spec, max_grad_norm=max_grad_norm)
        micro = tuple(split_micro_batch(leaf, options) for leaf in leaves)
        program = capture_program(model, micro, {}, training=True, optimizer=spec, name=type(model).__name__)
        executable = Executable(program, options)
        executable.load_weights(dict(model.named_parameters()), dict(model.named_buffers()))
        values = read_hyper_parameters(optimizer, spec)
        executable.set_hyper_parameters(values)
        return Trained(model, executable, values)

    return start
