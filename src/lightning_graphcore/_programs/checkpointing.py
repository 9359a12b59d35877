"""Checkpoints that any accelerator can resume from.

In: programs that train. Out: optimizer state as PyTorch keeps it, and in an entry of our own, "ipu", where the random
numbers of the programs stand, so that a resumed run draws what an uninterrupted one would have drawn.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lightning_graphcore._programs.stage import StagePrograms
from lightning_graphcore._programs.training import TrainingPrograms

KEY = "ipu"


class CheckpointMixin:
    """The part of a strategy that saves and loads."""

    programs: dict[Any, StagePrograms]
    _loaded: dict[str, Any]  # our part of the checkpoint that was loaded

    def _find_training(self) -> TrainingPrograms | None:
        return next((found for found in self.programs.values() if isinstance(found, TrainingPrograms)), None)

    def optimizer_state(self, optimizer: Any) -> dict[str, Any]:
        training = self._find_training()
        if training is not None:
            training.pull_state()
        return super().optimizer_state(optimizer)  # type: ignore[misc,no-any-return]

    def load_optimizer_state_dict(self, checkpoint: Mapping[str, Any]) -> None:
        super().load_optimizer_state_dict(checkpoint)  # type: ignore[misc]
        training = self._find_training()
        if training is not None:
            training.load_states()

    def save_checkpoint(self, checkpoint: dict[str, Any], filepath: Any, storage_options: Any = None) -> None:
        training = self._find_training()
        if training is not None:
            checkpoint[KEY] = {"rng_state": training.read_random_state()}
        super().save_checkpoint(checkpoint, filepath, storage_options)  # type: ignore[misc]

    def load_checkpoint(self, checkpoint_path: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
        found: dict[str, Any] = super().load_checkpoint(checkpoint_path, *args, **kwargs)  # type: ignore[misc]
        self._loaded = dict(found.get(KEY) or {})
        return found
