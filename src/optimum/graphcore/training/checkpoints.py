"""Checkpoints: the files of Transformers, with the IPU's configuration and random numbers beside them.

In: a trainer, a directory. Out: files that plain Transformers reads, and a trainer that goes on where another stopped.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import msgspec
from optimum.utils import logging

from openipu.errors import ArchiveError
from openipu.files.documents import read_json
from openipu.files.origin import Origin
from openipu.saving import save_text
from optimum.graphcore.training.weights import adopt_weights, make_plain_twin

logger = logging.get_logger(__name__)

_RANDOM_NUMBERS = "ipu_rng_state.json"
_RandomNumbers = Annotated[list[int], msgspec.Meta(min_length=1)]


class CheckpointMixin:
    """The part of a trainer that saves and loads."""

    def _save(self: Any, output_dir: str | None = None, state_dict: dict[str, Any] | None = None) -> None:
        super()._save(output_dir, state_dict)  # type: ignore[misc]
        self.ipu_config.save_pretrained(output_dir if output_dir is not None else self.args.output_dir)

    def _load_from_checkpoint(self: Any, resume_from_checkpoint: str, model: Any = None) -> None:
        if model is not None:
            super()._load_from_checkpoint(resume_from_checkpoint, model)  # type: ignore[misc]
            return
        plain = make_plain_twin(self.model)
        super()._load_from_checkpoint(resume_from_checkpoint, plain)  # type: ignore[misc]
        adopt_weights(self.model, plain)
        executor = self.training_model
        if executor is not None and executor.isCompiled() and executor.isAttachedToDevice():
            executor.copyWeightsToDevice()

    def _load_best_model(self: Any) -> None:
        logger.info("Loading best model from %s (score: %s).", self.state.best_model_checkpoint, self.state.best_metric)
        self._load_from_checkpoint(self.state.best_model_checkpoint)

    def _save_rng_state(self: Any, output_dir: str) -> None:
        super()._save_rng_state(output_dir)  # type: ignore[misc]
        state = getattr(self.training_model, "rng_state", None)
        if state is not None:
            save_text(Path(output_dir, _RANDOM_NUMBERS), json.dumps(list(state)))

    def _load_device_rng_state(self: Any, checkpoint: str) -> None:
        path = Path(checkpoint, _RANDOM_NUMBERS)
        if path.is_file():
            origin = Origin(str(path), ArchiveError, "Remove it to go on with other random numbers.")
            self.training_model.rng_state = read_json(path, _RandomNumbers, origin, 1 << 20)
        else:
            logger.info("%s has no random numbers of an IPU: dropout goes on with others.", checkpoint)
