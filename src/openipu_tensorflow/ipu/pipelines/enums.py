"""The enumerations of pipelines, and options of single stages."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

_ALL_DEVICES = -1  # a stage that is on every IPU of the device


class PipelineSchedule(Enum):
    """How stages take turns: forward and backward in groups, in alternation, or one stage after the other."""

    Grouped = 0
    Interleaved = 1
    Sequential = 2


class RecomputationMode(Enum):
    """How activations are made again, where the configuration allows it."""

    Auto = 0
    RecomputeThenBackpropagate = 1
    RecomputeAndBackpropagateInterleaved = 2


class PipelineStageOptions:
    """Options of the libraries for one stage, by name; those that a pipeline is given are checked there."""

    def __init__(
        self,
        convolution_options: Mapping[str, str] | None = None,
        matmul_options: Mapping[str, str] | None = None,
        slice_options: Mapping[str, str] | None = None,
    ) -> None:
        given = {
            "convolution_options": convolution_options,
            "matmul_options": matmul_options,
            "slice_options": slice_options,
        }
        for name, options in given.items():
            if options is not None and not isinstance(options, dict):
                raise TypeError(f"PipelineStageOptions.{name} must be dictionary, not {type(options).__name__}.")
        self.convolution_options = dict(convolution_options or {})
        self.matmul_options = dict(matmul_options or {})
        self.slice_options = dict(slice_options or {})

    def __repr__(self) -> str:
        return f"PipelineStageOptions({self.convolution_options}, {self.matmul_options}, {self.slice_options})"


def parse_enumeration(value: Any, kind: type[Enum], default: Enum, what: str) -> Any:
    """A member; None for the default."""
    if value is None:
        return default
    if not isinstance(value, kind):
        raise TypeError(f"The given {what} is not a member of the {kind.__name__} enumeration: {value!r}.")
    return value
