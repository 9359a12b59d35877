"""Attributes that scopes give to ops, and what kind of training an op belongs to."""

from __future__ import annotations

from enum import IntEnum


class FrontendAttributeId(IntEnum):
    """By the names that the attributes of an op have."""

    ML_TYPE = 0
    CALL_CONFIG_TYPE = 1
    PARTIALS_TYPE = 2
    STOCHASTIC_ROUNDING = 3
    MATERIALIZE_SLICED_INPUT = 4

    @classmethod
    def Name(cls, value: int) -> str:  # noqa: N802 (as message classes spell it)
        return cls(value).name


class MLType(IntEnum):
    """Forward, backward, update, or none of them."""

    NONE = 0
    INFERENCE_FWD = 1
    TRAINING_FWD = 2
    TRAINING_BWD = 3
    TRAINING_WU = 4

    @classmethod
    def Name(cls, value: int) -> str:  # noqa: N802
        return cls(value).name


NONE, INFERENCE_FWD, TRAINING_FWD, TRAINING_BWD, TRAINING_WU = MLType
