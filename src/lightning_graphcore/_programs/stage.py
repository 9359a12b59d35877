"""The programs of one stage: as many as the step turns out to need.

In: calls of a step. Out: its results. A call that no compiled program can serve (other shapes, a number that decides a
branch the other way, an attribute that changed) is captured anew; what was compiled stays for the next such call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

import poptorch
from lightning_graphcore._registration.packages import Package
from lightning_graphcore._steps.calls import Call, open_call
from lightning_graphcore._steps.guards import Check, GuardedNumber
from lightning_graphcore._steps.results import count_results, reduce_loss, select_results
from lightning_graphcore._steps.step_module import RequestHolder, StepModule, StepRequest
from poptorch.dataloader import count_loaded_micro_batches

PROGRAM_LIMIT = 16  # of one stage: more are a sign of a step that changes all the time


@dataclass(eq=False)
class Variant:
    """One captured step, with the program (or, for manual steps, the programs) that it became."""

    request: StepRequest
    structure: tuple[Any, ...]  # of the module
    options: poptorch.Options  # as the user gave them, or for a short batch
    programs: list[Any]  # executors, or slots of one

    def serves(self, call: Call, structure: tuple[Any, ...], options: poptorch.Options) -> bool:
        return (
            options is self.options
            and structure == self.structure
            and self.request.call.is_like(call)
            and self.request.guards.find_broken(call.numbers) is None
        )


class StagePrograms:
    """Compiles and runs one step."""

    training = False

    def __init__(self, package: Package, model: StepModule, step: str, options: poptorch.Options, strict: bool) -> None:
        self.package, self.model, self.step, self.options, self.strict = package, model, step, options, strict
        self.variants: list[Variant] = []
        self.current: Variant | None = None

    @property
    def holder(self) -> RequestHolder:
        return self.model.__dict__["holder"]  # type: ignore[no-any-return]

    def run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """One call: find or compile its program, run it, do what the step does besides."""
        call = open_call(args, kwargs)
        options = self.choose_options(call)
        variant = self._find(call, options) or self._capture(call, options)
        self.current = variant
        if variant.request.skipped:
            return None
        output, extras = self.execute(variant, self._list_inputs(variant, call))
        if self.strict:
            return output
        count = count_results(options, self.training)
        assert variant.request.recording is not None
        variant.request.recording.replay(extras, count, call.numbers)
        if variant.request.manual is not None:
            variant.request.manual.replay()
        selected = select_results(output, variant.request.dimensions, options, self.training)
        return reduce_loss(output, selected, options) if self.training else selected

    def choose_options(self, call: Call) -> poptorch.Options:
        return self.options

    def prepare_options(self, options: poptorch.Options) -> poptorch.Options:
        """A copy that brings the results of every micro-batch back: logs and metrics need them."""
        if self.strict:
            return options
        copied: poptorch.Options = options.clone()
        copied.outputMode(poptorch.OutputMode.All)
        return copied

    def read_structure(self) -> tuple[Any, ...]:
        """What decides a graph and is neither an argument nor an attribute that a step reads."""
        if self.strict:
            return ()
        return tuple(module.training for module in self.model.lightning_module.modules())

    def execute(self, variant: Variant, inputs: Sequence[torch.Tensor]) -> tuple[Any, list[torch.Tensor]]:
        raise NotImplementedError

    def compile(self, request: StepRequest, options: poptorch.Options, inputs: Sequence[torch.Tensor]) -> list[Any]:
        raise NotImplementedError

    def _find(self, call: Call, options: poptorch.Options) -> Variant | None:
        structure = self.read_structure()
        if self.current is not None and self.current.serves(call, structure, options):
            return self.current
        return next((variant for variant in self.variants if variant.serves(call, structure, options)), None)

    def _capture(self, call: Call, options: poptorch.Options) -> Variant:
        if len(self.variants) >= PROGRAM_LIMIT:
            raise self.package.configuration_error(self._describe_changes(call))
        request = self._start_request(call)
        while True:
            variant = Variant(request, self.read_structure(), options, [])
            self.holder.request = request
            try:
                variant.programs = self.compile(request, options, self._list_inputs(variant, call))
            except Exception as error:
                if request.skipped:
                    break
                request = self._start_again(request, call, error)
                continue
            finally:
                self.holder.request = None
            break
        self._finish(request)
        self.variants.append(variant)
        return variant

    def _start_again(self, request: StepRequest, call: Call, error: BaseException) -> StepRequest:
        """A request that gives the step its numbers as it needs them, or the error."""
        wanted = request.guards.tensor_numbers | set(request.tensor_numbers)
        if len(wanted) > len(request.tensor_numbers):
            return self._start_request(call, tuple(sorted(wanted)))
        if request.plain_numbers or not _mentions_numbers(error):
            raise error
        made = self._start_request(call)
        made.plain_numbers = True
        return made

    def _start_request(self, call: Call, tensor_numbers: tuple[int, ...] = ()) -> StepRequest:
        if self.strict:
            tensor_numbers = tuple(range(len(call.numbers)))
        return StepRequest(self.package, call, self.step, self.training, self.strict, tensor_numbers)

    def _finish(self, request: StepRequest) -> None:
        """Let go of data and of tensors of the capture, and say what will not change."""
        request.call = _forget_data(request.call)
        recording = request.recording
        if recording is None:
            return
        recording.outputs.clear()
        recording.sources.clear()
        if request.manual is not None:
            request.manual.forget_tensors()
        if recording.constants and request.guards.host_reads:
            names = ", ".join(repr(name) for name in dict.fromkeys(recording.constants))
            sources = ", ".join(sorted(request.guards.host_reads))
            self.package.warn(
                f"`{self.step}` logs {names} as a Python number and reads {sources}: the "
                " number is the one of the first call, because the step is compiled. Log it in a hook such as "
                "`on_train_batch_end`."
            )

    def _list_inputs(self, variant: Variant, call: Call) -> list[torch.Tensor]:
        """Tensors, then the numbers that are inputs, once for each micro-batch."""
        repeats = count_loaded_micro_batches(variant.options)
        numbers = [torch.tensor([call.numbers[index]]).repeat(repeats) for index in variant.request.tensor_numbers]
        return [*call.tensors, *numbers]

    def _describe_changes(self, call: Call) -> str:
        latest = self.variants[-1].request
        broken: Check | None = latest.guards.find_broken(call.numbers)
        if not latest.call.is_like(call):
            what = f"shapes or other values in the batch (last {latest.call.shapes}, now {call.shapes})"
        elif broken is not None:
            what = f"`{broken.subject}`, which the step reads or branches on (it was {broken.expected!r})"
        else:
            what = "the training mode of a module"
        return (
            f"`{self.step}` was compiled {PROGRAM_LIMIT} times, because something in it keeps changing: {what}. "
            "Compile once: pass the value as a tensor, keep shapes equal (drop_last=True), or move this code into a "
            "hook."
        )


class InferencePrograms(StagePrograms):
    """Each program has an executor of its own; all read the weights that training changes."""

    def __init__(self, package: Package, model: StepModule, step: str, options: Any, strict: bool) -> None:
        super().__init__(package, model, step, options, strict)
        self.executor = poptorch.inferenceModel(model, self.prepare_options(options))
        self._short_options: poptorch.Options | None = None

    def choose_options(self, call: Call) -> poptorch.Options:
        """The last batch of a dataset may be short: it runs as one micro-batch, so that no sample is left out."""
        samples, share = call.count_samples(), count_loaded_micro_batches(self.options)
        if self.strict or samples is None or samples % share == 0:
            return self.options
        if self._short_options is None:
            self._short_options = self.options.clone()
            self._short_options.inputReplicaGrouping(1, poptorch.CommGroupType.NoGrouping)
            self._short_options.deviceIterations(1).replicationFactor(1)
        return self._short_options

    def compile(self, request: StepRequest, options: poptorch.Options, inputs: Sequence[torch.Tensor]) -> list[Any]:
        executor = self.executor
        if self.variants or options is not self.options:
            executor = poptorch.inferenceModel(self.model, self.prepare_options(options))
        executor.compile(*inputs)
        return [executor]

    def execute(self, variant: Variant, inputs: Sequence[torch.Tensor]) -> tuple[Any, list[torch.Tensor]]:
        output, extras = variant.programs[0](*inputs)
        return output, extras

    def list_executors(self) -> list[poptorch.PoplarExecutor]:
        others = [program for variant in self.variants for program in variant.programs]
        return [self.executor, *(executor for executor in others if executor is not self.executor)]

    def detach(self) -> None:
        """Leave the IPUs to another stage."""
        for executor in self.list_executors():
            if executor.isCompiled() and executor.isAttachedToDevice():
                executor.detachFromDevice()

    def destroy(self) -> None:
        for executor in self.list_executors():
            executor.destroy()
        self.variants.clear()
        self.current = None


def _mentions_numbers(error: BaseException | None) -> bool:
    """Did a function refuse a number because it is none of Python's own?"""
    while error is not None:
        if GuardedNumber.__name__ in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False


def _forget_data(call: Call) -> Call:
    """Shapes and types are enough to compare with later calls."""
    tensors = tuple(torch.empty_like(tensor, device="meta") for tensor in call.tensors)
    return Call(call.spec, call.kinds, call.paths, tensors, call.numbers, call.others)
