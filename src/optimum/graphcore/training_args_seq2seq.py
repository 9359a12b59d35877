"""`IPUSeq2SeqTrainingArguments`: training arguments of models that generate text."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from transformers import GenerationConfig

from optimum.graphcore.training_args import IPUTrainingArguments


@dataclass
class IPUSeq2SeqTrainingArguments(IPUTrainingArguments):
    """Arguments of `IPUSeq2SeqTrainer`."""

    sortish_sampler: bool = field(default=False, metadata={"help": "Deprecated: train_sampling_strategy."})
    predict_with_generate: bool = field(
        default=False, metadata={"help": "Evaluate what the model generates, as ROUGE and BLEU need it."}
    )
    generation_max_length: int | None = field(default=None, metadata={"help": "Length of generated sequences."})
    generation_num_beams: int | None = field(default=None, metadata={"help": "Beams of the search."})
    generation_config: str | Path | GenerationConfig | None = field(
        default=None, metadata={"help": "A generation configuration: its id, its path, or the object."}
    )

    def to_dict(self) -> dict[str, Any]:
        """All fields as plain values, a generation configuration too."""
        values = super().to_dict()
        config = values.get("generation_config")
        if isinstance(config, GenerationConfig):
            values["generation_config"] = config.to_dict()
        return values
