"""`IPUTrainingArguments`: Transformers' training arguments, and those of the IPU.

In: fields, from Python or the command line (`HfArgumentParser` reads them). Out: the same object, checked, with what
concerns the IPU collected in `ipu_config_overrides`.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from transformers import TrainingArguments
from transformers.training_args import OptimizerNames

import poptorch
from optimum.graphcore._argument_rules import ALLOWED_N_IPU, refuse_impossible, translate_old_names

__all__ = ["ALLOWED_N_IPU", "IPUTrainingArguments", "OptimizerNames", "ParallelMode"]

_LOADER_MODES = {
    "sync": poptorch.DataLoaderMode.Sync,
    "async": poptorch.DataLoaderMode.Async,
    "async_rebatched": poptorch.DataLoaderMode.AsyncRebatched,
}


class ParallelMode(Enum):
    """How a run is parallel: always over IPUs, in one process."""

    IPU = "ipu"


@dataclass
class IPUTrainingArguments(TrainingArguments):
    """Arguments of `IPUTrainer`. All of Transformers' are accepted; those that cannot work raise ValueError."""

    per_device_train_batch_size: int = field(default=1, metadata={"help": "Examples of one micro-batch on a replica."})
    per_device_eval_batch_size: int = field(default=1, metadata={"help": "Examples of one micro-batch on a replica."})
    gradient_accumulation_steps: int | None = field(
        default=None, metadata={"help": "Micro-batches of one weight update. Default: what the IPUConfig says."}
    )
    logging_nan_inf_filter: bool = field(default=False, metadata={"help": "Hide losses that are NaN or infinite."})
    use_cpu: bool = field(default=True, metadata={"help": "The host runs the program; no other device is looked for."})

    ipu_config_name: str | None = field(
        default=None, metadata={"help": "Name or path of an IPUConfig, if none is passed to the trainer."}
    )
    n_ipu: int | None = field(default=None, metadata={"help": "IPUs to use: replicas are added until they are taken."})
    fp32: bool = field(default=False, metadata={"help": "Train in float32. Half precision is the default."})
    lamb: bool = field(default=False, metadata={"help": "Use the LAMB optimizer."})
    lamb_no_bias_correction: bool = field(default=False, metadata={"help": "LAMB without correction of its moments."})
    adam_no_bias_correction: bool = field(default=False, metadata={"help": "AdamW without correction of its moments."})
    loss_scaling: float | None = field(
        default=None, metadata={"help": "What the loss is multiplied by before backward; gradients are divided again."}
    )
    auto_loss_scaling: bool = field(default=False, metadata={"help": "Let the loss scale follow the gradients."})
    dataloader_mode: str = field(
        default="sync", metadata={"help": "How batches are loaded.", "choices": list(_LOADER_MODES)}
    )
    compile_only: bool = field(default=False, metadata={"help": "Compile and plan, then end without running."})
    ipu_config_overrides: str | None = field(
        default=None, metadata={"help": "Fields of the IPUConfig to change: key=value,key=[a b]"}
    )
    pad_on_batch_axis: bool = field(
        default=False, metadata={"help": "Fill the last batch of an epoch by repeating its examples."}
    )

    # Names of earlier versions: read, translated, and never written.
    evaluation_strategy: str | None = field(default=None, metadata={"help": "Deprecated: eval_strategy."})
    warmup_ratio: float | None = field(default=None, metadata={"help": "Deprecated: a fraction in warmup_steps."})
    overwrite_output_dir: bool | None = field(default=None, metadata={"help": "Deprecated: no effect."})
    logging_dir: str | None = field(default=None, metadata={"help": "Deprecated: no effect."})
    past_index: int | None = field(default=None, metadata={"help": "Deprecated: no effect."})
    group_by_length: bool | None = field(default=None, metadata={"help": "Deprecated: train_sampling_strategy."})
    include_inputs_for_metrics: bool | None = field(default=None, metadata={"help": "Deprecated: include_for_metrics."})
    save_safetensors: bool | None = field(default=None, metadata={"help": "Deprecated: no effect."})
    no_cuda: bool | None = field(default=None, metadata={"help": "Deprecated: no effect."})
    push_to_hub_model_id: str | None = field(default=None, metadata={"help": "Deprecated: hub_model_id."})
    push_to_hub_token: str | None = field(default=None, metadata={"help": "Deprecated: hub_token."})
    pod_type: str | None = field(default=None, metadata={"help": "Deprecated: n_ipu."})

    def __post_init__(self) -> None:
        self.use_cpu = True
        translate_old_names(self)
        refuse_impossible(self)
        self.ipu_config_overrides = self._collect_overrides()
        if self.gradient_accumulation_steps is None:
            self.gradient_accumulation_steps = 1
        # Both are decided now: the program recomputes by itself, and half is what a program is in unless fp32 is set.
        self.gradient_checkpointing = self.fp16 = False
        super().__post_init__()
        if isinstance(self.dataloader_mode, str):
            if self.dataloader_mode not in _LOADER_MODES:
                raise ValueError(
                    f"dataloader_mode={self.dataloader_mode!r} is not one of {', '.join(map(repr, _LOADER_MODES))}."
                )
            self.dataloader_mode = _LOADER_MODES[self.dataloader_mode]

    def _collect_overrides(self) -> str | None:
        parts = [self.ipu_config_overrides] if self.ipu_config_overrides else []
        if self.gradient_accumulation_steps is not None:
            parts.append(f"gradient_accumulation_steps={self.gradient_accumulation_steps}")
        if self.auto_loss_scaling:
            parts.append("auto_loss_scaling=True")
        if self.gradient_checkpointing:
            parts.append("recompute_checkpoint_every_layer=True")
        return ",".join(parts) or None

    @classmethod
    def from_training_arguments(cls, args: TrainingArguments) -> IPUTrainingArguments:
        """The same arguments for an IPU. Those of plain Transformers say float32 unless they say half."""
        if isinstance(args, cls):
            return args
        values = {
            entry.name: getattr(args, entry.name) for entry in dataclasses.fields(TrainingArguments) if entry.init
        }
        values["accelerator_config"] = None
        return cls(**values, fp32=not args.fp16)

    def to_dict(self) -> dict[str, Any]:
        """All fields as plain values, without those of earlier versions."""
        values: dict[str, Any] = super().to_dict()
        values["dataloader_mode"] = next(
            (name for name, mode in _LOADER_MODES.items() if mode == self.dataloader_mode), self.dataloader_mode
        )
        return {name: value for name, value in values.items() if name not in _OLD_NAMES}


_OLD_NAMES = frozenset(
    entry.name
    for entry in dataclasses.fields(IPUTrainingArguments)
    if str(entry.metadata.get("help", "")).startswith("Deprecated:")
)
