"""`IPUSeq2SeqTrainer`: a trainer whose evaluation may look at what the model generates.

In: as `IPUTrainer`, with `IPUSeq2SeqTrainingArguments`. Out: the same; with `predict_with_generate` the predictions are
generated tokens.
"""

from __future__ import annotations

from typing import Any

import torch
from transformers import Seq2SeqTrainer

from optimum.graphcore.trainer import IPUTrainer
from optimum.graphcore.training.weights import share_weights

__all__ = ["IPUSeq2SeqTrainer"]


class IPUSeq2SeqTrainer(IPUTrainer, Seq2SeqTrainer):  # type: ignore[misc]
    """Trains models that map one sequence to another.

    For `generate` a copy of the model is spread over the IPUs as the configuration says for inference; it gets the
    trained weights before each evaluation.
    """

    _generator: Any = None
    _gen_kwargs: dict[str, Any]

    def _prepare_evaluation(self, dataloader: Any, loss_only: bool, ignore_keys: list[str] | None) -> float:
        if not self.args.predict_with_generate or loss_only:
            return super()._prepare_evaluation(dataloader, loss_only, ignore_keys)
        self._get_evaluator()
        if self._generator is None:
            self._generator = self._spread_for_inference(for_generation=True)
            self._generator.show_compilation_progress = not self.args.disable_tqdm
        else:
            share_weights(self.model, self._generator)
            self._generator.generation_programs.detach()  # the next call uploads the weights
        self._generator.generation_config = self.model.generation_config
        return 0.0

    def prediction_step(
        self,
        model: Any,
        inputs: dict[str, Any],
        prediction_loss_only: bool,
        ignore_keys: list[str] | None = None,
        **gen_kwargs: Any,
    ) -> tuple[torch.Tensor | None, Any, Any]:
        """The loss of the labels, the generated tokens, and the labels; both padded to one length."""
        if not self.args.predict_with_generate or prediction_loss_only:
            return super().prediction_step(model, inputs, prediction_loss_only, ignore_keys)
        batch = self._prepare_inputs(inputs)
        losses = None
        if "labels" in batch:
            losses, _ = model.run(batch, True, True, ())
        settings = {name: value for name, value in (gen_kwargs or self._gen_kwargs).items() if value is not None}
        tokens = self._generator.generate(**_select_inputs(batch), **settings)
        length = self._choose_length(settings)
        labels = batch.get("labels")
        return losses, self._pad(tokens, length), None if labels is None else self._pad(labels, length)

    def _choose_length(self, settings: dict[str, Any]) -> int:
        """What predictions and labels are padded to, so that those of all batches are one array."""
        config = self.model.generation_config
        more = settings.get("max_new_tokens") or config.max_new_tokens
        if more is not None:
            return int(more) + 1
        return int(settings.get("max_length") or config.max_length or 20)

    def _pad(self, tokens: torch.Tensor, length: int) -> torch.Tensor:
        padded: torch.Tensor = tokens
        if tokens.shape[-1] < length:
            padded = self._pad_tensors_to_max_len(tokens, length)
        return padded


def _select_inputs(batch: dict[str, Any]) -> dict[str, Any]:
    """What `generate` reads: the labels, and what was made from them, would answer before the model does."""
    hidden = ("labels", "decoder_input_ids", "decoder_attention_mask")
    return {name: value for name, value in batch.items() if name not in hidden}
