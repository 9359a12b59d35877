"""One way to run one model, inside its own process.

In: a cell and a way, by name. Out: seconds of preparing it, of steps, and memory. Each way is written as its users
write it: eager PyTorch and `torch.compile` as a loop over backward and the optimizer, openipu through
`poptorch.trainingModel` and `poptorch.inferenceModel`, ONNX Runtime on an exported file.
"""

from __future__ import annotations

import logging
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

_started = time.perf_counter()
import torch  # noqa: E402

from bench.cells import WAYS, Cell, Kind, Way  # noqa: E402
from bench.models import MODELS, Model  # noqa: E402
from bench.work.process_figures import read_peak_bytes, read_resident_bytes, reset_peak, wait_until_idle  # noqa: E402

_torch_seconds = time.perf_counter() - _started

Step = Callable[[], object]
SETTLING_STEPS = 12  # openipu takes over what was compiled between two steps,
SETTLING_SECONDS = 0.5  # more of them where they are short


class StepRunner:
    """A model that is stepped when its turn comes."""

    def __init__(self, cell: str, way: str, batch: int = 0) -> None:
        """`batch`: samples of a step; 0 is the model's own choice."""
        self.cell = Cell.parse(cell)
        self._batch = batch
        self.way = WAYS[way]
        self.model = MODELS[self.cell.model]
        self.step: Step = _refuse
        self._module: torch.nn.Module | None = None
        self._inputs: tuple[torch.Tensor, ...] = ()
        self._optimizer: torch.optim.Optimizer | None = None
        self._baseline_bytes = 0
        self._whole_peak_bytes = 0

    def prepare(self) -> dict[str, float]:
        """Import, build, wrap, and run the first step; seconds of each."""
        marks = [time.perf_counter()]
        _import_stack(self.way, self.model, self.cell.training)
        marks.append(time.perf_counter())
        self._baseline_bytes = read_resident_bytes()
        torch.manual_seed(0)
        module = self.model.build()
        self._module = module.train() if self.cell.training else module.eval()
        self._inputs = make_call_inputs(self.cell, self.model, self._batch)
        if (self.way.precision or self.cell.precision) == "half":
            self._module.half()
            self._inputs = tuple(value.half() if value.is_floating_point() else value for value in self._inputs)
        if self.cell.training:
            self._optimizer = make_optimizer(self.way, self.model, self._module)
        marks.append(time.perf_counter())
        self.step = make_step(self.way, self.cell, self._module, self._inputs, self._optimizer)
        marks.append(time.perf_counter())
        self.step()
        marks.append(time.perf_counter())
        names = ("import_seconds", "build_seconds", "wrap_seconds", "first_seconds")
        seconds = {name: after - before for name, before, after in zip(names, marks, marks[1:], strict=False)}
        seconds["import_seconds"] += _torch_seconds
        return seconds

    def settle(self, limit_seconds: float = 900.0) -> dict[str, float]:
        """Step until nothing is compiled in the background any more."""
        started = time.perf_counter()
        if self.way.kind is Kind.OPENIPU:
            busy = True
            while busy and time.perf_counter() - started < limit_seconds:
                self._run_for(SETTLING_STEPS, SETTLING_SECONDS)
                busy = wait_until_idle(limit_seconds, alone=True)
            self._run_for(SETTLING_STEPS, SETTLING_SECONDS)
        return {"settle_seconds": time.perf_counter() - started}

    def _run_for(self, steps: int, seconds: float) -> None:
        """At least so many steps, for at least so long."""
        started = time.perf_counter()
        while steps > 0 or time.perf_counter() - started < seconds:
            self.step()
            steps -= 1

    def run(self, steps: int, warm: int = 0) -> float:
        """Mean seconds of so many steps, after some that do not count."""
        step = self.step
        for _ in range(warm):
            step()
        started = time.perf_counter()
        for _ in range(steps):
            step()
        return (time.perf_counter() - started) / steps

    def list_seconds(self, steps: int) -> list[float]:
        """Seconds of each of so many steps, after one that does not count."""
        step, found = self.step, []
        step()
        for _ in range(steps):
            started = time.perf_counter()
            step()
            found.append(time.perf_counter() - started)
        return found

    def begin_steady_state(self) -> None:
        """From here on the peak of memory is that of steps, not of preparing them."""
        self._whole_peak_bytes = read_peak_bytes()
        reset_peak()

    def read_memory(self) -> dict[str, int]:
        """Bytes above what the imports took: now, at the peak of the steady state, and at the peak since the start."""
        steady = read_peak_bytes()
        return {
            "resident_bytes": read_resident_bytes() - self._baseline_bytes,
            "peak_bytes": steady - self._baseline_bytes,
            "whole_peak_bytes": max(steady, self._whole_peak_bytes) - self._baseline_bytes,
            "baseline_bytes": self._baseline_bytes,
        }

    def count_work(self) -> dict[str, float]:
        """FLOPs of one step's products, and bytes that its optimizer reads and writes."""
        from bench.work.counting import count_flops, count_optimizer_bytes

        return {
            "flops": count_flops(self.step),
            "traffic_bytes": 0 if self._optimizer is None else count_optimizer_bytes(self._optimizer),
        }


