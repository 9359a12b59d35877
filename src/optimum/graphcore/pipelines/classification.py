"""Classes of texts, pictures and sounds on IPUs.

In: what the pipelines of Transformers take. Out: what they return.
"""

from __future__ import annotations

from transformers import AudioClassificationPipeline, ImageClassificationPipeline, TextClassificationPipeline

from optimum.graphcore.pipelines.ipu_pipeline import IPUPipelineMixin


class IPUTextClassificationPipeline(IPUPipelineMixin, TextClassificationPipeline):  # type: ignore[misc]
    """As in Transformers. Texts are padded to one length."""


class IPUImageClassificationPipeline(IPUPipelineMixin, ImageClassificationPipeline):  # type: ignore[misc]
    """As in Transformers."""


class IPUAudioClassificationPipeline(IPUPipelineMixin, AudioClassificationPipeline):  # type: ignore[misc]
    """As in Transformers. A sound of another length is another shape: the model is compiled anew for it."""
