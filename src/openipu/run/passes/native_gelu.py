"""GELU of training by native code.

In: a draft that is ready to be generated. Out: the same draft, in which native code, where that has been installed,
computes GELU by its tanh, and its gradient, in a third of the time of PyTorch's operators. It computes the tanh by an
exponential, so that last bits differ. `native/shared_kernels.py` compiles the code, once for all programs.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import fx

from openipu.run.drafts.draft import Draft

aten = torch.ops.aten

# values, gradients or None, results, number of elements, threads
Kernel = Callable[[int, int | None, int, int, int], None]

_SMALLEST_ELEMENTS = 1 << 12  # below, the overhead of the call decides

_installed: list[Kernel] = []  # one, or none


def has_gelu() -> bool:
    """Whether native code is installed."""
    return bool(_installed)


def install_gelu(kernel: Kernel | None) -> None:
    """Use native code in graphs that are generated from here on, or no longer."""
    _installed[:] = [] if kernel is None else [kernel]


def bend_natively(draft: Draft) -> None:
    """Let native code compute the activation and its gradient."""
    for target, function in ((aten.gelu.default, bend), (aten.gelu_backward.default, bend_gradient)):
        for node in list(draft.graph.find_nodes(op="call_function", target=target)):
            if not _suits(node):
                continue
            with draft.graph.inserting_before(node):
                result = draft.graph.call_function(function, node.args)
            result.meta = dict(node.meta)
            node.replace_all_uses_with(result)
            draft.graph.erase_node(node)


def _suits(node: fx.Node) -> bool:
    if dict(node.kwargs) != {"approximate": "tanh"} or node.meta["val"].numel() < _SMALLEST_ELEMENTS:
        return False
    values = [value.meta["val"] for value in node.all_input_nodes]
    return all(value.dtype is torch.float32 and value.shape == node.meta["val"].shape for value in values)


def bend(values: torch.Tensor) -> torch.Tensor:
    """The activation of values."""
    held = values.contiguous()
    result = torch.empty_like(held)
    _installed[0](held.data_ptr(), None, result.data_ptr(), held.numel(), torch.get_num_threads())
    return result


def bend_gradient(gradient: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """The gradient of values, from that of their activation."""
    held = gradient.contiguous()
    return _bend_gradient(held, values, torch.empty_like(held))


def bend_gradient_in_place(gradient: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """The same in the memory of the gradient, if it lies in order."""
    held = gradient.contiguous()
    return _bend_gradient(held, values, held)


def _bend_gradient(gradient: torch.Tensor, values: torch.Tensor, result: torch.Tensor) -> torch.Tensor:
    held = values.contiguous()
    _installed[0](held.data_ptr(), gradient.data_ptr(), result.data_ptr(), gradient.numel(), torch.get_num_threads())
    return result
