"""Masked words on IPUs.

In: texts with a mask. Out: words for it. All texts are padded to one length.
"""

from __future__ import annotations

from typing import Any

from transformers import FillMaskPipeline

from optimum.graphcore.pipelines.ipu_pipeline import IPUPipelineMixin


class IPUFillMaskPipeline(IPUPipelineMixin, FillMaskPipeline):  # type: ignore[misc]
    """As in Transformers. Arguments of the tokenizer, such as `max_length`, may be given by themselves."""

    def _sanitize_parameters(
        self, top_k: int | None = None, targets: Any = None, tokenizer_kwargs: Any = None, **more: Any
    ) -> Any:
        merged = {**(tokenizer_kwargs or {}), **more} or None
        return super()._sanitize_parameters(top_k=top_k, targets=targets, tokenizer_kwargs=merged)
