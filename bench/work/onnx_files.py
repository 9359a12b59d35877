"""Inference of an ONNX file: by ONNX Runtime, and by openipu as `openipu run model.onnx` does it.

In: a path, and a number of threads. Out: seconds a step, and the results, so that both can be compared. Each lives in
a process of its own; steps have new data every time, in turn from a few batches.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

BATCHES = 4


def make_batches(path: str) -> list[dict[str, Any]]:
    """A few batches of the file's one input, always the same ones."""
    import numpy as np
    import onnx

    entry = onnx.load(path, load_external_data=False).graph.input[0]
    tensor = entry.type.tensor_type
    shape = [size.dim_value for size in tensor.shape.dim]
    random = np.random.default_rng(0)
    if tensor.elem_type == onnx.TensorProto.FLOAT:
        return [{entry.name: random.standard_normal(shape, dtype=np.float32)} for _ in range(BATCHES)]
    return [{entry.name: random.integers(0, 30000, shape)} for _ in range(BATCHES)]


class OnnxRuntimeSteps:
    """What a user would pick instead."""

    def __init__(self, path: str, threads: int) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 3
        self._session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        self._batches = make_batches(path)

    def measure(self, steps: int) -> float:
        """Seconds a step."""
        started = time.perf_counter()
        for step in range(steps):
            self._session.run(None, self._batches[step % BATCHES])
        return (time.perf_counter() - started) / steps

    def compute(self) -> list[list[float]]:
        """The results of the first batch."""
        return [output.reshape(-1)[:1000].tolist() for output in self._session.run(None, self._batches[0])]


class OpenIpuSteps:
    """The file through the whole pipeline, with the engine that the environment says."""

    def __init__(self, path: str, threads: int) -> None:
        import torch

        from openipu.model_files import compile_file

        torch.set_num_threads(threads)
        self._batches = [[torch.from_numpy(value) for value in batch.values()] for batch in make_batches(path)]
        names = list(make_batches(path)[0])
        self._compiled, _ = compile_file(Path(path), dict(zip(names, self._batches[0], strict=True)))

    def measure(self, steps: int) -> float:
        """Seconds a step."""
        started = time.perf_counter()
        for step in range(steps):
            self._compiled.executable.run(self._batches[step % BATCHES])
        return (time.perf_counter() - started) / steps

    def compute(self) -> list[list[float]]:
        """The results of the first batch."""
        outputs = self._compiled.executable.run(self._batches[0]).outputs
        return [output.reshape(-1)[:1000].float().tolist() for output in outputs]
