"""The plan of a model under a given `IPUConfig`: does it fit its IPUs, and how fast would they be?

In: a configuration, a model, one micro-batch or its sizes, a system. Out: the `Plan` of the program that the trainer
would compile. Nothing runs and no weights are copied: a model on the meta device will do.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from openipu.graph import Program, RunOptions
from openipu.machine import System
from openipu.plan import Plan
from openipu.session import FrontEnd, plan_model
from optimum.graphcore.automatic import LABELS, make_example, take_loss
from optimum.graphcore.ipu_configuration import IPUConfig
from optimum.graphcore.modeling_utils import to_pipelined
from optimum.graphcore.training.optimizers import choose_optimizer
from optimum.graphcore.training.random_state import preserve_random_state
from optimum.graphcore.training.steps import EvaluationStep, TrainingStep
from optimum.graphcore.training_args import IPUTrainingArguments
from poptorch._optimizer.device import DeviceOptimizer
from poptorch._placement.blocks import resolve_blocks
from poptorch._placement.checks import check_program, place_program
from poptorch.options._translate import build_run_options


def plan_config(
    config: IPUConfig,
    model: nn.Module,
    example_inputs: Mapping[str, Any] | None = None,
    *,
    system: System | str | None = None,
    training: bool = True,
    fp32: bool = False,
    batch_size: int = 1,
    sequence_length: int = 128,
) -> Plan:
    """Plan a model as the trainer would compile it with this configuration; training is with AdamW."""
    dtype = torch.float32 if fp32 else torch.float16
    inputs = {
        name: value.to(dtype) if value.is_floating_point() else value
        for name, value in (example_inputs or make_example(model, batch_size, sequence_length)).items()
        if training or name not in LABELS
    }
    pipelined = _spread(config, model, training).to(dtype)
    options = config.to_options(for_inference=not training, compile_only=True)  # no IPU is taken
    step: nn.Module
    if training:
        step = TrainingStep(pipelined, take_loss).train()
        kind, settings = choose_optimizer(IPUTrainingArguments(output_dir="unused", fp32=fp32))
        optimizer = DeviceOptimizer(step, kind(step.parameters(), **settings), options).describe()
    else:
        step = EvaluationStep(pipelined, take_loss, False, False, ("past_key_values",)).eval()
        optimizer = None
    run_options = build_run_options(options, training)
    call = {name: value.repeat(run_options.micro_batches, *[1] * (value.dim() - 1)) for name, value in inputs.items()}
    with resolve_blocks(options._execution_strategy) as resolver:

        def place(program: Program, chosen: RunOptions) -> tuple[Program, RunOptions]:
            return place_program(program, chosen, options, resolver)

        def check(program: Program, chosen: RunOptions) -> None:
            check_program(program, chosen, options, resolver)

        _, plan = plan_model(
            step,
            (),
            call,
            options=run_options,
            optimizer=optimizer,
            system=system,
            name=type(model).__name__,
            front_end=FrontEnd(place=place, check=check),
        )
    return plan


def _spread(config: IPUConfig, model: nn.Module, training: bool) -> Any:
    """A copy of the model without weights, on the IPUs of the configuration."""
    with preserve_random_state():
        pipelined = to_pipelined(copy.deepcopy(model).to("meta"), config, force=True)
        pipelined.ipu_config = copy.deepcopy(config)
        if training:
            pipelined.ipu_config.train()
        else:
            pipelined.ipu_config.eval()
        return pipelined.parallelize(**config.parallelize_kwargs)
