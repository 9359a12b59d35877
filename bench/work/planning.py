"""Planning of a BERT on meta tensors.

In: a number of layers. Out: seconds of capturing and of planning a training step.
"""

from __future__ import annotations

import time

import torch
from transformers import BertConfig, BertForSequenceClassification

from bench.models import WithLoss
from openipu.capture import describe_optimizer
from openipu.graph import RunOptions
from openipu.session import plan_model

CAPTURED_PERCENT = 45  # where the session's progress stands when planning begins


class Planner:
    """Plans BERTs of BERT-base's width."""

    def plan(self, layers: int) -> dict[str, float]:
        """One training step with AdamW on two sequences of 128 tokens."""
        with torch.device("meta"):
            model = WithLoss(BertForSequenceClassification(BertConfig(num_hidden_layers=layers)))
            inputs = (torch.empty(2, 128, dtype=torch.long), torch.empty(2, dtype=torch.long))
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
        names = {id(parameter): name for name, parameter in model.named_parameters()}
        marks: dict[int, float] = {}
        started = time.perf_counter()
        plan_model(
            model,
            inputs,
            options=RunOptions(training=True),
            optimizer=describe_optimizer(optimizer, names),
            progress=lambda percent: marks.update({percent: time.perf_counter()}),
        )
        ended = time.perf_counter()
        return {
            "capture_seconds": marks[CAPTURED_PERCENT] - started,
            "plan_seconds": ended - marks[CAPTURED_PERCENT],
        }
