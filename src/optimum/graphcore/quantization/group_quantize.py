"""Group quantisation: 4 bits for each weight, with a scale and a smallest value for each group of them.

In: a matrix, or a linear layer. Out: words of 16 bits with four weights each, and back. The layout is that of Optimum
Graphcore's IPU kernel: of 16 weights in a row, word `c` holds the weights c, c + 4, c + 8 and c + 12, from its lowest
bits up. The method is that of FlexGen (arXiv:2303.06865).
"""

from __future__ import annotations

import torch
from torch import nn

BITS = 4
LARGEST = 2**BITS - 1
WEIGHTS_PER_WORD = 16 // BITS
WEIGHTS_PER_BLOCK = WEIGHTS_PER_WORD**2  # four words, read together


def group_quantize_compress(t: torch.Tensor, group_size: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Compress a matrix (rows, columns), `group_size` columns at a time.

    Returns words (rows, groups, group_size / 4) of int16, and of the type of `t` the scale and the smallest value of
    each group (rows, groups, 1): weight = number x scale + smallest value.
    """
    if t.dim() != 2 or group_size % WEIGHTS_PER_BLOCK or t.shape[1] % group_size:
        raise ValueError(
            f"A tensor of shape {list(t.shape)} cannot be compressed in groups of {group_size}: it must have two "
            f"dimensions, the second a multiple of the group size, and that a multiple of {WEIGHTS_PER_BLOCK}."
        )
    if not torch.isfinite(t).all():
        raise ValueError("Cannot compress t which contains non-finite values")
    grouped = t.detach().float().reshape(t.shape[0], -1, group_size)
    # Scale and bias are used as they are stored: in half.
    bias = grouped.amin(-1, keepdim=True).half().float()
    scale = ((grouped.amax(-1, keepdim=True).half().float() - bias) / LARGEST).half().float()
    step = torch.where(scale > 0, scale, 1.0)  # all weights of a group may be the same
    numbers = ((grouped - bias) / step).round().clamp(0, LARGEST).int()
    return _pack(numbers), scale.to(t.dtype), bias.to(t.dtype)


def group_quantize_decompress(
    t_packed: torch.Tensor, group_scale: torch.Tensor, group_bias: torch.Tensor, dtype: torch.dtype = torch.float16
) -> torch.Tensor:
    """The matrix again, as far as 4 bits tell: (rows, groups, words) to (rows, groups x words x 4)."""
    numbers = _unpack(t_packed).to(dtype)
    return (numbers * group_scale.to(dtype) + group_bias.to(dtype)).flatten(1)


def _pack(numbers: torch.Tensor) -> torch.Tensor:
    """Numbers of 4 bits (rows, groups, size) to words of int16 (rows, groups, size / 4)."""
    blocks = numbers.reshape(*numbers.shape[:-1], -1, WEIGHTS_PER_WORD, WEIGHTS_PER_WORD)
    shifts = BITS * torch.arange(WEIGHTS_PER_WORD, dtype=numbers.dtype).unsqueeze(-1)
    words = (blocks << shifts).sum(-2)
    signed = torch.where(words < 2**15, words, words - 2**16)
    return signed.flatten(-2).to(torch.int16)


def _unpack(words: torch.Tensor) -> torch.Tensor:
    blocks = words.int().reshape(*words.shape[:-1], -1, 1, WEIGHTS_PER_WORD)
    shifts = BITS * torch.arange(WEIGHTS_PER_WORD, dtype=torch.int32, device=words.device).unsqueeze(-1)
    numbers: torch.Tensor = (blocks >> shifts) & LARGEST  # what an arithmetic shift brings in from above is masked
    return numbers.flatten(-3)


class GroupQuantLinear(nn.Module):
    """A linear layer whose weight is kept in 4 bits, and decompressed each time it is used. The bias stays as it is."""

    def __init__(
        self,
        in_features: int,
        out_features: int,
        w_packed: torch.Tensor,
        w_scale: torch.Tensor,
        w_bias: torch.Tensor,
        bias: nn.Parameter | None = None,
    ) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.w_packed = nn.Parameter(w_packed, requires_grad=False)
        self.w_scale = nn.Parameter(w_scale, requires_grad=False)
        self.w_bias = nn.Parameter(w_bias, requires_grad=False)
        self.bias = bias
        self._originals: list[nn.Linear] = []  # in a list: its weight is none of this layer's parameters

    @classmethod
    def from_model(cls, linear: nn.Linear, num_groups: int = 16) -> GroupQuantLinear:
        """Compress a layer; `num_groups` groups for each row of its weight."""
        if num_groups < 1 or linear.in_features % (num_groups * WEIGHTS_PER_BLOCK):
            raise ValueError(
                f"{linear.in_features} input features cannot be in {num_groups} groups of a multiple of "
                f"{WEIGHTS_PER_BLOCK}: choose another num_groups."
            )
        packed = group_quantize_compress(linear.weight, linear.in_features // num_groups)
        made = cls(linear.in_features, linear.out_features, *packed, bias=linear.bias)
        made._originals = [linear]
        return made

    def to_model(self) -> nn.Linear:
        """The layer that was compressed, or if it is not known one with the decompressed weight."""
        if self._originals:
            return self._originals[0]
        made = nn.Linear(self.in_features, self.out_features, bias=False, device="meta")
        made.weight = nn.Parameter(self.decompress())
        made.bias = self.bias  # type: ignore[assignment]  # None is what a layer without one has
        return made

    def decompress(self) -> torch.Tensor:
        """The weight (out_features, in_features)."""
        return group_quantize_decompress(self.w_packed, self.w_scale, self.w_bias, self.w_scale.dtype)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.linear(x, self.decompress(), self.bias)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, groups={self.w_scale.shape[1]}"
