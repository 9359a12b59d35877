"""Layouts that the vendor published with its applications.

In: a row, its model and its IPUs. Out: the layout of the public configuration that the row's numbers fit, or none. A
configuration is found by what a row says (model, framework, global batch, IPUs, submission), never by its figure.
Numbers are those of graphcore/examples and of the submissions to MLPerf, in the release that each entry names.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from openipu.graph import Recompute
from openipu.models import ModelSpec
from openipu.validation.figures import FigureRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """One public configuration. Replicas and accumulation follow from the row's IPUs and global batch."""

    source: str  # release and file
    kind: str
    framework: str  # how the row's begins
    micro_batch: int
    stages: int
    proportions: tuple[float, ...]
    size: str = ""
    length: int = 0
    global_batches: tuple[int, ...] = ()  # empty: any
    ipus: int = 0  # 0: any
    layers_per_stage: tuple[int, ...] = ()
    recompute: Recompute | None = None  # of a model on one IPU; pipelines make activations again
    off_chip_state: bool = False
    shared_state: bool = False  # optimizer state stays on chip, one share per replica
    momentum: bool = False  # SGD with momentum
    submissions: tuple[str, ...] = ()  # to MLPerf, as the row names them; empty: an application
    release: str = ""  # of the SDK that a submission was made with
    # Attention and feed-forward parts on each IPU in turn; one entry more than IPUs: the last are on the first again.
    parts_per_stage: tuple[tuple[int, int], ...] = ()
    attention_dropout: bool = True

    def describes(self, row: FigureRow, spec: ModelSpec) -> bool:
        """Whether a row was run with this configuration."""
        batch = find_global_batch(row, spec)
        return (
            spec.training
            and self.kind == spec.kind
            and self.size in ("", spec.size)
            and self.length in (0, spec.length)
            and self.ipus in (0, row.ipus)
            and str(row.params.get("framework", "")).startswith(self.framework)
            and (batch in self.global_batches or not self.global_batches)
            and _is_of_round(row, self)
            and row.ipus % self.stages == 0
            and batch >= self.micro_batch * (row.ipus // self.stages)
        )


DEFAULT_BATCHES = {"decoder": 64}  # nanoGPT's own


def find_global_batch(row: FigureRow, spec: ModelSpec) -> int:
    """Samples of one update, as a row states them or as its program's own."""
    return int(row.params.get("global_batch", DEFAULT_BATCHES.get(spec.kind, 0)))


def _is_of_round(row: FigureRow, entry: Application) -> bool:
    """A submission has its own configuration; an application's is for other rows."""
    if "MLPerf" not in row.workload:
        return not entry.submissions
    return str(row.params.get("submission", "")) in entry.submissions and row.sdk.startswith(entry.release)


def find_application(row: FigureRow, spec: ModelSpec) -> Application | None:
    """The public configuration of a row's application."""
    return next((entry for entry in APPLICATIONS if entry.describes(row, spec)), None)


_LAST_STAGES = (0.36, 0.38, 0.4, 0.32)
_LARGE_LAYERS, _BASE_LAYERS = (3, 7, 7, 7), (0, 4, 4, 4)
_BERT_PYTORCH, _BERT_POPART = "v3.0.0 nlp/bert/pytorch/configs_pretraining.yml", "v3.1.0 nlp/bert/popart/configs"
_BERT_TF2, _BERT_TF1 = "v3.0.0 nlp/bert/tensorflow2/configs", "v3.0.0 nlp/bert/tensorflow1/configs"
DEFAULT_PROPORTION = 0.6  # the library's own, where a configuration states none
_CNN_PYTORCH = "v3.0.0 vision/cnns/pytorch/train/configs.yml"
_CNN_TF1 = "v3.0.0 vision/cnns/tensorflow1/training/configs.yml"
_VIT, _SWIN = "v3.0.0 vision/vit/pytorch/configs.yml", "v3.0.0 vision/swin/pytorch/configs/configs.yaml"


def _bert(
    source: str, framework: str, micro_batch: int, *proportions: float, size: str, length: int, ipus: int = 0
) -> Application:
    """Pre-training: four IPUs a replica, with embeddings and the masked tokens on the first."""
    return Application(
        source=source,
        kind="bert",
        framework=framework,
        micro_batch=micro_batch,
        stages=4,
        proportions=proportions,
        size=size,
        layers_per_stage=_LARGE_LAYERS if size == "large" else _BASE_LAYERS,
        length=length,
        ipus=ipus,
        off_chip_state=True,
        attention_dropout=False,
    )


def _squad(source: str, framework: str, *proportions: float) -> Application:
    """Fine-tuning of the large BERT: eight IPUs a replica."""
    return Application(
        source=source,
        kind="bert",
        framework=framework,
        micro_batch=4,
        stages=8,
        proportions=proportions,
        size="large",
        length=384,
        global_batches=(256,),
        layers_per_stage=(2, 3, 3, 3, 3, 3, 3, 4),
        shared_state=True,
    )


def _cnn(kind: str, size: str, micro_batch: int, proportion: float, *batches: int, **more: Any) -> Application:
    """Convolutional networks of TensorFlow 1."""
    fields = {"source": _CNN_TF1, "framework": "TensorFlow1", "stages": 1, "momentum": True, **more}
    return Application(
        kind=kind, size=size, micro_batch=micro_batch, proportions=(proportion,), global_batches=batches, **fields
    )


def _torch(source: str, kind: str, micro_batch: int, layers: tuple[int, ...], **more: Any) -> Application:
    """An application of PyTorch that states its layers on each IPU."""
    fields = {"proportions": (DEFAULT_PROPORTION,), "framework": "PyTorch", "stages": len(layers), **more}
    return Application(source=source, kind=kind, micro_batch=micro_batch, layers_per_stage=layers, **fields)


# Layers as they were cut in submissions: embeddings on the first IPU, and the last layers there, too, beside the heads.
_FOUR_IPUS = ((0, 0), (7, 6), (6, 7), (7, 6), (4, 5))
_EIGHT_IPUS = ((0, 0), (2, 2), (3, 3), (4, 3), (3, 4), (4, 3), (3, 4), (4, 3), (1, 2))
_EIGHT_IPUS_LATER = ((0, 0), (3, 3), (3, 3), (3, 3), (4, 3), (3, 4), (4, 3), (3, 4), (1, 1))
_MLPERF_BERT = "training_results_{} Graphcore bert popart configs"
_MLPERF_RESNET = "training_results_v2.0 Graphcore resnet tensorflow configs"


def _name_submissions(pod: str, division: str) -> Iterator[str]:
    """Both frameworks of a submission, as the vendor names them, and its partner."""
    yield from (f"ipu-{pod}-{framework}-{division}" for framework in ("POPART", "PaddlePaddle"))
    yield f"IPU_{pod.upper()}_PaddlePaddle"


def _submit(version: str, release: str, *submissions: str, stages: int = 8, **more: Any) -> Application:
    """A submission of BERT to MLPerf."""
    fields = {"micro_batch": 2, "proportions": (1.0,), "shared_state": True, "attention_dropout": False, **more}
    return Application(
        source=f"{version} " + _MLPERF_BERT.format(version),
        kind="bert",
        framework="",
        size="large",
        stages=stages,
        submissions=tuple(name for each in submissions for name in _name_submissions(*each.split())),
        release=release,
        **fields,
    )


def _submit_on_four(version: str, release: str, *proportions: float, **more: Any) -> Application:
    """The same on few IPUs: optimizer state off chip."""
    fields = {"stages": 4, "shared_state": False, "off_chip_state": True, "proportions": proportions, **more}
    return _submit(version, release, "pod16 open", "pod16 closed", **fields)


_EIGHT_PROPORTIONS = (0.2, *(0.25,) * 7)
SUBMISSIONS: tuple[Application, ...] = (
    _submit("v1.0", "2.1", "pod64 closed", "pod64 open", layers_per_stage=(0, 3, 3, 3, 3, 4, 4, 4)),
    _submit_on_four("v1.0", "2.1", 0.2, 0.2, 0.25, 0.25, layers_per_stage=(3, 7, 7, 7)),
    _submit(
        *("v1.1", "2.3", "pod64 closed", "pod64 open", "pod128 closed", "pod128 open"),
        parts_per_stage=_EIGHT_IPUS,
        proportions=_EIGHT_PROPORTIONS,
    ),
    _submit_on_four("v1.1", "2.3", 0.23, parts_per_stage=_FOUR_IPUS),
    *(
        _submit(
            *("v2.0", "2.5", *pods),
            parts_per_stage=_EIGHT_IPUS_LATER,
            micro_batch=3,
            attention_dropout=True,
            proportions=(proportion,),
        )
        for pods, proportion in ((("pod16 closed",), 0.3), (("pod64 closed", "pod128 closed", "pod256 closed"), 1.0))
    ),
    *(
        Application(
            source=f"v2.0 {_MLPERF_RESNET}",
            kind="resnet",
            framework="TensorFlow",
            size="50",
            micro_batch=micro_batch,
            stages=1,
            proportions=(0.15,),
            global_batches=batches,
            recompute=Recompute.ALL,
            momentum=True,
            submissions=tuple(f"ipu-pod{count}-TF1{end}" for count in (16, 64, 128, 256) for end in ("", "-closed")),
        )
        for micro_batch, batches in ((20, (1920, 2560, 3200, 3840, 5120, 10240)), (22, (3520,)))
    ),
)

APPLICATIONS: tuple[Application, ...] = (
    *SUBMISSIONS,
    _bert(_BERT_PYTORCH, "PyTorch", 8, 0.15, 0.25, 0.25, 0.25, size="large", length=128, ipus=16),
    _bert(_BERT_PYTORCH, "PyTorch", 8, 0.14, 0.19, 0.19, 0.19, size="large", length=128),
    _bert(_BERT_PYTORCH, "PyTorch", 2, 0.1, 0.15, 0.15, 0.15, size="large", length=512),
    _bert(_BERT_PYTORCH, "PyTorch", 32, 0.25, size="base", length=128),
    _bert(_BERT_PYTORCH, "PyTorch", 8, 0.25, size="base", length=384),
    _bert(_BERT_PYTORCH, "PyTorch", 8, 0.25, size="base", length=512),
    _bert(_BERT_POPART, "PopART", 8, 0.15, 0.25, 0.25, 0.25, size="large", length=128),
    _bert(_BERT_POPART, "PopART", 2, 0.16, 0.21, 0.21, 0.21, size="large", length=512),
    _bert(_BERT_POPART, "PopART", 32, 0.28, size="base", length=128),
    _bert(_BERT_POPART, "PopART", 8, 0.28, size="base", length=512),
    _bert(_BERT_TF2, "TensorFlow2", 8, 0.15, 0.19, 0.25, 0.25, size="large", length=128, ipus=16),
    _bert(_BERT_TF2, "TensorFlow2", 8, 0.1, 0.19, 0.2, 0.2, size="large", length=128),
    _bert(_BERT_TF2, "TensorFlow2", 32, 0.28, 0.26, 0.28, 0.28, size="base", length=128),
    _bert(_BERT_TF2, "TensorFlow2", 8, 0.28, 0.26, 0.28, 0.28, size="base", length=384),
    _bert(_BERT_TF1, "TensorFlow1", 8, 0.15, 0.25, 0.25, 0.25, size="large", length=128),
    _squad("v3.0.0 nlp/bert/pytorch/configs_squad.yml", "PyTorch", 0.08, 0.28, 0.32, 0.32, *_LAST_STAGES),
    _squad("v3.1.0 nlp/bert/popart/configs/squad_large_384.json", "PopART", 0.1, 0.3, 0.32, 0.34, *_LAST_STAGES),
    _cnn("resnet", "50", 20, 0.145, 1920, 2560, 5120, 10240, recompute=Recompute.ALL),
    _cnn("resnet", "50", 22, 0.145, 3520, recompute=Recompute.ALL),
    _cnn("resnext", "101", 6, DEFAULT_PROPORTION, 768, stages=2, layers_per_stage=(11, 22)),
    _cnn("efficientnet", "b4", 3, 0.4, 6144, stages=2, layers_per_stage=(11, 21)),
    _torch(_CNN_PYTORCH, "efficientnet", 4, (10, 22), size="b4", proportions=(0.1,), momentum=True),
    _torch(_VIT, "vit", 8, (3, 3, 3, 3), proportions=(0.3,), global_batches=(65536,), shared_state=True),
    _torch(
        *(_VIT, "vit", 17, (3, 3, 3, 3)),
        proportions=(0.3,),
        global_batches=(2040,),
        momentum=True,
        attention_dropout=False,
        shared_state=True,
    ),
    _torch(_SWIN, "swin", 4, (2, 3, 5, 2), size="tiny"),
    _torch(_SWIN, "swin", 4, (2, 2, 3, 3, 5, 5, 2, 2), size="base"),
    _torch(_SWIN, "swin", 6, (2, 3, 4, 4, 4, 4, 2, 1), size="large"),
    _torch("v3.0.0 multimodal/mini_dalle/pytorch/configs.yml", "picture decoder", 3, (0, 6, 6, 4)),
    _torch(
        "v3.0.0 speech/conformer/pytorch/configs/train.yaml",
        "conformer",
        4,
        (2, 4, 5, 1),
        proportions=(0.3,),
        framework="",
        global_batches=(16128,),
    ),
    Application(
        source="v1 graphcore-research/flash-attention-ipu demo/train.py",
        kind="decoder",
        framework="",
        micro_batch=2,
        stages=1,
        proportions=(0.08,),
        recompute=Recompute.NONE,
    ),
    Application(
        source="v3.0.0 vision/unet_medical/tensorflow2/benchmarks.yml",
        kind="unet",
        framework="TensorFlow2",
        micro_batch=1,
        stages=4,
        proportions=(DEFAULT_PROPORTION,),
    ),
)
