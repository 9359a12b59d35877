"""A session's weights as its user moves them: between host and device, arrays and models.

In: a session, compiled where the device takes part. Out: weights on the other side, or in a file.
"""

from __future__ import annotations

from pathlib import Path

import torch

from openipu.session import Compiled
from popart._exceptions import popart_exception, translate_errors
from popart._sessions import files
from popart._sessions.base import Session
from popart._stepio import PyWeightsIO


class WeightsSession(Session):
    """A session whose weights can be read and replaced."""

    def __openipu_compiled__(self) -> Compiled:
        """What `openipu.export_program` writes: the program, with weights as the device has them."""
        compiled = self._require("weightsFromHost")
        if not self._weights_loaded:
            self.weightsFromHost()
        return compiled

    def weightsFromHost(self) -> None:
        """Copy weights from the host to the device."""
        compiled = self._require("weightsFromHost")
        if not self._engine_loaded:
            self.loadEngineAndConnectStreams()
        with translate_errors():
            self._weights.load_into(compiled.executable)
        self._weights_loaded = True

    def weightsToHost(self) -> None:
        """Copy weights from the device to the host."""
        compiled = self._require("weightsToHost")
        if self._weights_loaded:
            with translate_errors():
                self._weights.read_from(compiled.executable)

    def copyDeviceWeightsToHost(self) -> None:
        """Copy weights from the device to the host."""
        self.weightsToHost()

    def readWeights(self, weightsIo: PyWeightsIO) -> None:
        """Fill arrays with the weights that the host has."""
        self._weights.give(weightsIo)

    def writeWeights(self, weightsIo: PyWeightsIO) -> None:
        """Give the host new weights; `weightsFromHost` brings them to the device."""
        if not self._training and self._options.constantWeights:
            raise popart_exception(
                "Cannot call writeWeights when constantWeights is set. Set `constantWeights` to False in the "
                "`SessionOption`s when initialising the session to enable this behaviour."
            )
        self._weights.take(weightsIo)

    def saveVariables(self, path: str) -> None:
        """Write the weights that the host has, as a model."""
        self._weights.save(self._source, files.choose_path(path), self._collect_state())

    def modelToHost(self, fn: str) -> None:
        """Write the model with the weights that the device has."""
        if self._compiled is None:
            raise popart_exception(
                "Devicex::prepare() must be called before Devicex::weightsToHost(): call session.prepareDevice() first."
            )
        self.weightsToHost()
        self._weights.save(self._source, Path(fn), self._collect_state())

    def _collect_state(self) -> dict[str, torch.Tensor]:
        return {}

    def resetHostWeights(
        self, modelProtoOrFilename: bytes | str, ignoreWeightsInModelWithoutCorrespondingHostWeight: bool = False
    ) -> None:
        """Take the host's weights from another model."""
        if not self._training and self._options.constantWeights:
            raise popart_exception(
                "Cannot call resetHostWeights when constantWeights is set. Set `constantWeights` to False in the "
                "`SessionOption`s when initialising the session to enable this behaviour."
            )
        self._weights.reset(
            modelProtoOrFilename, ignoreWeightsInModelWithoutCorrespondingHostWeight, self._collect_state()
        )

    def updateExternallySavedTensorLocations(self, fromLocation: str, toLocation: str) -> None:
        """From now on, weights that were saved in one file are written to another."""
        self._weights.move_file(self._source, fromLocation, toLocation)

    def broadcastWeights(self, rootRank: int = 0) -> None:
        """All processes of a job get the weights of one: they do so before each step."""
