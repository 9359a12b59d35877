"""`print_pipeline_stage_assignment_summary`: a table of layers and stages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras

from openipu_tensorflow.keras.stages.assigning import describe


def print_summary(model: Any, line_length: int | None, print_fn: Callable[[str], object] | None) -> None:
    """One line a layer; lines of 60 characters for a Sequential model, else of 89."""
    sequential = isinstance(model, keras.Sequential)
    width = line_length or (60 if sequential else 89)
    show = print_fn or print
    headers = ["Layer (type)", "Pipeline Stage"]
    ends = [0.5, 1.0]
    if not sequential:
        headers, ends = ["Layer (type) (node index)", "Input Layers", "Pipeline Stage"], [0.4, 0.8, 1.0]
    columns = [int(width * end) for end in ends]
    show(f'Model: "{model.name}"')
    show("_" * width)
    show(_fill(headers, columns))
    show("=" * width)
    rows = list(_list_rows(describe(model), sequential))
    for number, lines in enumerate(rows):
        for line in lines:
            show(_fill(line, columns))
        show(("=" if number == len(rows) - 1 else "_") * width)


def _fill(fields: Sequence[str], columns: Sequence[int]) -> str:
    line = ""
    for field, end in zip(fields, columns, strict=True):
        line = (line + field)[: end - 1]
        line += " " * (end - len(line))
    return line.rstrip()


def _list_rows(assignments: Sequence[Any], sequential: bool) -> Iterator[list[list[str]]]:
    for entry in assignments:
        if entry.is_nested_model:
            yield [[f"{entry.layer.name} ({type(entry.layer).__name__})", *([""] if sequential else ["", ""])]]
            inner = isinstance(entry.layer, keras.Sequential)
            for lines in _list_rows(entry.pipeline_stage_assignments, inner):
                yield [_adapt(line, sequential) for line in lines]
            continue
        name = f"{entry.layer.name} ({type(entry.layer).__name__})"
        stage = str(entry.pipeline_stage)
        if sequential:
            yield [[name, stage]]
        else:
            inputs = [layer.name for layer in entry.inbound_layers] or [""]
            first = [f"{name} ({entry.node_index})", inputs[0], stage]
            yield [first, *(["", other, ""] for other in inputs[1:])]


def _adapt(line: list[str], sequential: bool) -> list[str]:
    """A row of a model inside, in the columns of the one around it."""
    if sequential:
        return [f"  {line[0]}", line[-1]]
    return [f"  {line[0]}", line[1] if len(line) == 3 else "", line[-1]]
