"""A workload as a program, made with everything or without some passes and kernels.

In: a `Workload`. Out: a `Subject`, which makes executables of it and knows which passes change its graph.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import torch

from bench.gain_workloads import Workload
from openipu.capture import capture_program, describe_optimizer, read_hyper_parameters
from openipu.graph import EngineMode, RunOptions
from openipu.run import Executable, supervisor
from openipu.run.drafts.passes import Pass
from openipu.run.engine import micro
from openipu.run.engine.pass_list import ACCUMULATE_PRODUCTS, BATCH_MICRO_BATCHES, GROUP_UPDATES, list_rules
from openipu.run.kernels import Kernel, KernelLibrary, KernelProvider
from openipu.run.kernels.catalog import KERNELS
from openipu.run.rewrites import simplify

KERNEL = "kernel: "  # in front of the name of a kernel
NAMES = (*list_rules(), *(KERNEL + kernel.name for kernel in KERNELS))


class Kernels(KernelProvider):
    """All kernels of this machine but some."""

    def __init__(self, missing: Iterable[str] = ()) -> None:
        super().__init__()
        self._missing = frozenset(missing)
        self.used: set[str] = set()

    def load(self, kernels: Iterable[Kernel]) -> KernelLibrary:
        given = tuple(kernels)
        found = super().load(given)
        self.used |= {kernel.name for kernel in given if kernel in found}
        return found.select(kernel for kernel in found if kernel.name not in self._missing)

    def obtain(self, kernels: Iterable[Kernel]) -> KernelLibrary:
        return super().obtain([kernel for kernel in kernels if kernel.name not in self._missing])

    def explain_failure(self, kernel: Kernel) -> str | None:
        return "left out" if kernel.name in self._missing else super().explain_failure(kernel)


class Subject:
    """A workload that was captured, and what changes its graph."""

    def __init__(self, workload: Workload) -> None:
        torch.manual_seed(0)
        self.model = workload.build().train(workload.training)
        self.options = RunOptions(
            training=workload.training, random_seed=1, **{"engine": EngineMode.KERNELS, **workload.options}
        )
        inputs = workload.make_inputs()
        if workload.half:
            self.model.half()
            inputs = tuple(value.half() if value.is_floating_point() else value for value in inputs)
        spec, self.values = None, {}
        if workload.training:
            optimizer = getattr(torch.optim, workload.optimizer)(self.model.parameters(), lr=1e-4)
            names = {id(value): name for name, value in self.model.named_parameters()}
            spec = describe_optimizer(optimizer, names)
            self.values = read_hyper_parameters(optimizer, spec)
        self.program = capture_program(
            self.model, inputs, {}, training=workload.training, optimizer=spec, name=workload.name
        )
        batches = self.options.micro_batches
        self.leaves = tuple(torch.cat([value] * batches) for value in inputs)
        self.changes = self._list_changes()

    def make(self, *without: str) -> Executable:
        """With everything but some passes and kernels, and run once."""
        kernels = Kernels(name.removeprefix(KERNEL) for name in without if name.startswith(KERNEL))
        return self._make(kernels, frozenset(without).intersection(list_rules()))

    def _make(self, kernels: Kernels, without: frozenset[str] = frozenset()) -> Executable:
        options = dataclasses.replace(self.options, without_rules=without)
        executable = Executable(self.program, options, kernels)
        executable.load_weights(dict(self.model.named_parameters()), dict(self.model.named_buffers()))
        executable.set_hyper_parameters(self.values)
        self.result = executable.run(self.leaves)
        return executable

    def _list_changes(self) -> set[str]:
        kernels = Kernels()
        with watch_passes() as changed:
            executable = self._make(kernels)
        if executable.engine.factor > 1:
            changed.add(BATCH_MICRO_BATCHES)
        if self.options.training:
            changed.add(GROUP_UPDATES)
        if "add gradients to their accumulators" in changed:
            changed.add(ACCUMULATE_PRODUCTS)
        return changed | {KERNEL + name for name in kernels.used}


@contextmanager
def watch_passes() -> Iterator[set[str]]:
    """The names of the passes that change a draft."""
    changed: set[str] = set()

    def describe(draft: Any) -> list[Any]:
        return [(node, node.target, node.args, node.kwargs) for node in draft.graph.nodes]

    def apply(passes: Sequence[Pass[Any]], draft: Any, setting: Any, without: Any = ()) -> None:
        for entry in passes:
            if entry.when(setting) and (entry.needed or entry.name not in without):
                before = describe(draft)
                entry.apply(draft, setting)
                changed.update({entry.name} if describe(draft) != before else ())

    with ExitStack() as stack:
        for module in (micro, supervisor, simplify):
            stack.enter_context(mock.patch.object(module, "apply_passes", apply))
        yield changed
