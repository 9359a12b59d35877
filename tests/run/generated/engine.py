"""Runs a generated case in eager PyTorch and in the engine, and counts which passes change its graphs.

This module alone knows how the engine lists its passes, where its kernels come from, and below which sizes passes
leave a graph as it is.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import torch

from generated.case import Case
from openipu.capture import capture_program, describe_optimizer, mark_loss, read_hyper_parameters
from openipu.graph import EngineMode, RunOptions
from openipu.run import Executable, split_micro_batch, supervisor, thresholds
from openipu.run.drafts.passes import Pass
from openipu.run.engine import micro
from openipu.run.kernels import find_provider
from openipu.run.kernels.catalog import DIRECT_CONVOLUTION, KERNELS
from openipu.run.rewrites import simplify
from openipu.run.rewrites.products import onednn_products, weight_gradients

Values = dict[str, torch.Tensor]

STEPS = 2
_HALF_ROUNDING = 2.0**-11  # relative
# Without these a graph does not run at all, or draws other random numbers.
_NEEDED = frozenset(
    {
        *("add taps", "keep what a run needs", "count gradients for the loss scale", "own outputs"),
        *("read weights of earlier updates", "round as the options say", "sample from the seed"),
        *("add gradients to their accumulators", "weigh gradients", "update as soon as a gradient is there"),
        *("check arithmetic", "simplify", "widen half products", "remove no-operations"),
        *("shorten conversions", "remove dead code"),
    }
)
# Below these sizes an optimization is not worth its overhead: here, graphs are small.
_SIZES = {
    "CROSS_ENTROPY_ELEMENTS": 8,
    "REUSED_ELEMENTS": 4,
    "WEIGHT_GRADIENT_WORK": 64,
    "WEIGHT_GRADIENT_DEPTH": 2,
    "WEIGHT_GRADIENT_SIDE": 2,
    "ONEDNN_WEIGHT_ELEMENTS": 8,
    "ONEDNN_WORK": 16,
    "ONEDNN_ROW_WORK": 8,
    "GELU_ELEMENTS": 8,
    "NORM_CHANNELS": 2,
    "NORM_PLANE": 4,
    "NORM_ELEMENTS": 8,
    "CHANNELS_LAST_WORK": 1,
    "CHANNELS_LAST_COPIED": 10.0,
    "CONVOLUTION_VECTOR": 1,
    "PACKED_CONVOLUTION_WORK": 1,
    "WINOGRAD_WINDOWS": 1,
    "WINOGRAD_STRIP_WINDOWS": 1,
    "WINOGRAD_WORK": 1,
    "WINOGRAD_COMPILATION_WORK": 1,
    "GEMV_WEIGHT_ELEMENTS": 1,
    "GEMV_ALL_ELEMENTS": 1,
    "LSTM_WORK": 1,
    "WINOGRAD_USE": 0.01,
    "UPDATED_ALONE_ELEMENTS": 24,
}


class Watch:
    """Counts the cases in which each pass changed a graph, and leaves out those that are skipped."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()  # by the start of the message
        self.skipped: Collection[str] = ()
        self.only: Collection[str] | None = None  # beside those that are needed
        self.counting = True
        self._changed: set[str] = set()

    def begin(self) -> None:
        self._changed = set()

    def end(self) -> None:
        if self.counting:
            self.counts.update(self._changed)

    def runs(self, name: str) -> bool:
        return name not in self.skipped and (self.only is None or name in self.only)

    def note(self, name: str, draft: Any, before: list[Any]) -> None:
        if _describe(draft) != before:
            self._changed.add(name)

    def apply(self, passes: Sequence[Pass[Any]], draft: Any, setting: Any, without: Collection[str] = ()) -> None:
        """What stands for the engine's own loop over its passes."""
        for entry in passes:
            if entry.when(setting) and self.runs(entry.name):
                before = _describe(draft)
                entry.apply(draft, setting)
                self.note(entry.name, draft, before)


def _describe(draft: Any) -> list[Any]:
    return [(node, node.target, node.args, node.kwargs) for node in draft.graph.nodes]


@contextmanager
def watch_passes() -> Iterator[Watch]:
    """Count what passes do, and let them work on small graphs, too."""
    watch = Watch()
    with ExitStack() as stack:
        for module in (micro, supervisor, simplify):
            stack.enter_context(mock.patch.object(module, "apply_passes", watch.apply))
        for name, size in _SIZES.items():
            stack.enter_context(mock.patch.object(thresholds, name, size))
        for module, choice in ((weight_gradients, "prefers_other_products"), (onednn_products, "_prefers_onednn")):
            stack.enter_context(mock.patch.object(module, choice, return_value=True))
        yield watch


def list_passes() -> list[str]:
    """The names of all passes, in order."""
    from openipu.run.engine.pass_list import BATCHED, BOUND, MICRO

    names = [entry.name for entry in (*MICRO, *BATCHED, *BOUND)]
    place = names.index("simplify") + 1
    return [*names[:place], *(entry.name for entry in simplify.PASSES), *names[place:]]


def install_kernels() -> None:
    """Compile the kernels that programs share into the user's cache, where all programs find them from here on."""
    shared = [kernel for kernel in KERNELS if kernel is not DIRECT_CONVOLUTION]  # which knows its geometry
    assert len(find_provider().obtain(shared).select(shared)) == len(shared)


