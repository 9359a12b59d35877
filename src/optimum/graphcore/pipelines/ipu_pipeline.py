"""What all pipelines on IPUs share: a model that is a compiled program.

In: a pipeline class of Transformers or of ours. Out: with `IPUPipelineMixin` before it, one that feeds a compiled
model: in its number format, and in the shapes that it was compiled for.
"""

from __future__ import annotations

import weakref
from typing import Any

import torch
from optimum.utils import logging
from torch import nn

import poptorch
from optimum.graphcore.generation import IPUGenerationMixin
from optimum.graphcore.modeling.mixin import find_original_class

logger = logging.get_logger(__name__)

Signature = dict[str, tuple[tuple[int, ...], torch.dtype]]  # of each tensor of a batch: the shape of a row, its format


def find_model(model: Any) -> nn.Module:
    """The model itself, without its executor."""
    found: nn.Module = model._user_model if isinstance(model, poptorch.PoplarExecutor) else model
    return found


def check_model_type(pipeline: Any, supported_models: list[str] | dict[str, Any]) -> None:
    """Log an error if the pipeline cannot use models of this class. A pipelined class counts as its original."""
    values = supported_models if isinstance(supported_models, list) else list(supported_models.values())
    names = [name for value in values for name in (value if isinstance(value, tuple) else (value,))]
    names = [name if isinstance(name, str) else name.__name__ for name in names]
    model_class = type(find_model(pipeline.model))
    original = find_original_class(model_class) or model_class
    if original.__name__ not in names:
        logger.error(
            f"The model '{original.__name__}' is not supported for {pipeline.task}. Supported models are {names}."
        )


class IPUPipelineMixin:
    """To be named before a pipeline class."""

    model: Any
    _rows = 0  # that the present program takes in one call
    _signature: Signature | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if isinstance(self.model, IPUGenerationMixin):
            # What was compiled for `generate` leaves the device with the pipeline. At exit, it does so anyhow.
            weakref.finalize(self, self.model.destroy).atexit = False

    def check_model_type(self, supported_models: list[str] | dict[str, Any]) -> None:
        """See the function of this name."""
        check_model_type(self, supported_models)

    def _forward(self, model_inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """One batch. A smaller one than the model was compiled for is filled up; any other shape is compiled anew."""
        inputs = _cast(dict(model_inputs), self.model.dtype)
        if not isinstance(self.model, poptorch.PoplarExecutor):
            return _cast(super()._forward(inputs, *args, **kwargs), torch.float32)  # type: ignore[misc]
        rows = self._fit_program(inputs)
        inputs = {name: _fill_rows(value, rows, self._rows) for name, value in inputs.items()}
        outputs = super()._forward(inputs, *args, **kwargs)  # type: ignore[misc]
        for name, value in outputs.items():
            outputs[name] = _cut_rows(value, rows, self._rows)
        return _cast(outputs, torch.float32)

    def _fit_program(self, inputs: dict[str, Any]) -> int:
        """The rows of the batch. A program that does not fit it is given up."""
        tensors = {name: value for name, value in inputs.items() if isinstance(value, torch.Tensor)}
        rows = max(len(tensor) for tensor in tensors.values())
        signature = {name: (tuple(tensor.shape[1:]), tensor.dtype) for name, tensor in tensors.items()}
        if signature != self._signature or rows > self._rows:
            if self.model.isCompiled():
                logger.info(
                    "The shapes of the inputs do not fit the compiled model: it is compiled again. Pad inputs to one "
                    "length to compile once."
                )
                self.model.destroy()
            self._rows, self._signature = rows, signature
        return rows

    def _prepare_generate_kwargs(self, generate_kwargs: dict[str, Any], **overrides: Any) -> dict[str, Any]:
        """As in Transformers; and a number of new tokens for one call counts more than a length for all of them."""
        made: dict[str, Any] = super()._prepare_generate_kwargs(generate_kwargs, **overrides)  # type: ignore[misc]
        if "max_new_tokens" in generate_kwargs and "max_length" not in generate_kwargs:
            made.pop("max_length", None)
        return made


def make_ipu_class(pipeline_class: type[Any]) -> type[Any]:
    """The pipeline class for compiled models. The class itself is left as it is."""
    if issubclass(pipeline_class, IPUPipelineMixin):
        return pipeline_class
    return type(f"IPU{pipeline_class.__name__}", (IPUPipelineMixin, pipeline_class), {})


def _cast(values: Any, dtype: torch.dtype) -> Any:
    """The same dictionary with floating-point tensors in another format."""
    for name, value in values.items():
        if isinstance(value, torch.Tensor) and value.is_floating_point():
            values[name] = value.to(dtype)
    return values


def _fill_rows(value: Any, rows: int, wanted: int) -> Any:
    """The last row again and again: no special values, so that nothing odd is computed."""
    if rows == wanted or not isinstance(value, torch.Tensor) or len(value) != rows:
        return value
    return torch.cat([value, value[-1:].expand(wanted - rows, *value.shape[1:])])


def _cut_rows(value: Any, rows: int, computed: int) -> Any:
    if rows == computed or not isinstance(value, torch.Tensor) or value.dim() == 0 or len(value) != computed:
        return value
    return value[:rows]
