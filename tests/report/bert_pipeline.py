"""BERT-base in training over four IPUs: the planning job of the browser tests and of the pictures in the docs."""

from __future__ import annotations

import torch
import transformers
from torch import Tensor, nn

import poptorch
from openipu.graph import RunOptions
from openipu.jobs import PlanningJob, run_job
from openipu.plan import Plan

STAGE_STARTS = (3, 6, 9)  # encoder layers


class TokenLoss(nn.Module):
    """A masked language model that returns its loss."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, tokens: Tensor, labels: Tensor) -> Tensor:
        logits = self.body(tokens).logits
        return nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())


def plan_bert_on_four_ipus(accumulation: int = 16, batch: int = 2) -> Plan:
    """Three encoder layers to an IPU."""
    with torch.device("meta"):
        model = TokenLoss(transformers.BertForMaskedLM(transformers.BertConfig()).half().train())
    for ipu, layer in enumerate(STAGE_STARTS, start=1):
        poptorch.BeginBlock(model.body.bert.encoder.layer[layer], f"stage {ipu}", ipu_id=ipu)
    tokens = torch.empty(batch, 128, dtype=torch.long, device="meta")
    job = PlanningJob(
        model=model,
        args=(tokens, tokens),
        training=True,
        optimizer=torch.optim.AdamW(model.parameters(), lr=1e-4),
        options=RunOptions(training=True, gradient_accumulation=accumulation),
        name="bert-base on 4 IPUs",
    )
    return run_job(job, "bow-2000")
