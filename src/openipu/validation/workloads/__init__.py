"""Whole models that published figures name: layouts and predictions.

The pipeline is the module list: `recognise` (which model of `openipu.models` a row means), `setups` (how a user would
lay it out), `stages` and `programs` (captured and planned), `benchmarks` (what a run needs besides an IPU), `predict`
(the metric).
"""

from openipu.models.builders import build_model
from openipu.models.spec import ModelSpec
from openipu.validation.workloads.predict import plan_row, predict_row
from openipu.validation.workloads.programs import Measured, Setup, count_parameters, measure_setup, plan_setup
from openipu.validation.workloads.recognise import recognise_model

__all__ = [
    "Measured",
    "ModelSpec",
    "Setup",
    "build_model",
    "count_parameters",
    "measure_setup",
    "plan_row",
    "plan_setup",
    "predict_row",
    "recognise_model",
]
