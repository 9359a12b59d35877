"""Steps with optimizers of their own: `automatic_optimization = False`, one optimizer or several.

In: a `training_step` that calls `manual_backward` and `optimizer.step()` while it is captured. Out: `ManualSteps`:
which loss each update follows. A program has one update, so a step with several becomes as many programs, run one
after the other: each runs the whole step on the weights that the earlier ones left, and updates those of one optimizer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from lightning_graphcore._registration.packages import Package
from openipu.capture import find_active


@dataclass(eq=False)
class _Update:
    """One call of `optimizer.step()`."""

    optimizer: int
    losses: list[torch.Tensor]
    position: int  # nodes in the graph when it was called
    clipping: tuple[float, bool] | None


@dataclass(eq=False)
class ManualSteps:
    """What a manual step asked of its optimizers."""

    package: Package
    optimizers: list[Any]  # Lightning's own wrappers
    updates: list[_Update] = field(default_factory=list)
    schedules: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = field(default_factory=list)
    open_losses: dict[int, list[torch.Tensor]] = field(default_factory=dict)
    clipping: dict[int, tuple[float, bool]] = field(default_factory=dict)
    output_sections: list[int] = field(default_factory=list)
    result_sections: list[int] = field(default_factory=list)

    def find(self, optimizer: Any) -> int:
        """The number of an optimizer, which may come with or without Lightning's wrapper."""
        plain = getattr(optimizer, "_optimizer", optimizer)
        for index, known in enumerate(self.optimizers):
            if known._optimizer is plain:
                return index
        raise self.package.configuration_error(
            "`training_step` steps an optimizer that `configure_optimizers` did not return. Take it from "
            "`self.optimizers()`."
        )

    def add_backward(self, loss: torch.Tensor) -> None:
        for index in range(len(self.optimizers)):
            self.open_losses.setdefault(index, []).append(loss)

    def add_update(self, index: int) -> None:
        losses = self.open_losses.get(index)
        if not losses:
            raise self.package.configuration_error(
                f"`training_step` steps optimizer {index} without a `self.manual_backward(loss)` before it in the same "
                "step. Gradients are not kept from call to call: use `Trainer(accumulate_grad_batches=…)`, or the "
                "gradientAccumulation option of the training options."
            )
        self.updates.append(_Update(index, list(losses), _count_nodes(), self.clipping.pop(index, None)))

    def clear(self, index: int) -> None:
        self.open_losses[index] = []

    def choose_loss(self, update: int) -> torch.Tensor:
        if not self.updates:
            raise self.package.configuration_error(
                "`training_step` optimizes manually and steps no optimizer. Gradients are not kept from call to call: "
                "call `optimizer.step()` in every step, and use gradientAccumulation to accumulate."
            )
        losses = self.updates[update].losses
        return sum(losses[1:], losses[0])

    def place(self, outputs: Sequence[torch.Tensor], results: Sequence[torch.Tensor]) -> None:
        """Which program knows each output: the one before whose update it was computed."""
        capture = find_active()
        if capture is None:
            return
        positions = {node: index for index, node in enumerate(capture.recorder.graph.nodes)}

        def find_section(tensor: torch.Tensor) -> int:
            position = positions.get(capture.recorder.node_of(tensor), 0)
            return min(sum(update.position <= position for update in self.updates), len(self.updates) - 1)

        self.output_sections = [find_section(tensor) for tensor in outputs]
        self.result_sections = [find_section(tensor) for tensor in results]

    def forget_tensors(self) -> None:
        """The capture is over."""
        self.open_losses.clear()
        for update in self.updates:
            update.losses.clear()

    def replay(self) -> None:
        """After a run: let Lightning count the updates, and let schedulers step."""
        for update in self.updates:
            optimizer = self.optimizers[update.optimizer]
            optimizer._on_before_step()
            optimizer._on_after_step()
        for scheduler, args, kwargs in self.schedules:
            scheduler.step(*args, **kwargs)


class _RecordedSchedule:
    """A scheduler as the captured step sees it."""

    def __init__(self, steps: ManualSteps, scheduler: Any) -> None:
        self._steps, self._scheduler = steps, scheduler

    def step(self, *args: Any, **kwargs: Any) -> None:
        self._steps.schedules.append((self._scheduler, args, kwargs))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._scheduler, name)


@contextmanager
def record_optimizers(package: Package, module: Any) -> Iterator[ManualSteps]:
    """Inside the block optimizers, `manual_backward` and schedulers only take note."""
    steps = ManualSteps(package, list(module.trainer.strategy._lightning_optimizers))
    wrapper = package.find("core.optimizer.LightningOptimizer")
    base = package.find("core.module.LightningModule")
    find_schedulers = base.lr_schedulers

    def step(self: Any, closure: Any = None, **kwargs: Any) -> None:
        if closure is not None:
            closure()
        steps.add_update(steps.find(self))

    def clip(self: Any, optimizer: Any, gradient_clip_val: Any = None, gradient_clip_algorithm: Any = None) -> None:
        if gradient_clip_val:
            by_norm = str(getattr(gradient_clip_algorithm, "value", gradient_clip_algorithm or "norm")) == "norm"
            steps.clipping[steps.find(optimizer)] = (float(gradient_clip_val), by_norm)

    def list_schedulers(self: Any) -> Any:
        found = find_schedulers(self)
        if isinstance(found, list):
            return [_RecordedSchedule(steps, scheduler) for scheduler in found]
        return None if found is None else _RecordedSchedule(steps, found)

    patches = [
        (wrapper, "step", step),
        (wrapper, "zero_grad", lambda self, *args, **kwargs: steps.clear(steps.find(self))),
        (base, "manual_backward", lambda self, loss, *args, **kwargs: steps.add_backward(loss)),
        (base, "toggle_optimizer", lambda self, optimizer: None),
        (base, "untoggle_optimizer", lambda self, optimizer: None),
        (base, "clip_gradients", clip),
        (base, "lr_schedulers", list_schedulers),
    ]
    missing = object()
    before = [(owner, name, vars(owner).get(name, missing)) for owner, name, _ in patches]
    for owner, name, replacement in patches:
        setattr(owner, name, replacement)
    try:
        yield steps
    finally:
        for owner, name, original in before:
            if original is missing:
                delattr(owner, name)
            else:
                setattr(owner, name, original)


def _count_nodes() -> int:
    capture = find_active()
    return 0 if capture is None else len(capture.recorder.graph.nodes)
