"""Model cards: those of Transformers, with what concerns the IPU.

In: a trainer after training. Out: the text of README.md beside the model.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers.modelcard import TrainingSummary

from openipu.saving import save_text
from optimum.graphcore.training.optimizers import uses_lamb


@dataclass
class IPUTrainingSummary(TrainingSummary):
    """How a model was trained."""

    @classmethod
    def from_trainer(cls, trainer: Any, **kwargs: Any) -> IPUTrainingSummary:
        """The summary of a trainer of ours: batches and number format are those of its programs."""
        summary: IPUTrainingSummary = super().from_trainer(trainer, **kwargs)
        config, args = trainer.ipu_config, trainer.args
        batches = {
            "total_train_batch_size": args.train_batch_size * config.batch_size_factor(),
            "total_eval_batch_size": args.eval_batch_size * config.batch_size_factor(for_inference=True),
        }
        own: dict[str, Any] = {
            "distributed_type": "IPU",
            "training_precision": "float32" if args.fp32 else "half",
            "ipu_config": ", ".join(
                f"{name}={getattr(config, name)}"
                for name in ("ipus_per_replica", "replication_factor", "gradient_accumulation_steps", "layers_per_ipu")
            ),
        }
        if uses_lamb(args):
            own["optimizer"] = "LAMB"
        modelled = getattr(trainer.state, "ipu", {}).get("training")
        if modelled:
            own["modelled_throughput"] = (
                f"{modelled['samples_per_second_modelled']:,.0f} samples/s on {modelled['ipus']} IPU(s) of "
                f"{modelled['system']}"
            )
        summary.hyperparameters = {**(summary.hyperparameters or {}), **batches, **own}
        return summary


def write_model_card(trainer: Any, **kwargs: Any) -> Path:
    """Write the card of a trainer's model into its output directory."""
    path = Path(trainer.args.output_dir, "README.md")
    save_text(path, IPUTrainingSummary.from_trainer(trainer, **kwargs).to_model_card())
    return path
