"""What MLPerf training runs need besides an IPU: samples until the model is good enough, and time that is not training.

These are facts of the benchmark, not of a machine. Samples to converge are the published products of time and rate of
the runs that state both (`docs/fidelity.md` has the arithmetic); larger batches need more samples. Starts and
evaluations are read off the time stamps of public logs: mlcommons/training_results_v1.0, v1.1 and v2.0.
"""

from __future__ import annotations

from dataclasses import dataclass

from openipu.models.spec import ModelSpec
from openipu.validation.figures import FigureRow

IMAGENET_IMAGES = 1_281_167
RESNET_EPOCHS = 38.0  # with LARS
RESNET_EPOCHS_SGD = 44.0  # rules of the round of SDK 2.1
RESNET_EVALUATION_SECONDS = 40.0
RESNET_EVALUATION_SECONDS_FIRST = 137.0  # of the round of SDK 2.1: the other program is loaded after training
BERT_SAMPLES = 2.57e6  # at BERT_BATCH
BERT_BATCH = 3072
BERT_BATCH_EXPONENT = 0.36
BERT_OPEN_SHARE = 0.85  # the open division may tune more
BERT_EVALUATED = 25_000  # sequences: evaluations are so many apart, or a multiple
OTHER_OVERHEAD_SECONDS = 20.0
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


@dataclass(frozen=True, slots=True)
class Evaluations:
    """Seconds besides training of BERT: once, for each evaluation, and for each on one IPU, shared by all."""

    start: float
    each: float
    shared: float


# By the release of the SDK. 2.1 and 2.3: 8.2 s on 16 IPUs and 2.6 s on 64; in 2.5 0.3 s on 128.
BERT_EVALUATIONS = {"2.5": Evaluations(4.0, 0.28, 0.0)}
BERT_EVALUATIONS_FIRST = Evaluations(16.0, 0.74, 119.0)


def find_overhead_seconds(row: FigureRow, spec: ModelSpec) -> float:
    """Start, evaluation and the like, within the measured time."""
    if spec.kind == "resnet":
        return RESNET_EVALUATION_SECONDS_FIRST if row.sdk.startswith("2.1") else RESNET_EVALUATION_SECONDS
    needed = count_samples_to_train(row, spec)
    if spec.kind != "bert" or needed is None:
        return OTHER_OVERHEAD_SECONDS
    known = next((entry for release, entry in BERT_EVALUATIONS.items() if row.sdk.startswith(release)), None)
    times = known or BERT_EVALUATIONS_FIRST
    count = needed / find_evaluation_interval(float(row.params["global_batch"]))
    return times.start + count * (times.each + times.shared / row.ipus)


def find_evaluation_interval(batch: float) -> int:
    """Sequences between two evaluations of BERT: the rule of the benchmark, rounded down."""
    return int(0.05 * (230.23 * batch + 3_000_000) // BERT_EVALUATED) * BERT_EVALUATED
