"""Which kind of work a row measures: the groups that `docs/fidelity.md` and the summary speak of.

In: a row. Out: a topic. A topic depends on what was measured, never on a row's id or value, and has a bar: the median
and the 90th percentile of the error that the model is to stay within.
"""

from __future__ import annotations

from dataclasses import dataclass

from openipu.validation.figures.rows import FigureRow


@dataclass(frozen=True, slots=True)
class Topic:
    """A kind of work, and the errors that were set as a goal before anything was fitted; `None`: no goal."""

    name: str
    median_goal: float | None = None
    high_goal: float | None = None  # 90th percentile


ON_TILE = Topic("on-tile kernels", 0.02)
DENSE_MATMUL = Topic("dense matmul", 0.05, 0.15)
SPARSE_MATMUL = Topic("sparse matmul")
DENSE_CONVOLUTION = Topic("dense convolution", 0.08, 0.20)
GROUPED_CONVOLUTION = Topic("grouped convolution, 8 channels or more", 0.20, 0.45)
NARROW_CONVOLUTION = Topic("convolution, few input channels")
EXCHANGE_AND_MEMORY = Topic("exchange, links, host and memory", 0.10)
ELEMENTWISE = Topic("elementwise, random numbers, user vertices")
COST_CONSTANTS = Topic("constants of another compiler")
RESNET_INFERENCE = Topic("inference, ResNet-50 on C600", 0.10)
OTHER_INFERENCE = Topic("inference, other", 0.20, 0.50)
TRAINING = Topic("training", 0.20, 0.50)
COMPILE_TIME = Topic("compile time of the vendor's tools")
FIT = Topic("fits in memory")

ALL = (
    ON_TILE,
    DENSE_MATMUL,
    SPARSE_MATMUL,
    DENSE_CONVOLUTION,
    GROUPED_CONVOLUTION,
    NARROW_CONVOLUTION,
    EXCHANGE_AND_MEMORY,
    ELEMENTWISE,
    COST_CONSTANTS,
    RESNET_INFERENCE,
    OTHER_INFERENCE,
    TRAINING,
    FIT,
    COMPILE_TIME,
)

_TRAINING_WORDS = ("train", "pre-training", "pretrain", "fine-tun", "finetun", "epoch")
_ELEMENTWISE_WORDS = ("triad", "elementwise", "prng", "stencil", "lattice", "gaussian", "matvec", "instrumentation")


def find_topic(row: FigureRow) -> Topic:
    """The topic of a row."""
    if row.asks_fit:
        return FIT
    if "compile time" in row.metric:
        return COMPILE_TIME
    return _find_whole_model(row) if row.kind == "e2e" else _find_micro(row)


def _find_whole_model(row: FigureRow) -> Topic:
    workload, metric = row.workload.lower(), row.metric.lower()
    text = f"{workload} {metric} {row.params.get('mode', '')}".lower()
    if any(word in text for word in _TRAINING_WORDS) or "samples seen" in metric or "logged" in metric:
        return TRAINING
    is_resnet = "resnet50" in workload.replace("-", "").replace(" ", "")
    return RESNET_INFERENCE if is_resnet and "c600" in row.system.lower() else OTHER_INFERENCE


def _find_micro(row: FigureRow) -> Topic:
    workload = row.workload.lower()
    if row.metric == "cost constant":
        return COST_CONSTANTS
    if "on-tile amp" in workload:
        return ON_TILE
    if "sparse" in workload:
        return SPARSE_MATMUL
    if "conv" in workload:
        return _find_convolution(row)
    if "matmul" in workload or "gemm" in workload:
        return DENSE_MATMUL
    if any(word in workload for word in _ELEMENTWISE_WORDS):
        return ELEMENTWISE
    return EXCHANGE_AND_MEMORY


def _find_convolution(row: FigureRow) -> Topic:
    groups, channels = row.read_size("groups", 1), row.read_size("cin", 1)
    if channels // groups < 8:
        return NARROW_CONVOLUTION
    return DENSE_CONVOLUTION if groups == 1 else GROUPED_CONVOLUTION
