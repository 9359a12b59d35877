"""Text that goes on, on IPUs.

In: the beginning of a text. Out: the text with what a model adds.
"""

from __future__ import annotations

from transformers import TextGenerationPipeline

from optimum.graphcore.pipelines.ipu_pipeline import IPUPipelineMixin


class IPUTextGenerationPipeline(IPUPipelineMixin, TextGenerationPipeline):  # type: ignore[misc]
    """As in Transformers."""
