"""The automatic split: how long a search takes where something fits, and where nothing does.

In: nothing. Out: a line for each search, with plans, seconds and what was found, and a mark where it took longer than
it may.

    python -m bench.search_speed [NAME …]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import transformers
from torch import Tensor, nn

from openipu.explore.auto import Split, find_split
from openipu.graph import RunOptions
from openipu.jobs import PlanningJob

MOST_SECONDS_FOUND, MOST_SECONDS_NOT_FOUND = 10.0, 30.0  # on two cores that do nothing else
BERT_LARGE = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096}
GPT2_XL = {"n_embd": 1600, "n_layer": 48, "n_head": 25, "use_cache": False}


@dataclass(frozen=True)
class Search:
    """One search, and whether anything is there to be found."""

    name: str
    make_job: Callable[[], PlanningJob]
    system: str
    fits: bool

    @property
    def most_seconds(self) -> float:
        return MOST_SECONDS_FOUND if self.fits else MOST_SECONDS_NOT_FOUND


class MaskedTokens(nn.Module):
    """Pre-training of BERT: of 128 tokens the head sees the 20 that are predicted."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body: Any = body

    def forward(self, tokens: Tensor, places: Tensor, labels: Tensor) -> Tensor:
        hidden = self.body.bert(tokens, return_dict=False)[0]
        seen = hidden.gather(1, places.unsqueeze(-1).expand(-1, -1, hidden.shape[-1]))
        return nn.functional.cross_entropy(self.body.cls(seen).flatten(0, 1), labels.flatten())


class NextTokens(nn.Module):
    """Training of a language model on whole sequences."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, tokens: Tensor, labels: Tensor) -> Tensor:
        return nn.functional.cross_entropy(self.body(tokens).logits.flatten(0, 1), labels.flatten())


def make_bert(half: bool) -> PlanningJob:
    """BERT-large with AdamW, micro-batch 8, 16,384 samples between two updates."""
    config = transformers.BertConfig(**BERT_LARGE)
    config._attn_implementation = "eager"
    with torch.device("meta"):
        body = transformers.BertForMaskedLM(config).train()
        model = MaskedTokens(body.half() if half else body)
        tokens, masked = torch.empty(8, 128, dtype=torch.long), torch.empty(8, 20, dtype=torch.long)
    return _make_job(model, (tokens, masked, masked), RunOptions(training=True, gradient_accumulation=512, replicas=4))


def make_gpt() -> PlanningJob:
    """GPT-2 XL with AdamW in half precision, one sequence of 1,024 tokens."""
    config = transformers.GPT2Config(**GPT2_XL)
    config._attn_implementation = "eager"
    with torch.device("meta"):
        model = NextTokens(transformers.GPT2LMHeadModel(config).half().train())
        tokens = torch.empty(1, 1024, dtype=torch.long)
    return _make_job(model, (tokens, tokens), RunOptions(training=True, gradient_accumulation=512))


def _make_job(model: nn.Module, inputs: tuple[Tensor, ...], options: RunOptions) -> PlanningJob:
    optimizer = torch.optim.AdamW(model.parameters())
    return PlanningJob(model=model, args=inputs, training=True, optimizer=optimizer, options=options)


SEARCHES = (
    Search("BERT-large, half, POD16", lambda: make_bert(half=True), "pod16", fits=True),
    Search("BERT-large, float32, 4 IPUs", lambda: make_bert(half=False), "bow-2000", fits=False),
    Search("GPT-2 XL, half, 4 IPUs", make_gpt, "bow-2000", fits=False),
)


def describe(search: Search, split: Split, cpu_seconds: float) -> str:
    """One line."""
    if split.fits:
        found = f"{split.samples_per_second:,.0f} samples/s with micro-batch {split.micro_batch}"
    else:
        found = "nothing fits, proven" if split.complete else "nothing that fits was found, not proven"
    late = "" if split.seconds <= search.most_seconds else f"  MISSED: more than {search.most_seconds:g} s"
    times = f"{split.seconds:6.1f} s ({cpu_seconds:.1f} s of CPU)"
    return f"{search.name:30} {times} {split.plans_made:4} plans  {found}{late}"


def main() -> None:
    wanted = sys.argv[1:]
    for search in SEARCHES:
        if wanted and not any(word in search.name for word in wanted):
            continue
        job = search.make_job()
        started = time.process_time()
        split = find_split(job, search.system)
        print(describe(search, split, time.process_time() - started), flush=True)


if __name__ == "__main__":
    main()
