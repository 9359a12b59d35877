"""Configurations from the plan of a model: `layers_per_ipu="auto"` and `IPUConfig.auto`.

In: a model, one micro-batch, a system. Out: an `IPUConfig` whose split fits the memory of the IPUs and is the fastest
that was found. Nothing runs and no weights are copied: the shapes are enough.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import torch
from optimum.utils import logging
from torch import nn

from openipu.explore.auto import Split, find_split
from openipu.jobs import PlanningJob
from openipu.machine import System
from optimum.graphcore._config_fields import AUTO, IncompatibleIPUConfigError
from optimum.graphcore.ipu_configuration import IPUConfig
from optimum.graphcore.models.generic.chain import find_layer_chain
from optimum.graphcore.training.random_state import preserve_random_state
from optimum.graphcore.training.steps import EvaluationStep, TrainingStep

logger = logging.get_logger(__name__)

LABELS = ("labels", "start_positions", "end_positions")
_PREFIX = "model."  # of the model's modules, in the step that is planned


def settle_layers(
    config: IPUConfig,
    model: nn.Module,
    inputs: Mapping[str, Any],
    *,
    training: bool,
    fp32: bool,
    system: System | str | None = None,
) -> IPUConfig:
    """The configuration with "auto" replaced. Batch, accumulation and replicas stay as they are."""
    if training:
        rounds = config.gradient_accumulation_steps
        wanted = {"replicas": config.replication_factor, "ipus_per_replica": config.ipus_per_replica}
    else:
        rounds = config.inference_device_iterations
        wanted = {
            "replicas": config.inference_replication_factor,
            "ipus_per_replica": config.inference_ipus_per_replica,
        }
    wanted["samples"] = _count_rows(inputs) * rounds * (wanted["replicas"] or 1)
    split = _search(model, inputs, training, fp32, system, wanted)
    return _apply(config, model, split, training)


def find_config(
    model: nn.Module,
    example_inputs: Mapping[str, Any] | None = None,
    *,
    system: System | str | None = None,
    training: bool = True,
    fp32: bool = False,
    batch_size: int = 1,
    sequence_length: int = 128,
    **fields: Any,
) -> IPUConfig:
    """A configuration for a model on a system, from nothing: layers, replicas, accumulation and memory."""
    inputs = example_inputs or make_example(model, batch_size, sequence_length)
    names = ("replication_factor", "ipus_per_replica")
    wanted = {"replicas": fields.get(names[0]), "ipus_per_replica": fields.get(names[1])}
    split = _search(model, inputs, training, fp32, system, wanted)
    found: dict[str, Any] = {"layers_per_ipu": AUTO, "replication_factor": split.options.replicas}
    if training:
        found["gradient_accumulation_steps"] = split.options.gradient_accumulation
    else:
        found |= {
            "inference_replication_factor": split.options.replicas,
            "inference_device_iterations": split.options.device_iterations,
        }
    return _apply(IPUConfig(**{**found, **fields, "layers_per_ipu": AUTO}), model, split, training)


def make_example(model: Any, batch_size: int, sequence_length: int) -> dict[str, torch.Tensor]:
    """One micro-batch for a model, by its class and configuration."""
    name, config = getattr(model, "main_input_name", "input_ids"), getattr(model, "config", None)
    kind = type(model).__name__
    whole = torch.zeros(batch_size, sequence_length, dtype=torch.long)
    one = torch.zeros(batch_size, dtype=torch.long)
    if name == "input_ids":
        shaped = whole.unsqueeze(1).repeat(1, 2, 1) if "MultipleChoice" in kind else whole
        example = {"input_ids": shaped, "attention_mask": torch.ones_like(shaped)}
    elif name == "pixel_values" and config is not None:
        size = config.image_size if isinstance(getattr(config, "image_size", None), int) else 224
        example = {"pixel_values": torch.zeros(batch_size, config.num_channels, size, size)}
    else:
        raise IncompatibleIPUConfigError(
            f"{kind} takes `{name}`, whose shape is not known from its configuration: pass `example_inputs`, one "
            "micro-batch as a dictionary of tensors."
        )
    if "QuestionAnswering" in kind:
        return {**example, "start_positions": one, "end_positions": one}
    single = any(word in kind for word in ("SequenceClassification", "ImageClassification", "MultipleChoice"))
    return {**example, "labels": one if single else whole}


def _search(
    model: Any,
    inputs: Mapping[str, Any],
    training: bool,
    fp32: bool,
    system: System | str | None,
    wanted: Mapping[str, int | None],
) -> Split:
    job = _make_job(model, inputs, training, fp32)
    split = find_split(
        job,
        system,
        **wanted,
        micro_batches=[_count_rows(inputs)],
        head_on_first_ipu=_shares_words(model),
    )
    if not split.fits:
        logger.warning(
            "No split of %s fits %s: the fullest tile needs %s of %s bytes. Use more IPUs for each replica, or a "
            "smaller micro-batch.",
            type(model).__name__,
            split.plan.system.name,
            f"{split.plan.fit.peak_bytes:,}",
            f"{split.plan.fit.limit_bytes:,}",
        )
    logger.info("%s\n%s samples/s (modelled)", split.describe(), f"{split.samples_per_second:,.0f}")
    return split


def _make_job(model: Any, inputs: Mapping[str, Any], training: bool, fp32: bool) -> PlanningJob:
    """What the trainer would compile, for one micro-batch on one IPU."""
    from optimum.graphcore.modeling_utils import to_pipelined  # imports this package's configuration itself

    with preserve_random_state():
        pipelined = to_pipelined(copy.deepcopy(model).to("meta"), IPUConfig(), force=True)
        pipelined.parallelize()
    kept = {name: value for name, value in inputs.items() if value is not None}
    dtype = torch.float32 if fp32 else torch.float16
    kept = {name: value.to(dtype) if value.is_floating_point() else value for name, value in kept.items()}
    pipelined = pipelined.to(dtype)
    if not training:
        step: nn.Module = EvaluationStep(pipelined, take_loss, False, False, ("past_key_values",)).eval()
        kept = {name: value for name, value in kept.items() if name not in LABELS}
        return PlanningJob(model=step, kwargs=kept, name=type(model).__name__)
    step = TrainingStep(pipelined, take_loss).train()
    optimizer = torch.optim.AdamW(step.parameters(), lr=1e-3)
    return PlanningJob(model=step, kwargs=kept, training=True, optimizer=optimizer, name=type(model).__name__)


def take_loss(model: nn.Module, inputs: dict[str, Any]) -> torch.Tensor:
    outputs = model(**inputs)
    loss: torch.Tensor = outputs["loss"] if isinstance(outputs, Mapping) else outputs[0]
    return loss


def _apply(config: IPUConfig, model: nn.Module, split: Split, training: bool) -> IPUConfig:
    settled = copy.deepcopy(config)
    layers = _count_layers(model, split)
    for prefix in ("", "inference_"):
        if getattr(settled, f"{prefix}layers_per_ipu") == AUTO:
            setattr(settled, f"{prefix}layers_per_ipu", list(layers))
            setattr(settled, f"{prefix}ipus_per_replica", len(layers))
            setattr(settled, f"{prefix}matmul_proportion", list(split.memory_proportions))
    if training:
        settled.recompute_checkpoint_every_layer = config.recompute_checkpoint_every_layer or split.recompute
        settled.optimizer_state_offchip = config.optimizer_state_offchip or split.state_off_chip
    return settled._validate_ipu_config()


def _count_layers(model: nn.Module, split: Split) -> list[int]:
    """How many of the model's layers each IPU gets. A model without a list of layers goes to one IPU."""
    chain = find_layer_chain(model)
    counts = [0] * split.ipus_per_replica
    if chain is None:
        return [1]
    ipu = 0
    for path, _ in chain.layers:
        ipu = max(ipu, _find_ipu(_PREFIX + path, split, ipu))
        counts[ipu] += 1
    return counts


def _find_ipu(layer: str, split: Split, otherwise: int) -> int:
    """The IPU of the first part of a layer; where the layer is only a part of something whole, the IPU of that."""
    placed = [(split.segments[index].module, stage.ipu) for stage in split.layout.stages for index in stage.segments]
    inside = [ipu for module, ipu in placed if f"{module}.".startswith(f"{layer}.")]
    around = [ipu for module, ipu in placed if f"{layer}.".startswith(f"{module}.")]
    return next(iter([*inside, *around[-1:]]), otherwise)


def _shares_words(model: Any) -> bool:
    """Does the head use the table of the embedding? Then both are on the first IPU."""
    find_head = getattr(model, "get_output_embeddings", None)
    head = find_head() if find_head is not None else None
    find_words = getattr(model, "get_input_embeddings", None)
    words = find_words() if head is not None and find_words is not None else None
    return words is not None and getattr(head, "weight", None) is getattr(words, "weight", None)


def _count_rows(inputs: Mapping[str, Any]) -> int:
    return next(value.shape[0] for value in inputs.values() if isinstance(value, torch.Tensor) and value.dim())
