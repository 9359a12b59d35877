"""Speech to text on IPUs, by CTC models and by Whisper.

In: sounds. Out: texts, with the time of each word or letter on request.
"""

from __future__ import annotations

from transformers import AutomaticSpeechRecognitionPipeline

from optimum.graphcore.pipelines.ipu_pipeline import IPUPipelineMixin


class IPUAutomaticSpeechRecognitionPipeline(IPUPipelineMixin, AutomaticSpeechRecognitionPipeline):  # type: ignore[misc]
    """As in Transformers. For CTC models, `chunk_length_s` cuts sounds into pieces of one length."""
