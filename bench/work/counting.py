"""How much work a step is, and how fast this host can do such work at best.

In: an eager step; an optimizer. Out: FLOPs and bytes. `HostMeter` measures the rates of a large float32 product and
of a large copy, with the same threads as the models.
"""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch

PRODUCT_SIZE = 2048
COPY_BYTES = 256 * 2**20


def count_flops(step: Callable[[], object]) -> float:
    """FLOPs of the matrix products and convolutions of one eager step."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    # Fused attention and recurrent layers have no formula on a CPU; written out, they are counted product by product.
    with (
        FlopCounterMode(display=False) as counter,
        sdpa_kernel(SDPBackend.MATH),
        torch.backends.mkldnn.flags(enabled=False),
    ):
        step()
    return float(counter.get_total_flops())


def count_optimizer_bytes(optimizer: torch.optim.Optimizer) -> float:
    """Bytes of one update: parameters and state read and written, gradients read."""
    total = 0
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            size = parameter.numel() * parameter.element_size()
            state = sum(
                value.numel() * value.element_size()
                for value in optimizer.state[parameter].values()
                if isinstance(value, torch.Tensor) and value.shape == parameter.shape
            )
            total += 3 * size + 2 * state
    return float(total)


class HostMeter:
    """The host's own rates."""

    def __init__(self) -> None:
        self._left = torch.randn(PRODUCT_SIZE, PRODUCT_SIZE)
        self._product = torch.empty(PRODUCT_SIZE, PRODUCT_SIZE)
        self._source = torch.ones(COPY_BYTES // 4)
        self._target = torch.ones(COPY_BYTES // 4)

    def measure(self) -> dict[str, float]:
        """FLOPs a second of a product, by the faster of PyTorch's two libraries; bytes a second, read and written, of a
        copy. Medians of three."""
        product = _time(lambda: torch.mm(self._left, self._left, out=self._product))
        if torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
            multiply = torch.ops.mkldnn._linear_pointwise.default
            product = min(product, _time(lambda: multiply(self._left, self._left, None, "none", [], "")))
        copy = _time(lambda: self._target.copy_(self._source))
        return {"flops_per_second": 2 * PRODUCT_SIZE**3 / product, "bytes_per_second": 2 * COPY_BYTES / copy}

    def describe(self) -> dict[str, str | int | float]:
        """The machine in a few words."""
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        return {
            "processor": _read_processor(),
            "cores": len(os.sched_getaffinity(0)),
            "threads": torch.get_num_threads(),
            "capability": torch.backends.cpu.get_cpu_capability(),
            "memory_bytes": memory,
            "torch": torch.__version__,
            "python": platform.python_version(),
            "wait_policy": os.environ.get("OMP_WAIT_POLICY", ""),
        }


def _time(work: Callable[[], object]) -> float:
    work()
    seconds = []
    for _ in range(3):
        started = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds)


def _read_processor() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
