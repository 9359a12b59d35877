"""Training arguments that Transformers has, or had, and what becomes of them here.

In: an arguments object. Out: the same one with old names translated; ValueError for what cannot work, one log line for
what has no effect.
"""

from __future__ import annotations

import warnings
from typing import Any

from optimum.utils import logging

from optimum.graphcore._config_legacy import count_pod_ipus

logger = logging.get_logger(__name__)

ALLOWED_N_IPU = (1, 2, 4, 8, 16, 32, 64)

# Fields of Transformers that would change the program in a way that an IPU does not have: (wanted value, why not).
_IMPOSSIBLE: dict[str, tuple[Any, str]] = {
    "bf16": (False, "an IPU has no bfloat16. Half precision is the default, `fp32=True` turns it off"),
    "bf16_full_eval": (False, "an IPU has no bfloat16. Half precision is the default, `fp32=True` turns it off"),
    "torch_compile": (False, "the program is compiled as a whole already. Leave it out"),
    "deepspeed": (None, "replicas and off-chip memory are set in the IPUConfig"),
    "fsdp": ((None, "", []), "replicated tensor sharding is set in the IPUConfig"),
    "parallelism_config": (None, "layers and replicas are spread by the IPUConfig"),
    "use_liger_kernel": (False, "its kernels are written for GPUs"),
    "auto_find_batch_size": (False, "whether a batch fits is known from the plan. See `openipu explain`"),
    "optim_target_modules": (None, "optimizers that act on some modules only have no counterpart on the IPU"),
    "gradient_checkpointing_kwargs": (None, "recomputation is set in the IPUConfig"),
    "batch_eval_metrics": (False, "metrics are computed once, over all batches"),
}
_WITHOUT_EFFECT: dict[str, tuple[Any, str]] = {
    "eval_accumulation_steps": (None, "predictions are on the host after every call"),
    "torch_empty_cache_steps": (None, "there is no cache of device memory"),
    "tf32": (None, "float32 products are computed in float32"),
    "past_index": (None, "state from one batch to the next is not kept"),
    "overwrite_output_dir": (None, "checkpoints are only resumed from when asked for"),
    "logging_dir": (None, "set TENSORBOARD_LOGGING_DIR instead"),
    "save_safetensors": (None, "weights are always written as safetensors"),
    "no_cuda": (None, "no GPU is used"),
    "ddp_backend": (None, "one process runs all replicas"),
}
_RENAMED = {
    "evaluation_strategy": "eval_strategy",
    "push_to_hub_model_id": "hub_model_id",
    "push_to_hub_token": "hub_token",
    "warmup_ratio": "warmup_steps",
}


def translate_old_names(args: Any) -> None:
    """Move values given under an older name to today's, with a warning, and forget the older name."""
    for old, new in _RENAMED.items():
        value = getattr(args, old, None)
        if value is not None:
            _warn(f"`{old}` is deprecated, use `{new}`.")
            setattr(args, new, value)
            setattr(args, old, None)
    if args.group_by_length:
        _warn('`group_by_length` is deprecated, use `train_sampling_strategy="group_by_length"`.')
        args.train_sampling_strategy, args.group_by_length = "group_by_length", None
    if args.include_inputs_for_metrics:
        _warn('`include_inputs_for_metrics` is deprecated, use `include_for_metrics=["inputs"]`.')
        args.include_for_metrics, args.include_inputs_for_metrics = [*args.include_for_metrics, "inputs"], None
    if args.pod_type is not None:
        _warn("`pod_type` is deprecated, use `n_ipu`.")
        args.n_ipu, args.pod_type = args.n_ipu or count_pod_ipus(args.pod_type), None


def refuse_impossible(args: Any) -> None:
    """Raise ValueError for the first argument that cannot work; tell of those without effect."""
    for name, (usual, reason) in _IMPOSSIBLE.items():
        if not _is_usual(getattr(args, name, usual), usual):
            raise ValueError(f"`{name}={getattr(args, name)!r}` cannot be used with IPUs: {reason}.")
    if args.fp16 and args.fp32:
        raise ValueError("`fp16` and `fp32` are both set. Half precision is the default: leave `fp16` out, or `fp32`.")
    if args.n_ipu is not None and args.n_ipu not in ALLOWED_N_IPU:
        raise ValueError(f"`n_ipu={args.n_ipu}` is not a number of IPUs that can be reserved: {ALLOWED_N_IPU}.")
    for name, (usual, reason) in _WITHOUT_EFFECT.items():
        if not _is_usual(getattr(args, name, usual), usual):
            logger.warning("`%s` has no effect: %s.", name, reason)


def _is_usual(value: Any, usual: Any) -> bool:
    return value in usual if isinstance(usual, tuple) else value == usual


def _warn(message: str) -> None:
    warnings.warn(message, FutureWarning, stacklevel=5)
