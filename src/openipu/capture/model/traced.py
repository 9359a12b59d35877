"""What a forward may return that knows its loss by itself: the graphs of other frameworks name theirs.

In: results by name, the loss, tensors whose gradients are results as well, new values of what the model holds.
Out: these, checked against the capture that is under way. A forward that returns anything else is read as PyTorch's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch

from openipu.capture.model.twins import ModelTwins
from openipu.errors import CaptureError, MissingGradientError


@dataclass(frozen=True, eq=False, kw_only=True)
class Traced:
    """Results of forward by name. Gradients of watched tensors join them, as whole tensors of one micro-batch."""

    outputs: Mapping[str, torch.Tensor]
    loss: torch.Tensor | None = None  # training starts here; None: it is found as in a model of PyTorch
    watched: Mapping[str, torch.Tensor] = field(default_factory=dict)  # name of a result -> whose gradient it is
    written: Mapping[str, torch.Tensor] = field(default_factory=dict)  # parameter or buffer -> its new value

    def join_gradients(self, gradients: Mapping[str, torch.Tensor | None]) -> dict[str, torch.Tensor]:
        """All results, in the order: outputs, then gradients."""
        missing = [name for name in self.watched if gradients.get(name) is None]
        if missing:
            raise MissingGradientError(
                f"No gradient reaches {', '.join(missing[:5])}: the loss does not depend on it in a way that can be "
                "differentiated, or nothing is trained. Ask for gradients of tensors between the inputs and the loss.",
                missing,
            )
        return {**self.outputs, **{name: value for name, value in gradients.items() if value is not None}}


def write_held(traced: Traced, twins: ModelTwins) -> None:
    """Put new values where the model holds the old ones."""
    for name, value in traced.written.items():
        held = twins.parameters.get(name, twins.buffers.get(name))
        if held is None:
            raise CaptureError(f"Forward writes {name!r}, which the model does not hold.")
        with torch.no_grad():
            held.copy_(value)
