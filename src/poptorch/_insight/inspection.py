"""What an executor tells of a compiled program: names and values of tensors, measured times, modelled cycles.

In: what was compiled, and the result of the last call. Out: answers to PopTorch's questions, mixed into
`PoplarExecutor`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

import torch

from openipu.graph import InputKind, OutputKind, OutputMode
from openipu.run import MicroBatchTimes, list_tensors
from openipu.session import Compiled
from poptorch._insight import perf_counters as counters
from poptorch._insight.graph_text import describe_program
from poptorch._optimizer.device import DeviceOptimizer
from poptorch.errors import createPoptorchError
from poptorch.options import Options


class Inspection:
    """Questions about a program that was compiled and run."""

    _compiled: Compiled | None
    _options: Options
    _optimizer: DeviceOptimizer | None
    _taps: Mapping[str, torch.Tensor] | None  # of the last call: None before the first
    _times: tuple[MicroBatchTimes, ...]  # and of that; none without host transfers, as with synthetic data

    @property
    def _executable(self) -> Compiled | None:
        """None before compilation and after `destroy`: applications ask for it where PopTorch kept its own."""
        return self._compiled

    def getTensorNames(self) -> list[str]:
        """Tensors that `Options.anchorTensor` can read back, and those of the optimizer."""
        assert self._compiled is not None, "Model must be compiled before calling getTensorNames"
        names = list(list_tensors(self._compiled.program))
        if self._optimizer is not None:
            names += self._optimizer.list_tensor_names()
        return names

    def getAnchoredTensor(self, short_name: str) -> torch.Tensor:
        """The value that the last call left in a tensor of `Options.anchorTensor`."""
        assert short_name in self._options.anchored_tensors, f"No tensor with name {short_name} found."
        if self._taps is None:
            raise createPoptorchError(f"Run the model before reading the tensor {short_name}: it has no value yet.")
        return self._taps[short_name]

    def getPerfCounters(self) -> counters.Counters:
        """When each tensor of the last call was handed over, by [tensor][step], in seconds of this host."""
        if self._compiled is None:
            return {name: [[]] for name in counters.EMPTY}
        micro = self._compiled.program.micro
        inputs, outputs = len(micro.inputs_of(InputKind.INPUT)), len(micro.outputs_of(OutputKind.OUTPUT))
        return counters.list_counters(self._times, inputs, outputs, self._stored_times())

    def getLatency(self) -> counters.Latency:
        """From input to output on this host: minimum, maximum and average in seconds."""
        return counters.measure_round_trip(self._stored_times())

    def getHostIpuLatency(self) -> counters.Latency:
        return counters.measure_host_to_ipu(self._stored_times())

    def getComputeLatency(self) -> counters.Latency:
        return counters.measure_compute(self._stored_times())

    def getIpuHostLatency(self) -> counters.Latency:
        return counters.measure_ipu_to_host(self._stored_times())

    def _stored_times(self) -> list[MicroBatchTimes]:
        assert self._compiled is not None, "Model must be compiled and run before its latency is known"
        options = self._compiled.executable.options
        return counters.select_stored(self._times, options.output_mode is OutputMode.SUM, options.replicas)

    def cycleCount(self) -> int:
        """Modelled cycles of one call."""
        if not self._options.log_cycle_count:
            raise createPoptorchError(
                "Cycle count logging is disabled. Please set option logCycleCount to True to enable."
            )
        if self._compiled is None or self._taps is None:
            raise createPoptorchError("Please run the model at least once before obtaining cycle count.")
        return round(self._compiled.plan.timing.call_cycles)

    def compilationTime(self) -> timedelta:
        """How long the compilation took."""
        if self._compiled is None:
            raise createPoptorchError("Please compile the model before obtaining compilation time.")
        if not self._options.show_compilation_progress_bar:
            raise createPoptorchError("Please set showCompilationProgressBar option to obtain compilation time.")
        return timedelta(seconds=self._compiled.compilation_seconds)

    def _debugGetPopartIR(self) -> str:
        """The captured graph as JSON. Operators are those of PyTorch under PopART's names: there is no PopART below."""
        assert self._compiled is not None, "Model must be compiled before its graph can be shown"
        compiled = self._compiled
        return describe_program(compiled.program, self._options.module_namescope_enabled, compiled.plan)
