"""Configurations that were published with benchmarks of inference on one card.

In: a row. Out: the compiler's settings and the load of the public benchmark that the row's words fit, or none. A
configuration is found by what a row says (workload, batch, number format), never by its figure. Numbers are those of
bytedance/ByteMLPerf (`backends/IPU/interact_infos`, `engine_poprt.py`) and of graphcore/PopRT (`benchmarks/*/*.py`).
What neither states: six tenths of the memory and no I/O tiles, the compiler's defaults, and sums in half, which is what
both choose wherever they choose.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from openipu.models.text.encoders import Gelu
from openipu.validation.figures import FigureRow
from openipu.validation.workloads.recognise import is_training

DEFAULT_PROPORTION = 0.6
# Sequences in a row of tokens: lengths are drawn from a normal distribution whose deviation is its mean, cut at the
# row's length, and put into the first row with room until one finds none (`packing` in the tests repeats it).
QUESTIONS_PER_ROW = 1.97  # mean 172 of 384, 40 or 45 rows
QUESTIONS_PER_SHORT_BATCH = 1.80  # the same with 10 rows
SENTENCES_PER_ROW = 1.79  # mean 64 of 128, 16 rows
CLIENTS_PER_ROW = 3.5  # single sequences in flight where requests are packed


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """One public benchmark."""

    source: str
    workload: str  # a pattern, in the case of the source
    proportion: float = DEFAULT_PROPORTION
    batches: tuple[int, ...] = ()  # empty: any
    form: str = ""  # how the row's number format begins
    clients: int = 0  # requests in flight; 0: the benchmark states none
    packed: float = 1.0  # sequences that share a row of tokens
    io_tiles: int = 0
    wide_loads: bool = False  # coefficients by 128 bits
    gelu: Gelu | None = None
    fused_attention: bool = False
    padded_attention: bool = False
    float_parts: bool = False  # norms and GELU stay in float32
    head: str = ""  # what the exported model ends in

    def describes(self, row: FigureRow) -> bool:
        """Whether a row was measured so."""
        return (
            re.match(self.workload, row.workload) is not None
            and (row.params.get("batch") in self.batches or not self.batches)
            and str(row.params.get("dtype", "")).startswith(self.form)
            and "data" not in row.params
            and not is_training(row)
        )

    def count_in_flight(self, row: FigureRow) -> float:
        """Batches that wait or run at a time."""
        if self.packed > 1:
            return int(CLIENTS_PER_ROW * row.read_number("batch")) / (self.packed * row.read_number("batch"))
        return float(self.clients)


def find_served(row: FigureRow) -> Served | None:
    """The public benchmark of a row."""
    return next((entry for entry in SERVED if entry.describes(row)), None)


def _load(workload: str, **more: Any) -> Served:
    return Served(source="ByteMLPerf", workload=workload, **more)


def _question(workload: str, proportion: float, **more: Any) -> Served:
    return _load(f"{workload} SL384 SQuAD", proportion=proportion, **{"packed": QUESTIONS_PER_ROW, **more})


def _measure(workload: str, **more: Any) -> Served:
    return Served(source="PopRT", workload=workload, **more)


_SENTENCES: dict[str, Any] = {
    "wide_loads": True,
    "fused_attention": True,
    "io_tiles": 32,
    "head": "span",
}
_PATCHES: dict[str, Any] = {
    "proportion": 1.0,
    "io_tiles": 32,
    "gelu": Gelu.ERROR_FUNCTION,
    "fused_attention": True,
    "padded_attention": True,
}
SERVED: tuple[Served, ...] = (
    _question("bert-base", 0.4, form="fp16"),
    _question("bert-base", 0.6, form="fp8"),
    _question("roberta-base", 0.4),
    _question("albert-base", 0.5),
    _question("deberta-base", 0.4, packed=QUESTIONS_PER_SHORT_BATCH, wide_loads=True),
    _load("clip text encoder", proportion=0.8, clients=3, io_tiles=32, wide_loads=True),
    _load("conformer-encoder", clients=4, io_tiles=32, wide_loads=True),
    _load("roformer SL1024", clients=1, wide_loads=True, fused_attention=True),
    _load("swin-large", proportion=0.2, clients=4, wide_loads=True),
    _load("videobert", proportion=0.2, clients=3, wide_loads=True),
    _load("wide&deep", clients=5, io_tiles=32, wide_loads=True),
    _measure("CLIP inference", proportion=0.2),
    _measure("Swin-Tiny", proportion=0.3, io_tiles=32, gelu=Gelu.ERROR_FUNCTION, padded_attention=True),
    _measure("ViT inference", batches=(8,), **_PATCHES),
    _measure("ViT inference", wide_loads=True, **_PATCHES),
    _measure("BERT-Base SL128 packed", proportion=0.4, packed=SENTENCES_PER_ROW, **_SENTENCES),
    _measure("BERT-Base SL128", batches=(128,), proportion=0.4, float_parts=True, **_SENTENCES),
    _measure("BERT-Base SL128", proportion=0.4, **_SENTENCES),
    _measure("BERT-Large SL128", proportion=0.15, **_SENTENCES),
    _measure("RoFormerV2", head="classes"),
    _measure("Wide&Deep", batches=(8000,), proportion=1.0, io_tiles=128, wide_loads=True),
    _measure("Wide&Deep", io_tiles=32, wide_loads=True),
    _measure("Conformer encoder", io_tiles=32),
)
