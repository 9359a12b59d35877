"""Does a process grow that compiles and destroys programs all day?

In: the number of cycles. Out: resident memory after a tenth, a half and all of them, for each front end, and in
brackets what of it the C library has given out: that grows with a leak, the first also with gaps between blocks. The
exit status says whether resident memory stayed flat from the first tenth on. Each case has a process of its own,
which takes a minute or several for 1,000 cycles:

    python -m bench.compile_cycles
    python -m bench.compile_cycles --cycles 100 --cases training popart
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import subprocess
import sys
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from bench.work.process_figures import read_resident_bytes

LIMIT_BYTES = 6 << 10  # a cycle, on average: what an allocator's pools wander by over 900 of them
FIRST, HALF = 0.1, 0.5


class Trained(nn.Module):
    """Layers with a loss."""

    def __init__(self, layers: nn.Module) -> None:
        super().__init__()
        self.layers = layers

    def forward(self, x: Tensor) -> Tensor:
        import poptorch

        return poptorch.identity_loss((self.layers(x) ** 2).mean(), "none")


def train_small() -> None:
    _train(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)), torch.randn(4, 8))


def train_encoder() -> None:
    layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True, dropout=0.0)
    _train(nn.TransformerEncoder(layer, 6, enable_nested_tensor=False), torch.randn(2, 16, 64))


def _train(layers: nn.Module, x: Tensor) -> None:
    import poptorch

    model = Trained(layers)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    executor = poptorch.trainingModel(model, poptorch.Options().showCompilationProgressBar(False), optimizer)
    executor(x)
    executor.destroy()


def infer() -> None:
    import poptorch

    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    executor = poptorch.inferenceModel(model, poptorch.Options().showCompilationProgressBar(False))
    executor(torch.randn(4, 8))
    executor.destroy()


def run_popart() -> None:
    import popart

    builder = popart.Builder()
    x = builder.addInputTensor(popart.TensorInfo("FLOAT", [4, 8]))
    weight = builder.addInitializedInputTensor(np.ones((8, 4), np.float32))
    loss = builder.aiGraphcore.identityloss([builder.aiOnnx.matmul([x, weight])])
    flow = popart.DataFlow(1, {loss: popart.AnchorReturnType("All")})
    with popart.DeviceManager().createIpuModelDevice({}) as device:
        session = popart.TrainingSession(
            builder.getModelProto(), flow, loss, popart.SGD({"defaultLearningRate": (0.1, False)}), device
        )
        session.prepareDevice()
        session.weightsFromHost()
        session.run(popart.PyStepIO({x: np.ones((4, 8), np.float32)}, session.initAnchorArrays()))


def run_poplar() -> None:
    import poplar
    import popops
    from poplar.program import Sequence

    graph = poplar.Graph(poplar.IPUModel().createDevice().getTarget())
    popops.addCodelets(graph)
    x = graph.addVariable(poplar.FLOAT, [64], "x")
    for tile in range(4):
        graph.setTileMapping(x[tile * 16 : tile * 16 + 16], tile)
    sequence = Sequence()
    popops.addInPlace(graph, x, x, sequence)
    graph.createHostRead("x", x)
    engine = poplar.Engine(graph, sequence)
    engine.load(poplar.IPUModel().createDevice())
    engine.run(0)


class _HeapFigures(ctypes.Structure):
    """What `mallinfo2` of the GNU C library returns."""

    names = ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")
    _fields_ = [(name, ctypes.c_size_t) for name in names]


def read_heap_bytes() -> int:
    """Bytes in blocks that have been given out and not been given back."""
    ask = ctypes.CDLL(None).mallinfo2
    ask.restype = _HeapFigures
    found = ask()
    return int(found.uordblks + found.hblkhd)


CASES: dict[str, Callable[[], None]] = {
    "training": train_small,
    "inference": infer,
    "encoder": train_encoder,
    "popart": run_popart,
    "poplar": run_poplar,
}


def measure(case: str, cycles: int) -> bool:
    """Compile and destroy, say what is held on the way, and whether that is flat."""
    torch.set_num_threads(1)
    marks = {max(1, round(cycles * share)) for share in (FIRST, HALF, 1)}
    held: dict[int, int] = {}
    given: dict[int, int] = {}
    for number in range(1, cycles + 1):
        CASES[case]()
        if number in marks:
            gc.collect()
            held[number], given[number] = read_resident_bytes(), read_heap_bytes()
    first, last = min(held), max(held)
    growth = (held[last] - held[first]) / max(1, last - first)
    shown = ", ".join(
        f"{size / 2**20:.1f} MiB ({given[number] / 2**20:.2f}) after {number:,}" for number, size in held.items()
    )
    flat = growth <= LIMIT_BYTES
    print(f"{case}: {shown}; {growth / 1024:+.2f} KiB a cycle{'' if flat else ': not flat'}", flush=True)
    return flat


def main() -> int:
    """Measure every case that was asked for."""
    parser = argparse.ArgumentParser(prog="python -m bench.compile_cycles", description=__doc__)
    parser.add_argument("--cycles", type=int, default=1000, help="of each case (default: %(default)s)")
    parser.add_argument("--cases", nargs="+", choices=tuple(CASES), default=list(CASES), help="default: all")
    asked = parser.parse_args()
    if len(asked.cases) == 1:
        return 0 if measure(asked.cases[0], asked.cycles) else 1
    command = [sys.executable, "-m", "bench.compile_cycles", "--cycles", str(asked.cycles), "--cases"]
    return max([subprocess.run([*command, case], check=False).returncode for case in asked.cases])


if __name__ == "__main__":
    sys.exit(main())
