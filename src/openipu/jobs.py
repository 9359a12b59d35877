"""A planning job: a model with the shapes of one micro-batch, and how it is to be run.

In: a model, which may live on the meta device, and example inputs, whose shapes and number formats alone matter.
Out: the `Plan` of that program on a system. Nothing is executed and no weights are needed.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from openipu.capture import capture_program, describe_optimizer
from openipu.errors import OptionError
from openipu.graph import OptimizerSpec, Program, RunOptions
from openipu.machine import System
from openipu.plan import Plan
from openipu.session import plan_model


@dataclass(frozen=True, eq=False, kw_only=True)
class PlanningJob:
    """What to plan. `args` and `kwargs` are one micro-batch; `options` say how many make a call."""

    model: Callable[..., Any]
    args: Sequence[Any] | torch.Tensor = ()  # a single tensor needs no brackets
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    training: bool = False
    optimizer: torch.optim.Optimizer | None = None  # training: its kind and groups; values do not matter
    options: RunOptions | None = None
    name: str = ""

    def __post_init__(self) -> None:
        if not callable(self.model):
            raise OptionError(
                f"The model of a planning job must be a module or a function, not {type(self.model).__name__}."
            )
        if self.options is not None and self.options.training != self.training:
            raise OptionError(
                f"{self.title}: the job says training={self.training}, its options say "
                f"training={self.options.training}. Give both the same value."
            )
        if self.training and self.optimizer is None:
            raise OptionError(
                f"{self.title}: training needs an optimizer, such as torch.optim.SGD(model.parameters(), lr=0.1)."
            )
        if self.optimizer is not None and not self.training:
            raise OptionError(f"{self.title}: an optimizer is given but training is False. Set training=True.")

    @property
    def title(self) -> str:
        """The job's name, else the model's."""
        return self.name or getattr(self.model, "__name__", "") or type(self.model).__name__

    @property
    def positional(self) -> tuple[Any, ...]:
        """The positional inputs of one micro-batch."""
        return (self.args,) if isinstance(self.args, torch.Tensor) else tuple(self.args)

    def with_options(self, **changes: Any) -> PlanningJob:
        """The same job with some run options changed."""
        options = self.options or RunOptions(training=self.training)
        return dataclasses.replace(self, options=dataclasses.replace(options, **changes))


def read_job(returned: object, origin: str, name: str) -> PlanningJob:
    """What a user's factory returned as a job: a `PlanningJob`, a tuple (model, args), or a dict of its fields."""
    if isinstance(returned, PlanningJob):
        return returned if returned.name else dataclasses.replace(returned, name=name)
    if isinstance(returned, tuple) and len(returned) == 2 and callable(returned[0]):
        model, args = returned
        return PlanningJob(model=model, args=args, name=name)
    if isinstance(returned, Mapping):
        known = [entry.name for entry in dataclasses.fields(PlanningJob)]
        unknown = sorted(str(key) for key in returned if key not in known)
        if unknown or "model" not in returned:
            problem = f"unknown keys {', '.join(unknown)}" if unknown else "no key 'model'"
            raise OptionError(f"{origin} returned a dict with {problem}. Known keys: {', '.join(known)}.")
        return PlanningJob(**{"name": name, **returned})
    raise OptionError(
        f"{origin} returned {_describe(returned)}, which is not a planning job. "
        "Return openipu.jobs.PlanningJob(model=…, args=(…,)), or a tuple (model, args), or a dict of those fields."
    )


def run_job(job: PlanningJob, system: System | str | None = None) -> Plan:
    """Capture the job's program and plan it on a system."""
    options = job.options or RunOptions(training=job.training)
    args, kwargs = pytree.tree_map(
        lambda leaf: _enlarge(leaf, options.micro_batches), (job.positional, dict(job.kwargs))
    )
    _, plan = plan_model(
        job.model, args, kwargs, options=options, optimizer=describe_job_optimizer(job), system=system, name=job.title
    )
    return plan


def capture_job(job: PlanningJob, like: Program | None = None) -> Program:
    """The job's program, for those who plan it many times. `like`: that of the same job with another batch."""
    return capture_program(
        job.model,
        job.positional,
        dict(job.kwargs),
        training=job.training,
        optimizer=describe_job_optimizer(job),
        name=job.title,
        like=like,
    )


def halve_job(job: PlanningJob) -> PlanningJob:
    """The same job with float32 weights, buffers and inputs in half precision; weights are on the meta device.

    The job's own model stays as it is. Optimizer state keeps the format that its update rule gives it.
    """
    root = job.model if isinstance(job.model, nn.Module) else getattr(job.model, "__self__", None)
    tensors = [*root.parameters(), *root.buffers()] if isinstance(root, nn.Module) else []
    halves: dict[int, Any] = {id(tensor): _halve(tensor) for tensor in tensors if tensor.dtype == torch.float32}
    try:
        model, optimizer = copy.deepcopy((job.model, job.optimizer), halves)  # takes the halves in place of the weights
    except Exception as error:  # whatever the model's own attributes raise
        raise OptionError(
            f"{job.title} cannot be copied, so it cannot be planned in half precision: {error}"
        ) from error
    args, kwargs = pytree.tree_map(_halve, (job.positional, dict(job.kwargs)))
    return dataclasses.replace(job, model=model, optimizer=optimizer, args=args, kwargs=kwargs)


def _halve(leaf: Any) -> Any:
    if not isinstance(leaf, torch.Tensor) or leaf.dtype != torch.float32:
        return leaf
    half = torch.empty(leaf.shape, dtype=torch.float16, device="meta")
    return nn.Parameter(half, requires_grad=leaf.requires_grad) if isinstance(leaf, nn.Parameter) else half


def _enlarge(leaf: Any, micro_batches: int) -> Any:
    """One call's worth of an input, without data: the session cuts it into micro-batches again."""
    if not isinstance(leaf, torch.Tensor):
        return leaf
    shape = list(leaf.shape)
    if shape:
        shape[0] *= micro_batches
    return torch.empty(shape, dtype=leaf.dtype, device="meta")


def describe_job_optimizer(job: PlanningJob) -> OptimizerSpec | None:
    """The structure of a job's optimizer, with parameters by name."""
    if job.optimizer is None:
        return None
    named = job.model.named_parameters() if isinstance(job.model, nn.Module) else ()
    return describe_optimizer(job.optimizer, {id(parameter): name for name, parameter in named})


def _describe(value: object) -> str:
    if isinstance(value, nn.Module):
        return f"a bare module ({type(value).__name__}) without inputs"
    return f"a {type(value).__name__}"
