"""Raw ops of applications: start one of a file, and call it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from openipu_tensorflow.ipu.ops.embedded_runtime import RuntimeContext, embedded_runtime_call, embedded_runtime_start


def application_runtime(
    inputs: Sequence[Any], filename: Any, engine_name: str, timeout_us: int = 5000, name: str | None = None
) -> RuntimeContext:
    """What calls take as their anchor: the application of a file with the values that it starts with."""
    return embedded_runtime_start(filename, list(inputs), engine_name, timeout_us)


def application_call(
    infeeds: Sequence[Any],
    anchor: RuntimeContext,
    outfeed_types: Sequence[Any],
    engine_name: str,
    name: str | None = None,
) -> list[Any]:
    """Results of one batch, of the types that are named."""
    from tensorflow.python.framework import dtypes

    if engine_name != anchor.name():
        raise ValueError(
            f"application_call: engine_name is '{engine_name}', and its anchor has started '{anchor.name()}'. "
            "Give both the same name."
        )
    found, expected = anchor.output_types(), [dtypes.as_dtype(kind) for kind in outfeed_types]
    if found != expected:
        raise TypeError(
            f"application_call: outfeed_types are {[kind.name for kind in expected]}, and the application returns "
            f"{[kind.name for kind in found]}."
        )
    return embedded_runtime_call(infeeds, anchor)