def make_call_inputs(cell: Cell, model: Model, batch: int = 0) -> tuple[torch.Tensor, ...]:
    """One call's worth: with accumulation, micro-batches of one sample. Inference has no labels."""
    inputs = model.make_inputs(batch or (model.batch if cell.accumulation == 1 else cell.accumulation))
    return inputs if cell.training else inputs[:1]


def make_optimizer(way: Way, model: Model, module: torch.nn.Module) -> torch.optim.Optimizer:
    """The optimizer from the package that a user of this way takes it from."""
    kind, settings = model.optimizer
    package: Any = torch.optim
    if way.kind is Kind.OPENIPU:
        from poptorch import optim as package
    optimizer: torch.optim.Optimizer = getattr(package, kind)(module.parameters(), **settings)
    return optimizer


def make_step(
    way: Way,
    cell: Cell,
    module: torch.nn.Module,
    inputs: tuple[torch.Tensor, ...],
    optimizer: torch.optim.Optimizer | None,
) -> Step:
    """What one call does in this way; inference has no optimizer."""
    if way.kind is Kind.OPENIPU:
        return _make_openipu_step(cell, module, inputs, optimizer)
    if way.kind is Kind.ONNX_RUNTIME:
        return make_onnx_step(module, inputs)
    forward: Any = torch.compile(module) if way.kind is Kind.COMPILE else module
    if optimizer is None:
        return _make_evaluation(forward, inputs)
    if cell.accumulation == 1:

        def step() -> object:
            optimizer.zero_grad()
            loss = forward(*inputs)
            loss.backward()
            optimizer.step()
            return loss
    else:

        def step() -> object:
            optimizer.zero_grad()
            for part in zip(*(value.split(1) for value in inputs), strict=True):
                loss = forward(*part) / cell.accumulation
                loss.backward()
            optimizer.step()
            return loss

    return step


def _make_evaluation(forward: Any, inputs: tuple[torch.Tensor, ...]) -> Step:
    def step() -> object:
        with torch.inference_mode():
            return forward(*inputs)

    return step


def make_onnx_step(module: torch.nn.Module, inputs: tuple[torch.Tensor, ...]) -> Step:
    """The module as a file, in ONNX Runtime with as many threads as PyTorch has."""
    import onnxruntime

    from bench.work.onnx_export import export_module

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = 3
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        export_module(module, inputs, path)
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    given = {"x": inputs[0].numpy()}
    (found,) = session.run(None, given)
    with torch.inference_mode():
        expected = module(*inputs)
    torch.testing.assert_close(torch.from_numpy(found), expected, rtol=1e-3, atol=1e-3)
    return lambda: session.run(None, given)


def _make_openipu_step(
    cell: Cell, module: torch.nn.Module, inputs: tuple[torch.Tensor, ...], optimizer: torch.optim.Optimizer | None
) -> Step:
    import poptorch

    options = poptorch.Options()
    options.showCompilationProgressBar(False)
    if optimizer is None:
        evaluator = poptorch.inferenceModel(module, options)
        return lambda: evaluator(*inputs)
    options.Training.gradientAccumulation(cell.accumulation)
    trainer = poptorch.trainingModel(module, options, optimizer)
    return lambda: trainer(*inputs)


def _import_stack(way: Way, model: Model, training: bool) -> None:
    """Everything that a script of this way imports."""
    if way.kind is Kind.OPENIPU:
        import poptorch  # noqa: F401

        # Whether kernels were compiled is then in the log of the process.
        logging.basicConfig()
        logging.getLogger("openipu").setLevel(logging.INFO)
    if model.transformer or model.name == "resnet50":
        import transformers  # noqa: F401
    if training:  # PyTorch imports its compiler with the first optimizer, in every way
        torch.optim.SGD([torch.zeros(1)], lr=0.1)


def _refuse() -> object:
    raise RuntimeError("prepare() comes before the first step.")
