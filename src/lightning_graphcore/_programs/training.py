"""The programs of the training stage: they share weights and optimizer state, one of them is on the device.

In: calls of `training_step`. Out: updated weights. There is one PopTorch executor; what it has compiled is exchanged
for what another variant of the step needs, and weights and state go through the host.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

import poptorch
from lightning_graphcore._programs.optimizer_state import read_state, write_state
from lightning_graphcore._programs.stage import StagePrograms, Variant
from lightning_graphcore._programs.training_optimizer import TrainingOptimizer
from lightning_graphcore._registration.packages import Package
from lightning_graphcore._steps.step_module import StepModule, StepRequest
from lightning_graphcore.precision import Clipping
from openipu.graph import OutputKind

# What belongs to one compiled program in an executor.
_SLOT_NAMES = ("_compiled", "_compiled_inputs", "_weights", "_optimizer", "_ipus", "_result", "_detached_rng_state")


@dataclass(eq=False)
class _Slot:
    """One program of the executor, on the device or not."""

    contents: dict[str, Any]
    optimizer: int


class TrainingPrograms(StagePrograms):
    """Trains with one optimizer, or with several where a manual step uses them."""

    training = True

    def __init__(
        self,
        package: Package,
        model: StepModule,
        options: poptorch.Options,
        optimizers: Sequence[torch.optim.Optimizer],
        strict: bool,
    ) -> None:
        super().__init__(package, model, "training_step", options, strict)
        self.optimizers = list(optimizers)
        self.clipping = Clipping()
        self.executor = poptorch.trainingModel(model, self.prepare_options(options), self.optimizers[0])
        self._keepers: dict[int, Any] = {}
        self._active = self._make_slot(0)
        self._install(self._active)
        self._pending_state = [bool(optimizer.state) for optimizer in self.optimizers]
        self.pending_rng_state: list[int] | None = None
        self._written_versions: tuple[int, ...] | None = None
        self._watch_downloads()

    def read_structure(self) -> tuple[Any, ...]:
        if self.strict:
            return ()
        with torch._C.DisableTorchFunctionSubclass():
            frozen = tuple(parameter.requires_grad for parameter in _list_parameters(self.model))
        groups = tuple(tuple(len(group["params"]) for group in optimizer.param_groups) for optimizer in self.optimizers)
        return (super().read_structure(), frozen, groups, self.clipping)

    def compile(self, request: StepRequest, options: poptorch.Options, inputs: Sequence[torch.Tensor]) -> list[Any]:
        try:
            slots = [self._compile_program(request, 0, inputs)]
        except Exception:  # a manual step may begin with another optimizer: the capture has told which
            if request.manual is None or not request.manual.updates or request.manual.updates[0].optimizer == 0:
                raise
            slots = [self._compile_program(request, 0, inputs)]
        if request.manual is None:
            return slots
        if not self._suits(slots[0], request):
            slots = [self._compile_program(request, 0, inputs)]
        if len(request.manual.updates) > 1:
            self._check_manual(options)
        slots += [self._compile_program(request, update, inputs) for update in range(1, len(request.manual.updates))]
        return slots

    def _suits(self, slot: _Slot, request: StepRequest) -> bool:
        assert request.manual is not None
        clipping = slot.contents["_optimizer"].clipping
        return slot.optimizer == request.manual.updates[0].optimizer and clipping == self._find_clipping(request, 0)

    def _find_clipping(self, request: StepRequest, update: int) -> Clipping:
        asked = None if request.manual is None else request.manual.updates[update].clipping
        return self.clipping if asked is None else Clipping(*asked)

    def _compile_program(self, request: StepRequest, update: int, inputs: Sequence[torch.Tensor]) -> _Slot:
        number = 0 if request.manual is None else request.manual.updates[update].optimizer
        slot = self._make_slot(number)
        slot.contents["_optimizer"].clipping = self._find_clipping(request, update)
        self._switch(slot, carry_random_state=update == 0)
        request.update = update
        self.executor.compile(*inputs)
        slot.contents = self._read_contents()
        return slot

    def _check_manual(self, options: poptorch.Options) -> None:
        compiled = self.executor._compiled
        assert compiled is not None
        if compiled.program.micro.outputs_of(OutputKind.BUFFER):
            raise self.package.configuration_error(
                "`training_step` makes several updates and changes buffers, such as the running statistics of a "
                "BatchNorm. It runs once for each update, so the buffers would change too often. Use a norm without "
                "running statistics (GroupNorm, LayerNorm), or one optimizer with several parameter groups."
            )
        if options.device_iterations > 1:
            raise self.package.configuration_error(
                f"`training_step` makes several updates and device_iterations is {options.device_iterations}. Updates "
                "of several optimizers take turns, which one call can only do once: set device_iterations to 1."
            )

    def execute(self, variant: Variant, inputs: Sequence[torch.Tensor]) -> tuple[Any, list[torch.Tensor]]:
        self._upload_if_changed()
        results = []
        several = len(variant.programs) > 1
        random_state: Any = None
        for index, slot in enumerate(variant.programs):
            self._switch(slot, carry_random_state=index == 0)
            self._prepare(slot)
            if several:  # every program of a step draws the same numbers
                random_state = self._align_random_state(random_state)
            results.append(self.executor(*inputs))
        return results[0] if not several else self._merge(variant, results)

    def _align_random_state(self, earlier: Any) -> Any:
        if self.options.exists("random_seed"):
            if earlier is None:
                return self.executor.rng_state
            self.executor.rng_state = earlier
        else:
            if earlier is None:
                return torch.get_rng_state()
            torch.set_rng_state(earlier)
        return earlier

    def _merge(self, variant: Variant, results: list[Any]) -> tuple[Any, list[torch.Tensor]]:
        """Each value from the program that computed it with the weights of that moment."""
        manual = variant.request.manual
        assert manual is not None
        extras = [results[section][1][index] for index, section in enumerate(manual.output_sections)]
        leaves = [pytree.tree_leaves(output) for output, _ in results]
        spec = pytree.tree_structure(results[0][0])
        sections = iter(manual.result_sections)
        chosen = [
            leaves[next(sections)][index] if isinstance(leaf, torch.Tensor) else leaf
            for index, leaf in enumerate(leaves[0])
        ]
        return pytree.tree_unflatten(chosen, spec), extras

    def _prepare(self, slot: _Slot) -> None:
        optimizer = self.optimizers[slot.optimizer]
        if self._pending_state[slot.optimizer]:
            self._pending_state[slot.optimizer] = False
            write_state(self.executor, optimizer)
        if self.pending_rng_state is not None:
            self.executor.rng_state, self.pending_rng_state = self.pending_rng_state, None
        self.executor.setOptimizer(optimizer)

    def load_states(self) -> None:
        """Optimizers were given state, by a checkpoint: the device has it from the next call on."""
        self._pending_state = [True for _ in self.optimizers]

    def pull_state(self, number: int | None = None) -> None:
        """Write the device's optimizer state into the optimizers, as PyTorch itself keeps it."""
        slots = {slot.optimizer: slot for variant in self.variants for slot in variant.programs}
        slots[self._active.optimizer] = self._active
        for index, optimizer in enumerate(self.optimizers):
            if index in slots and number in (None, index) and not self._pending_state[index]:
                compiled = slots[index].contents["_compiled"] if slots[index] is not self._active else None
                read_state(self.executor, optimizer, compiled)

    def read_random_state(self) -> list[int] | None:
        """Where a stream of the program's own stands; None where it draws from PyTorch's global one."""
        if not self.options.exists("random_seed") or not self.executor.isCompiled():
            return None
        return self.executor.rng_state

    def _make_slot(self, number: int) -> _Slot:
        executor, optimizer = self.executor, self.optimizers[number]
        made = TrainingOptimizer(executor._model, optimizer, executor._options, executor.copyWeightsToHostIfNeeded)
        made.trains_rest = self.strict
        keeper = self._keepers.setdefault(number, made._keeper)
        made._keeper = keeper
        return _Slot({**dict.fromkeys(_SLOT_NAMES), "_optimizer": made, "_ipus": 1}, number)

    def _read_contents(self) -> dict[str, Any]:
        return {name: getattr(self.executor, name) for name in _SLOT_NAMES}

    def _install(self, slot: _Slot) -> None:
        for name, value in slot.contents.items():
            setattr(self.executor, name, value)
        self._active = slot

    def _switch(self, slot: _Slot, carry_random_state: bool) -> None:
        """Exchange what is on the device."""
        if slot is self._active:
            return
        executor = self.executor
        if executor.isCompiled():
            if executor.isAttachedToDevice():
                if carry_random_state and self.options.exists("random_seed"):
                    self.pending_rng_state = executor.rng_state
                executor.detachFromDevice()
            self._active.contents = self._read_contents()
        self._install(slot)
        if executor.isCompiled():
            executor.attachToDevice()

    def _watch_downloads(self) -> None:
        """Remember how often each weight was written when the host last had the device's values."""
        download = self.executor.copyWeightsToHost

        def copy_and_remember() -> None:
            download()
            self._written_versions = self._list_versions()

        self.executor.copyWeightsToHost = copy_and_remember  # type: ignore[method-assign]

    def _list_versions(self) -> tuple[int, ...]:
        with torch._C.DisableTorchFunctionSubclass():
            return tuple(parameter._version for parameter in _list_parameters(self.model))

    def _upload_if_changed(self) -> None:
        """Callbacks may write weights on the host: the device gets what they wrote."""
        if self._written_versions is None or not self.executor.isCompiled() or not self.executor.isAttachedToDevice():
            return
        now = self._list_versions()
        if now != self._written_versions:
            self.executor.copyWeightsToHostIfNeeded()
            self.executor.copyWeightsToDevice()
            self._written_versions = self._list_versions()

    def detach(self) -> None:
        if self.executor.isCompiled() and self.executor.isAttachedToDevice():
            self.executor.detachFromDevice()

    def destroy(self) -> None:
        self.pull_state()
        self.executor.destroy()
        self.model_destroy()
        self.variants.clear()
        self.current = None

    def model_destroy(self) -> None:
        """An executor that never compiled leaves the model wrapped."""
        destroy = getattr(self.model, "destroy", None)
        if callable(destroy):
            destroy()


def _list_parameters(model: StepModule) -> list[torch.nn.Parameter]:
    return list(model.__dict__["_modules"]["model"].parameters())
