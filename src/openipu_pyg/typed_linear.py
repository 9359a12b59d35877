"""A linear layer with weights for each type of row, without sorting rows. In: rows and their types. Out: products."""

from __future__ import annotations

import torch


def multiply_by_type(
    x: torch.Tensor, kinds: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None
) -> torch.Tensor:
    """`x[i] @ weight[kinds[i]] + bias[kinds[i]]`: products with the weights of all types, of which each row keeps one.

    weight: [types, inputs, outputs]. That is as many products as there are types, and every shape is known.
    """
    products = torch.einsum("ni,tio->tno", x, weight)
    chosen = torch.arange(weight.size(0), device=x.device)[:, None] == kinds[None]
    result = torch.where(chosen[:, :, None], products, 0).sum(dim=0)
    return result if bias is None else result + bias.index_select(0, kinds)
