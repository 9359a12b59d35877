"""Classes without training on IPUs: which of some statements follows from a text.

In: texts and labels. Out: labels with scores. All pairs of a text and a statement are padded to one length.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from transformers import ZeroShotClassificationPipeline

from optimum.graphcore.pipelines.ipu_pipeline import IPUPipelineMixin

_FOR_TOKENIZER = ("padding", "max_length")


class IPUZeroShotClassificationPipeline(IPUPipelineMixin, ZeroShotClassificationPipeline):  # type: ignore[misc]
    """As in Transformers, with `padding` and `max_length`. Where a pair is too long the text is cut, not the label."""

    tokenizer: Any

    def _sanitize_parameters(self, **kwargs: Any) -> Any:
        if kwargs.get("multi_class") is not None:  # the name of earlier releases
            kwargs["multi_label"] = kwargs["multi_class"]
        preprocess, forward, postprocess = super()._sanitize_parameters(**kwargs)
        preprocess |= {name: kwargs[name] for name in _FOR_TOKENIZER if name in kwargs}
        return preprocess, forward, postprocess

    def preprocess(
        self,
        inputs: Any,
        candidate_labels: Any = None,
        hypothesis_template: str = "This example is {}.",
        padding: Any = True,
        max_length: int | None = None,
    ) -> Iterator[dict[str, Any]]:
        pairs, sequences = self._args_parser(inputs, candidate_labels, hypothesis_template)
        if self.tokenizer.pad_token is None:
            self.tokenizer.pad_token = self.tokenizer.eos_token
        for index, (label, pair) in enumerate(zip(candidate_labels, pairs, strict=True)):
            tokens = self.tokenizer(
                [pair], return_tensors="pt", padding=padding, max_length=max_length, truncation="only_first"
            )
            is_last = index == len(candidate_labels) - 1
            yield {"candidate_label": label, "sequence": sequences[0], "is_last": is_last, **tokens}
