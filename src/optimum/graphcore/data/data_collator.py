"""Collators whose batches always have the same shape.

In: a collator, or examples. Out: a collator that fills up short batches; batches with at most so many masked tokens.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import torch
from transformers import BatchEncoding, DataCollatorForLanguageModeling

_GRAIN = 16  # masked tokens of a row are counted in steps of this

Collator = Callable[..., Any]


def pad_on_batch_axis(batch_size: int) -> Callable[[Collator], Collator]:
    """A decorator for collators: a batch with fewer examples is filled up by repeating them."""

    def decorate(collator: Collator) -> Collator:
        @functools.wraps(collator, assigned=("__doc__",), updated=())
        def collate(*args: Any, **kwargs: Any) -> Any:
            batch = collator(*args, **kwargs)
            for name, value in pad_batch(dict(batch), batch_size).items():
                batch[name] = value
            return batch

        return collate

    return decorate


def pad_batch(batch: dict[str, Any], batch_size: int) -> dict[str, Any]:
    """The batch with every tensor filled up to this many rows: its own rows again, from the first."""
    return {
        name: _repeat_rows(value, batch_size) if isinstance(value, torch.Tensor) else value
        for name, value in batch.items()
    }


def _repeat_rows(tensor: torch.Tensor, rows: int) -> torch.Tensor:
    if tensor.dim() == 0 or tensor.shape[0] in (0, rows):
        return tensor
    return tensor[torch.arange(rows) % tensor.shape[0]]


class DataCollatorForLanguageModelingWithMaxTokensMasked(DataCollatorForLanguageModeling):
    """Masks tokens at random, and at most `max_num_masked_tokens` of each row, so that the head has a fixed size.

    Set `config.max_num_masked_tokens` of the model to the number that this collator has.
    """

    def __init__(self, max_seq_length: int, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.max_seq_length = max_seq_length
        self.max_num_masked_tokens = count_most_masked_tokens(max_seq_length, self.mlm_probability)

    def torch_call(self, examples: list[Any]) -> dict[str, Any]:
        """A plain dictionary: loaders that put batches together anew know no other kind."""
        batch = super().torch_call(examples)
        return dict(batch) if isinstance(batch, BatchEncoding) else batch

    def torch_mask_tokens(self, inputs: Any, special_tokens_mask: Any | None = None, **kwargs: Any) -> tuple[Any, Any]:
        """Inputs with masked tokens, and labels that are -100 elsewhere."""
        inputs, labels = inputs.clone(), inputs.clone()
        special = self._find_special_tokens(labels) if special_tokens_mask is None else special_tokens_mask.bool()
        chance = torch.full(labels.shape, self.mlm_probability).masked_fill_(special, 0.0)
        chosen = torch.bernoulli(chance).bool()
        # Among the chosen of a row, keep those that come first in a random order.
        order = torch.rand(labels.shape).masked_fill_(~chosen, 2.0).argsort(dim=1).argsort(dim=1)
        chosen &= order < self.max_num_masked_tokens
        labels[~chosen] = -100
        fate = torch.rand(labels.shape)  # most become the mask token, some a random word, the rest stay
        masked = chosen & (fate < self.mask_replace_prob)
        replaced = chosen & ~masked & (fate < self.mask_replace_prob + self.random_replace_prob)
        inputs[masked] = self.tokenizer.convert_tokens_to_ids(self.tokenizer.mask_token)
        words = torch.randint(len(self.tokenizer), labels.shape, dtype=inputs.dtype)
        inputs[replaced] = words[replaced]
        return inputs, labels

    def _find_special_tokens(self, tokens: torch.Tensor) -> torch.Tensor:
        rows = [self.tokenizer.get_special_tokens_mask(row, already_has_special_tokens=True) for row in tokens.tolist()]
        return torch.tensor(rows, dtype=torch.bool)


def count_most_masked_tokens(sequence_length: int, probability: float) -> int:
    """What a row stays below nearly always: two standard deviations above the mean, in steps of 16."""
    mean = sequence_length * probability
    deviation = math.sqrt(mean * (1 - probability))
    return min(sequence_length, math.ceil((mean + 2 * deviation) / _GRAIN) * _GRAIN)
