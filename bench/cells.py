"""What is compared: a model, training or inference, a number format, an accumulation; and the ways to run it.

In: names. Out: `Cell` and `Way`, with the environment of a way's process. No torch in here: the driver stays small.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

ACCUMULATION_STEPS = 16  # at micro-batch 1

# What could change how a way runs is not inherited: a measurement must not depend on the shell that it is started from.
_DROPPED_PREFIXES = ("OPENIPU_", "POPTORCH_", "TORCHINDUCTOR_", "TORCH_COMPILE", "TORCH_LOGS", "AOT_INDUCTOR")


class Kind(StrEnum):
    """Who runs the model."""

    EAGER = "eager"
    COMPILE = "torch.compile"
    ONNX_RUNTIME = "ONNX Runtime"
    OPENIPU = "openipu"


# Vectors of an older processor, for PyTorch's own kernels and for oneDNN's. ONNX Runtime asks the processor.
VECTORS: dict[str, Mapping[str, str]] = {
    "avx2": {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2"},
    "default": {"ATEN_CPU_CAPABILITY": "default", "ONEDNN_MAX_CPU_ISA": "SSE41"},
}


@dataclass(frozen=True)
class Way:
    """One way to run a model."""

    name: str
    kind: Kind
    precision: str | None = None  # None: that of the cell

    def make_environment(self, cache: Path) -> dict[str, str]:
        """The environment of this way's process. Ways of one kind share a cache; PyTorch and openipu share none."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith(_DROPPED_PREFIXES)}
        environment |= {
            "HF_HUB_OFFLINE": "1",
            "TRANSFORMERS_VERBOSITY": "error",
            "TORCHINDUCTOR_CACHE_DIR": str(cache / f"inductor-{self.kind}"),
            "OPENIPU_CACHE_DIR": str(cache / "openipu"),
        }
        if self.kind is Kind.OPENIPU:
            # A user's run has its kernels compiled after some seconds; a measurement need not wait for them.
            environment["OPENIPU_COMPILE_AFTER"] = "0"
        return environment


EAGER = Way("eager", Kind.EAGER)
COMPILE = Way("torch.compile", Kind.COMPILE)
ONNX_RUNTIME = Way("ONNX Runtime", Kind.ONNX_RUNTIME)
OPENIPU = Way("openipu", Kind.OPENIPU)
OPENIPU_FLOAT32 = Way("openipu float32", Kind.OPENIPU, precision="float32")

# In the order of preparation.
WAYS: dict[str, Way] = {way.name: way for way in (EAGER, COMPILE, ONNX_RUNTIME, OPENIPU, OPENIPU_FLOAT32)}


@dataclass(frozen=True)
class Cell:
    """One row of a table."""

    model: str
    training: bool = True
    precision: str = "float32"
    accumulation: int = 1

    @property
    def key(self) -> str:
        """The cell as one word, such as `gpt2-training-half-1`."""
        return f"{self.model}-{'training' if self.training else 'inference'}-{self.precision}-{self.accumulation}"

    @property
    def variant(self) -> str:
        """The cell without its model."""
        return self.key.removeprefix(f"{self.model}-")

    @property
    def ways(self) -> tuple[Way, ...]:
        """The ways of the comparison. Half is compared with eager half and with our own float32, inference in float32
        with ONNX Runtime as well."""
        if self.precision == "half":
            return (EAGER, OPENIPU, OPENIPU_FLOAT32)
        return (EAGER, COMPILE, OPENIPU) if self.training else (EAGER, COMPILE, ONNX_RUNTIME, OPENIPU)

    @classmethod
    def parse(cls, key: str) -> Cell:
        """The cell of a key."""
        model, phase, precision, accumulation = key.split("-")
        return cls(model, phase == "training", precision, int(accumulation))


VARIANTS: dict[str, Mapping[str, object]] = {
    "training-float32-1": {},
    "inference-float32-1": {"training": False},
    f"training-float32-{ACCUMULATION_STEPS}": {"accumulation": ACCUMULATION_STEPS},
    "training-half-1": {"precision": "half"},
    "inference-half-1": {"training": False, "precision": "half"},
}


def list_cells(models: Sequence[str], variants: Sequence[str] = tuple(VARIANTS)) -> Iterator[Cell]:
    """All cells of these models, model by model: compiled artefacts of one model are made close to each other."""
    for model in models:
        for variant in variants:
            yield Cell.parse(f"{model}-{variant}")
