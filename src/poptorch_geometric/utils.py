"""Helpers around models: static sizes in message passing, and training steps compared with plain PyTorch.

In: a module and a batch. Out: the module with a fixed number of target nodes; or an AssertionError where the IPU's
results are not those of the CPU.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.testing import assert_close
from torch_geometric.nn import MessagePassing

import poptorch


def set_aggregation_dim_size(model: torch.nn.Module, dim_size: int) -> None:
    """Have every message passing layer aggregate to `dim_size` nodes: at least those of the batch."""

    def fix_size(_module: Any, inputs: tuple[dict[str, Any]]) -> tuple[dict[str, Any]]:
        return ({**inputs[0], "dim_size": dim_size},)

    for module in model.modules():
        if isinstance(module, MessagePassing):
            module.register_aggregate_forward_pre_hook(fix_size)


class TrainingStepper:
    """Trains a model step by step on the IPU and on the CPU, and compares results and weights.

    The model returns results and a loss in training. `options`, `optimizer` and `lr` are those of both.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        lr: float = 0.001,
        optimizer: Any = poptorch.optim.Adam,
        options: poptorch.Options | None = None,
        rtol: float | None = None,
        atol: float | None = None,
        enable_fp_exception: bool = True,
        equal_nan: bool = False,
    ) -> None:
        self.rtol, self.atol, self.equal_nan = rtol, atol, equal_nan
        self.options = poptorch.Options() if options is None else options
        self.options.Precision.enableFloatingPointExceptions(enable_fp_exception)
        self.cpu_model = copy.deepcopy(model)
        self.ipu_model = copy.deepcopy(model)
        self.training_model: Any = None
        if model.training:
            self.cpu_optimizer = optimizer(self.cpu_model.parameters(), lr=lr)
            self.ipu_optimizer = optimizer(self.ipu_model.parameters(), lr=lr)
            self.training_model = poptorch.trainingModel(
                self.ipu_model, options=self.options, optimizer=self.ipu_optimizer
            )

    def run(self, num_steps: int, *batches: Any) -> None:
        """So many steps on one batch, or on one for the CPU and one for the IPU."""
        if len(batches) not in (1, 2):
            raise ValueError(f"run takes one batch, or one for the CPU and one for the IPU, not {len(batches)}.")
        for step in range(num_steps):
            expected, expected_loss = self.cpu_step(batches[0])
            actual, loss = self.ipu_step(batches[-1])
            if len(batches) == 1:
                self.assert_close(actual, expected, f"results of step {step}")
            self.assert_close(loss, expected_loss, f"loss of step {step}")
            self.check_parameters()

    def run_inference(self, batch: Any) -> None:
        """Results of both on one batch."""
        model = copy.deepcopy(self.cpu_model).eval()
        with torch.no_grad():
            expected = model(*_as_arguments(batch))
        compiled = poptorch.inferenceModel(model, options=self.options)
        self.assert_close(compiled(*_as_arguments(batch)), expected, "results")
        compiled.destroy()

    def cpu_step(self, batch: Any) -> Any:
        """Results and loss of a step in plain PyTorch."""
        self.cpu_optimizer.zero_grad()
        out, loss = self.cpu_model(*_as_arguments(batch))
        loss.backward()
        self.cpu_optimizer.step()
        return out, loss

    def ipu_step(self, batch: Any, copy_weights: bool = True) -> Any:
        """Results and loss of a step of the compiled model; its weights come back unless they are not wanted."""
        if self.training_model is None:
            raise RuntimeError("The model was given in evaluation mode: call its train() before.")
        out, loss = self.training_model(*_as_arguments(batch))
        if copy_weights:
            self.training_model.copyWeightsToHost()
        return out, loss

    def check_parameters(self) -> None:
        """Raises AssertionError where a weight is not the same."""
        for (name, expected), actual in zip(
            self.cpu_model.named_parameters(), self.ipu_model.parameters(), strict=True
        ):
            self.assert_close(actual, expected, f"weight {name}")

    def assert_close(self, actual: Any, expected: Any, id: str) -> None:
        """Raises AssertionError that says of what the values differ."""
        assert_close(
            actual,
            expected,
            rtol=self.rtol,
            atol=self.atol,
            equal_nan=self.equal_nan,
            check_dtype=False,
            msg=lambda text: f"{id}: {text}",
        )

    def benchmark(self, num_steps: int, batch: Any, devices: str | Sequence[str] = "ipu") -> dict[str, float]:
        """Seconds of a step on this machine, by device ("cpu", "ipu"); what an IPU would take is in the plan."""
        steps: dict[str, Callable[[Any], Any]] = {
            "cpu": self.cpu_step,
            "ipu": lambda batch: self.ipu_step(batch, copy_weights=False),
        }
        wanted = (devices,) if isinstance(devices, str) else tuple(devices)
        unknown = [device for device in wanted if device not in steps]
        if unknown:
            raise NotImplementedError(f"Devices are cpu and ipu, not {', '.join(unknown)}.")
        seconds = {}
        for device in wanted:
            steps[device](batch)  # compiles
            started = time.perf_counter()
            for _ in range(num_steps):
                steps[device](batch)
            seconds[device] = (time.perf_counter() - started) / num_steps
        return seconds


def _as_arguments(batch: Any) -> tuple[Any, ...]:
    return tuple(batch) if isinstance(batch, tuple | list) else (batch,)
