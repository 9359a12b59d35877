"""A projection to a vocabulary of any size, in equal parts.

In: an `nn.Linear` and the number of parts. Out: the same logits. Rows of zeros fill the last part; what they give is
cut off, so that no one sees them, and the weight itself keeps its shape and stays tied.
"""

from __future__ import annotations

import torch
from torch import nn

import poptorch
from optimum.graphcore.modeling_utils import SerializedLinear


class PaddedSerializedLinear(SerializedLinear):
    """A linear layer whose product is computed in `factor` parts, whatever the number of its rows."""

    @classmethod
    def from_model(
        cls,
        model: nn.Linear,
        factor: int,
        mode: poptorch.MatMulSerializationMode = poptorch.MatMulSerializationMode.OutputChannels,
    ) -> PaddedSerializedLinear:
        """The layer's own parameters are used."""
        whole = super().from_model(model, 1, mode)
        assert isinstance(whole, cls)
        whole.factor = factor
        return whole

    def forward(self, input: torch.Tensor) -> torch.Tensor:  # the name that nn.Linear has
        missing = -self.out_features % self.factor
        weight = nn.functional.pad(self.weight, (0, 0, 0, missing)) if missing else self.weight
        product = poptorch.serializedMatMul(input, weight.t(), self.mode, self.factor)[..., : self.out_features]
        return product if self.bias is None else product + self.bias
