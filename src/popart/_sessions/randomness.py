"""Random numbers of a session: the seed that they begin with, and where they stand.

In: seeds and states. Out: the same, of the program on the device.
"""

from __future__ import annotations

import torch

from popart._enumerations.sessions import SyntheticDataMode
from popart._exceptions import popart_exception, translate_errors
from popart._sessions.base import Session
from popart._sessions.dialect import RANDOM_OPS


class RandomSession(Session):
    """A session whose random numbers can be set back."""

    def getRandomSeed(self) -> int:
        """The seed of the program's random numbers."""
        return self._seed

    def setRandomSeed(self, seedValue: int) -> None:
        """Let the program's random numbers begin again from a seed."""
        if self._compiled is None and any(node.op in RANDOM_OPS for node in self._model.onnx.graph.list_nodes()):
            raise popart_exception(
                "Devicex::prepare() must be called before Devicex::setRandomSeedFromHost(uint64_t) is called."
            )
        self._seed = int(seedValue)
        if self._compiled is not None:
            state = torch.Generator().manual_seed(self._seed).get_state()
            self._compiled.executable.random_state = state

    def _check_rng(self) -> None:
        if not (self._options.enableLoadAndOffloadRNGState or self._options._enableRngStateManagement):
            raise popart_exception(
                "Trying to get or set the RNG state, but the session option enableLoadAndOffloadRNGState must be True."
            )

    def getRNGState(self) -> list[int]:
        """Where the program's random numbers stand."""
        self._check_rng()
        if self._options.syntheticDataMode is not SyntheticDataMode.Off:
            return []  # nothing comes back to the host
        return self._require("getRNGState").executable.rng_state

    def setRNGState(self, stateValue: list[int]) -> None:
        """Let the program's random numbers go on from a state."""
        self._check_rng()
        if self._options.syntheticDataMode is not SyntheticDataMode.Off:
            return
        with translate_errors():
            self._require("setRNGState").executable.rng_state = list(stateValue)
