"""What a step does besides computing its result: `self.log`, metrics, lists that it appends to.

In: a step that is captured once, on tensors without values. Out: a `Recording`: the tensors become outputs of the
graph, and `replay` does on the host, after each run and with the values of that run, what the step did when it was
captured.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils import _pytree as pytree

from lightning_graphcore._registration.packages import Package
from lightning_graphcore._steps.guards import GuardedNumber, Guards

_REDUCTIONS: dict[Any, Callable[[torch.Tensor], torch.Tensor]] = {
    "mean": torch.mean, "sum": torch.sum, "max": torch.max, "min": torch.min, "avg": torch.mean,
}  # fmt: skip


@dataclass(frozen=True)
class _Slot:
    """Stands for an output of the graph."""

    index: int


class HostValue:
    """What a metric returns while its step is captured: its value is known on the host, after the run."""

    def __init__(self, event: _MetricEvent, key: str | None = None) -> None:
        self._event, self._key = event, key

    def items(self) -> Iterator[tuple[str, HostValue]]:
        """A collection of metrics returns a dictionary."""
        return ((name, HostValue(self._event, name)) for name in self._event.metric.keys(keep_base=False))

    def keys(self) -> list[str]:
        return [name for name, _ in self.items()]

    def __getitem__(self, key: str) -> HostValue:
        return HostValue(self._event, key)

    def read(self, results: dict[int, Any]) -> Any:
        value = results[id(self._event)]
        return value if self._key is None else value[self._key]

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"A metric is computed on the host, after the step has run, so the step itself has no {name!r} of its "
            "value: log the value as it is, or compute what the step needs from tensors."
        )


@dataclass(eq=False)
class _LogEvent:
    name: str
    value: Any  # a tree with slots
    settings: dict[str, Any]


@dataclass(eq=False)
class _MetricEvent:
    metric: Any
    method: str  # "forward" or "update"
    arguments: Any  # a tree with slots


@dataclass(eq=False)
class _AppendEvent:
    target: list[Any]
    item: Any  # a tree with slots


@dataclass(eq=False)
class Recording:
    """The side effects of one captured step."""

    package: Package
    module: Any
    guards: Guards
    outputs: list[torch.Tensor] = field(default_factory=list)  # while capturing
    sources: list[torch.Tensor] = field(default_factory=list)  # what each output is of
    events: list[Any] = field(default_factory=list)
    constants: list[str] = field(default_factory=list)  # logged numbers that will not change

    def add_log(self, name: str, value: Any, **settings: Any) -> None:
        if isinstance(value, numbers.Number):
            self.constants.append(name)
        self.events.append(_LogEvent(name, self._take(value), {key: self._plain(v) for key, v in settings.items()}))

    def add_metric(self, metric: Any, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        event = _MetricEvent(metric, method, self._take((args, kwargs)))
        self.events.append(event)
        return HostValue(event) if method == "forward" else None

    def add_item(self, target: list[Any], item: Any) -> None:
        self.events.append(_AppendEvent(target, self._take(item)))

    def _take(self, value: Any) -> Any:
        """Tensors of the graph become outputs."""
        return pytree.tree_map(self._take_leaf, value)

    def _take_leaf(self, leaf: Any) -> Any:
        if (isinstance(leaf, torch.Tensor) and leaf.is_meta) or _is_traced(leaf):
            self.sources.append(leaf)
            # A single value may still be changed in place, as in `loss += …` after `self.log("loss", loss)`.
            self.outputs.append(leaf.detach().clone() if leaf.numel() == 1 else leaf)
            return _Slot(len(self.outputs) - 1)
        return leaf

    @staticmethod
    def _plain(value: Any) -> Any:
        return value.decide() if isinstance(value, GuardedNumber) else value

    def replay(self, outputs: Sequence[torch.Tensor], micro_batches: int, call_numbers: Sequence[Any]) -> None:
        """Do on the host what the step did."""
        results: dict[int, Any] = {}
        for event in self.events:
            if isinstance(event, _MetricEvent):
                args, kwargs = _fill(event.arguments, outputs)
                results[id(event)] = getattr(event.metric, event.method)(*args, **kwargs)
            elif isinstance(event, _AppendEvent):
                for index in range(micro_batches):
                    event.target.append(_fill(event.item, [_cut(o, index, micro_batches) for o in outputs]))
            else:
                self._log(event, outputs, micro_batches, call_numbers, results)

    def _log(
        self,
        event: _LogEvent,
        outputs: Sequence[torch.Tensor],
        micro_batches: int,
        call_numbers: Sequence[Any],
        results: dict[int, Any],
    ) -> None:
        settings = dict(event.settings)
        if isinstance(settings.get("batch_size"), int):
            settings["batch_size"] *= micro_batches

        def read(leaf: Any) -> Any:
            if isinstance(leaf, _Slot):
                return self._reduce(event, outputs[leaf.index], micro_batches)
            if isinstance(leaf, HostValue):
                return leaf.read(results)
            return leaf.compute(call_numbers) if isinstance(leaf, GuardedNumber) else leaf

        self.module.log(event.name, pytree.tree_map(read, event.value), **settings)

    def _reduce(self, event: _LogEvent, value: torch.Tensor, micro_batches: int) -> torch.Tensor:
        """The values of all micro-batches of a call as one."""
        if value.numel() != micro_batches:
            raise ValueError(
                f"`self.log({event.name!r}, …)` was called with a tensor of {value.numel() // micro_batches} elements, "
                f"and only single values can be logged. Log its mean: `self.log({event.name!r}, value.mean())`."
            )
        asked = event.settings.get("reduce_fx", "mean")
        function = _REDUCTIONS.get(asked.lower() if isinstance(asked, str) else asked, asked)
        if function is torch.mean and not value.is_floating_point():
            value = value.to(torch.float32)
        found = function(value.reshape(micro_batches)) if callable(function) else value.reshape(micro_batches)[-1]
        return torch.as_tensor(found)


def _is_traced(leaf: Any) -> bool:
    """Inside a capture tensors of the graph say that they live on an IPU."""
    return isinstance(leaf, torch.Tensor) and leaf.device.type in ("ipu", "meta")


def _fill(tree: Any, outputs: Sequence[torch.Tensor]) -> Any:
    return pytree.tree_map(lambda leaf: outputs[leaf.index] if isinstance(leaf, _Slot) else leaf, tree)


def _cut(value: torch.Tensor, index: int, count: int) -> torch.Tensor:
    """The part of one micro-batch."""
    if count == 1:
        return value
    if value.dim() == 1 and value.shape[0] == count:
        return value[index]
    return value.chunk(count)[index]


@contextmanager
def record_side_effects(recording: Recording, *, strict: bool) -> Iterator[None]:
    """Inside the block the module's `log`, its metrics and its lists speak to the recording."""
    module, package = recording.module, recording.package
    base = package.find("core.module.LightningModule")
    original_log = base.log

    def log(self: Any, name: str, value: Any, *args: Any, **settings: Any) -> None:
        if strict:
            raise package.configuration_error(
                f"`self.log({name!r}, …)` is not supported in the step functions with IPUs, because they are traced. "
                "Log in a hook such as `on_train_batch_end`, or leave the strict mode."
            )
        settings.update(zip(_LOG_ARGUMENTS, args, strict=False))
        recording.add_log(name, value, **settings)

    lists = {key: (value, len(value)) for key, value in vars(module).items() if type(value) is list}
    metrics = [] if strict else _list_metrics(module)
    base.log = log
    for metric in metrics:
        for method in ("forward", "update"):
            metric.__dict__[f"_openipu_{method}"] = metric.__dict__.get(method)
            metric.__dict__[method] = _make_metric_method(recording, metric, method)
    try:
        yield
        for target, length in [] if strict else lists.values():
            for item in target[length:]:
                if any(_is_traced(leaf) for leaf in pytree.tree_leaves(item)):
                    recording.add_item(target, item)
    finally:
        base.log = original_log
        for metric in metrics:
            for method in ("forward", "update"):
                before = metric.__dict__.pop(f"_openipu_{method}")
                if before is None:
                    metric.__dict__.pop(method, None)
                else:
                    metric.__dict__[method] = before


_LOG_ARGUMENTS = (
    "prog_bar", "logger", "on_step", "on_epoch", "reduce_fx", "enable_graph", "sync_dist", "sync_dist_group",
    "add_dataloader_idx", "batch_size", "metric_attribute", "rank_zero_only",
)  # fmt: skip


def _list_metrics(module: Any) -> list[Any]:
    try:
        from torchmetrics import Metric, MetricCollection
    except ImportError:
        return []
    return [part for part in module.modules() if isinstance(part, Metric | MetricCollection)]


def _make_metric_method(recording: Recording, metric: Any, method: str) -> Callable[..., Any]:
    return lambda *args, **kwargs: recording.add_metric(metric, method, args, kwargs)
