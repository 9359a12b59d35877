"""What MLPerf training runs need besides an IPU: samples until the model is good enough, and time that is not training.

These are facts of the benchmark, not of a machine. Samples to converge are the published products of time and rate of
the runs that state both (`docs/fidelity.md` has the arithmetic); larger batches need more samples.
"""

from __future__ import annotations

from openipu.validation.figures import FigureRow
from openipu.validation.workloads.spec import ModelSpec

IMAGENET_IMAGES = 1_281_167
RESNET_EPOCHS = 38.0  # with LARS
RESNET_EPOCHS_SGD = 44.0  # rules of the round of SDK 2.1
RESNET_EVALUATION_SECONDS = 40.0
BERT_SAMPLES = 2.57e6  # at BERT_BATCH
BERT_BATCH = 3072
BERT_BATCH_EXPONENT = 0.36
BERT_OPEN_SHARE = 0.85  # the open division may tune more
BERT_EVALUATION_SECONDS = 20.0
LIBRISPEECH_UTTERANCES = 278_528
TRANSDUCER_EPOCHS = 65.0


def count_samples_to_train(row: FigureRow, spec: ModelSpec) -> float | None:
    """Samples until the target quality is reached."""
    batch = float(row.params.get("global_batch", 0))
    if spec.kind == "resnet":
        return IMAGENET_IMAGES * (RESNET_EPOCHS_SGD if row.sdk.startswith("2.1") else RESNET_EPOCHS)
    if spec.kind == "bert" and batch:
        share = BERT_OPEN_SHARE if "open" in str(row.params.get("submission", "")) else 1.0
        return float(BERT_SAMPLES * share * (batch / BERT_BATCH) ** BERT_BATCH_EXPONENT)
    if spec.kind == "transducer":
        return LIBRISPEECH_UTTERANCES * TRANSDUCER_EPOCHS
    return None


def find_overhead_seconds(row: FigureRow) -> float:
    """Evaluation and the like, within the measured time."""
    return RESNET_EVALUATION_SECONDS if "resnet" in row.workload.lower() else BERT_EVALUATION_SECONDS
