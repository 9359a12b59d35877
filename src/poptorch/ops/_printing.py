"""`ipu_print_tensor`: values on stderr while a program runs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

import torch

from openipu.capture import call_in_graph, is_capturing
from openipu.graph import FunctionCall
from openipu.host.tensor_text import FloatFormat, TextStyle, format_tensor
from poptorch.errors import createPoptorchError
from poptorch.ops._checks import require_tensor

Tensors = Sequence[torch.Tensor]
Differentiate = Callable[[Tensors, Tensors], Tensors]


def ipu_print_tensor(
    tensor: torch.Tensor,
    title: str = "",
    print_gradient: bool = True,
    summarise_threshold: int = 1000,
    edge_items: int = 3,
    max_line_width: int = 80,
    digits: int = 4,
    float_format: str = "auto",
    separator: str = ", ",
    open_bracket: str = "(",
    close_bracket: str = ")",
) -> torch.Tensor:
    """Print the tensor to stderr each time that the program runs, and its gradient in training.

    Use what comes back: a print whose result nobody needs is left out.
    """
    require_tensor(tensor, "ipu print tensor must take a torch.tensor argument.")
    if float_format not in list(FloatFormat):
        raise createPoptorchError(
            f"The float_format of ipu_print_tensor is one of {', '.join(FloatFormat)}, not {float_format!r}."
        )
    if not is_capturing():
        return tensor
    style = TextStyle(
        summarise_threshold=summarise_threshold,
        edge_items=edge_items,
        max_line_width=max_line_width,
        digits=digits,
        float_format=FloatFormat(float_format),
        separator=separator,
        open_bracket=open_bracket,
        close_bracket=close_bracket,
    )

    def differentiate(inputs: Tensors, gradients: Tensors) -> Tensors:
        if not print_gradient:
            return list(gradients)
        return _record_print(f"{title}_gradient" if title else "gradient", style, gradients)

    return _record_print(title, style, [tensor], differentiate)[0]


def _record_print(
    title: str, style: TextStyle, tensors: Tensors, differentiate: Differentiate | None = None
) -> list[torch.Tensor]:
    def write(tensor: torch.Tensor) -> list[torch.Tensor]:
        sys.stderr.write(format_tensor(tensor, style, title) + "\n")
        sys.stderr.flush()
        return [tensor.clone()]

    call = FunctionCall("print_tensor", write, {"title": title}, acts=True)
    return call_in_graph(call, tensors, tensors, differentiate)