def run_eagerly(case: Case, dtype: torch.dtype, noise: float = 0.0, seed: int = 0) -> Values:
    """Outputs, weights and buffers after some steps of eager PyTorch, by name; with `noise`, a share of each gradient,
    and of half models as much as rounding takes of what each layer returns, to tell what becomes of that."""
    generator = torch.Generator().manual_seed(seed)
    model = case.build(lambda loss: loss)
    before = _copy(model.state_dict())
    model = model.to(dtype)
    if noise and case.half:
        _disturb_layers(model, generator)
    options = dict(case.options)
    steps = options.get("gradient_accumulation", 1) * options.get("replicas", 1)
    pieces = case.batches
    found: Values = {}
    optimizer = make_optimizer(case, model) if case.training else None
    for step in range(STEPS):
        results: list[list[torch.Tensor]] = []
        whole = case.make_inputs(step, dtype)
        for number in range(pieces):
            part = [_cut(value, number, pieces) for value in whole]
            # A gradient is computed from the value at the time it was saved, as in a captured graph.
            with torch.set_grad_enabled(case.training):
                outputs = model(*part)
            results.append([value.detach().clone() for value in outputs])
            if optimizer is not None:
                (outputs[0] / steps).backward()
                if number % steps == steps - 1:
                    _add_noise(model, noise, generator)
                    optimizer.step()
                    optimizer.zero_grad()
        found |= {f"step {step} output {place}": _join(each) for place, each in enumerate(zip(*results, strict=True))}
    if optimizer is not None:
        for name, parameter in model.named_parameters():
            for role, value in optimizer.state.get(parameter, {}).items():
                if isinstance(value, torch.Tensor) and value.dim():
                    found[f"state {role}:{name}"] = value
    return found | _name_changes(before, model.state_dict(), dict(case.options).get("replicas", 1))


def _disturb_layers(model: torch.nn.Module, generator: torch.Generator) -> None:
    def disturb(layer: torch.nn.Module, given: Any, value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        return value * (1 + _HALF_ROUNDING * torch.randn(value.shape, generator=generator).to(value.dtype))

    for layer in model.children():
        layer.register_forward_hook(disturb)


def _add_noise(model: torch.nn.Module, share: float, generator: torch.Generator) -> None:
    for parameter in model.parameters() if share else ():
        if parameter.grad is not None:
            noise = torch.randn(parameter.grad.shape, generator=generator).to(parameter.grad.dtype)
            parameter.grad += share * noise * parameter.grad.abs().amax() if parameter.grad.numel() else 0


def _cut(value: torch.Tensor, number: int, pieces: int) -> torch.Tensor:
    size = value.shape[0] // pieces if pieces > 1 else 0
    return value[number * size : (number + 1) * size] if size else value


def _join(values: Sequence[torch.Tensor]) -> torch.Tensor:
    if len(values) == 1:
        return values[0]
    return torch.cat([value.reshape(1) if not value.dim() else value for value in values])


def make_optimizer(case: Case, model: torch.nn.Module) -> torch.optim.Optimizer:
    found: torch.optim.Optimizer = eval(case.optimizer, {"torch": torch, "parameters": model.parameters()})
    return found


def run_engine(case: Case) -> Values:
    """The same by the engine."""
    model = case.build(lambda loss: mark_loss(loss, "none"))
    before = _copy(model.state_dict())
    mode = EngineMode.KERNELS if len(find_provider().library) else EngineMode.OPERATORS
    options = RunOptions(training=case.training, **dict(case.options), random_seed=7, engine=mode)
    leaves = [split_micro_batch(value, options) for value in case.make_inputs(0)]
    spec = optimizer = None
    if case.training:
        optimizer = make_optimizer(case, model)
        spec = describe_optimizer(optimizer, {id(value): name for name, value in model.named_parameters()})
        spec = dataclasses.replace(spec, **dict(case.spec))
    captured = capture_program(model, tuple(leaves), {}, training=case.training, optimizer=spec, name="generated")
    executable = Executable(captured, options)
    parameters, buffers = dict(model.named_parameters()), dict(model.named_buffers())
    executable.load_weights(parameters, buffers)
    if optimizer is not None and spec is not None:
        executable.set_hyper_parameters(read_hyper_parameters(optimizer, spec))
    kept: Values = {}
    for step in range(STEPS):
        outputs = executable.run(tuple(case.make_inputs(step))).outputs
        kept |= {f"step {step} output {place}": value for place, value in enumerate(outputs)}
    executable.read_weights(parameters, buffers)
    state = {f"state {key}": value for key, value in executable.state.items() if value.dim()}
    # A later step must not write over what an earlier one returned.
    return kept | state | _name_changes(before, model.state_dict(), dict(case.options).get("replicas", 1))


def _copy(values: Mapping[str, torch.Tensor]) -> Values:
    return {name: value.detach().clone() for name, value in values.items()}


def _name_changes(before: Mapping[str, torch.Tensor], after: Mapping[str, torch.Tensor], replicas: int) -> Values:
    """How far the steps moved each weight and buffer."""
    return {
        f"change of {name}": value.detach().double() - before[name].double()
        for name, value in after.items()
        if value.is_floating_point() and not (replicas > 1 and "running" in name)  # each replica has its own
    }
