"""The program of a training session that only runs forward, on the weights that the device has.

In: a training session with `createImplicitPipeliningFwdOnlyProgram`, a step's data. Out: anchors of the forward pass,
as many micro-batches of them as a training step has; weights and optimizer state stay as they are. Anchors that only
training makes (gradients, updated weights, optimizer state) are left as they were.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from popart._dataflow import DataFlow
from popart._enumerations.tensors import AnchorReturnTypeId
from popart._exceptions import popart_exception
from popart._options import SessionOptions
from popart._stepio import IStepIO

if TYPE_CHECKING:
    from popart._sessions.weight_copies import WeightsSession

HANDLE = "implicitPipeliningFwdOnly"


def refuse_handle(handle: str) -> NoReturn:
    """For a program that a session does not have."""
    raise popart_exception(
        f"There is no program {handle!r}. A training session has {HANDLE!r} beside its own, where "
        "SessionOptions.createImplicitPipeliningFwdOnlyProgram is set."
    )


class ForwardOnly:
    """An inference session beside a training session."""

    def __init__(self, session: WeightsSession, make: Callable[..., WeightsSession]) -> None:
        """`make`: the class of inference sessions."""
        self._training = session
        self._inference = make(
            session._source,
            _keep_forward(session),
            session._device,
            userOptions=_keep_options(session._options),
            name=f"{session._name}_forward",
        )
        self._inference.prepareDevice()

    def run(self, stepio: IStepIO) -> None:
        """One step with the weights that the training session has on its device."""
        held: Any = self._inference._weights
        held.read_from(self._training._require("run").executable)
        self._inference.weightsFromHost()
        self._inference.run(stepio)


def _keep_forward(session: WeightsSession) -> DataFlow:
    flow = session._flow
    made = {name for node in session._model.onnx.graph.nodes for name in node.outputs}
    kept = {name: flow.art(name) for name in flow.anchors() if name in made}
    for name, kind in kept.items():
        if kind.id() is AnchorReturnTypeId.EveryN:
            raise popart_exception(f"{HANDLE}: the anchor {name!r} comes back All, Final or Sum, not EveryN.")
    return DataFlow(flow.batchesPerStep() * session.accumulationFactor, kept)


def _keep_options(options: SessionOptions) -> SessionOptions:
    kept = options._copy()
    kept.createImplicitPipeliningFwdOnlyProgram = False
    kept.enableGradientAccumulation, kept.accumulationFactor = False, 1
    kept.constantWeights = False
    kept.automaticLossScalingSettings.enabled = False
    return kept
