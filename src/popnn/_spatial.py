"""Where in a field its largest activation is, as an expectation.

In: fields [fields, height, width]. Out: coordinates [fields, 2], rows first, each from -1 to 1; and the temperature.
"""

from __future__ import annotations

import torch

from poplar import Graph, Tensor
from poplar._errors import poplar_error
from poplar._library import Target, call_library


def spatialSoftMax2D(
    graph: Graph, prog: Target, fields: Tensor, temperature: float, disableSoftmax: bool = False, name: str = ""
) -> tuple[Tensor, Tensor]:
    """The temperature is a variable with that first value: it may be trained."""
    if fields.rank() != 3:
        raise poplar_error(f"spatialSoftMax2D: fields are [fields, height, width], not {fields.shape()}.")
    count, height, width = fields.shape()
    divisor = graph.addVariable(fields.elementType(), [], "temperature")
    graph.setTileMapping(divisor, 0)
    graph.setInitialValue(divisor, temperature)

    def traced(given: torch.Tensor, divided: torch.Tensor) -> torch.Tensor:
        flat = given.reshape(count, height * width)
        shares = flat if disableSoftmax else torch.softmax(flat * (1 / divided), 1)
        down = torch.linspace(-1, 1, height, dtype=given.dtype).reshape(-1, 1).expand(height, width).reshape(-1)
        across = torch.linspace(-1, 1, width, dtype=given.dtype).reshape(1, -1).expand(height, width).reshape(-1)
        return torch.mm(shares, torch.stack([down, across], 1))

    operands, types = [fields, divisor], [fields.elementType()]
    found = call_library(graph, prog, "popnn::spatialSoftMax2D", traced, operands, types=types, name=name)[0]
    return found, divisor
