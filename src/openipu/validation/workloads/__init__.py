"""Whole models that published figures name: builders, layouts, predictions.

The pipeline is the module list: `recognise` (which model a row means), `models` with `vision`, `encoders`, `decoders`,
`swin`, `speech`, `tables`, `graphs` (the model), `setups` (how a user would lay it out), `stages` and `programs`
(captured and planned), `benchmarks` (what a run needs besides an IPU), `predict` (the metric).
"""

from openipu.validation.workloads.models import build_model
from openipu.validation.workloads.predict import predict_row
from openipu.validation.workloads.programs import Measured, Setup, measure_setup, plan_setup
from openipu.validation.workloads.recognise import recognise_model
from openipu.validation.workloads.spec import ModelSpec

__all__ = [
    "Measured",
    "ModelSpec",
    "Setup",
    "build_model",
    "measure_setup",
    "plan_setup",
    "predict_row",
    "recognise_model",
]
