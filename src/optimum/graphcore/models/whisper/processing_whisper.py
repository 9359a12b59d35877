"""Speech to features with PyTorch, by the names of Optimum Graphcore.

In: waveforms. Out: log-mel features. Transformers' own extractor computes them with PyTorch by now: the classes are its
classes, and are here for scripts that import them.
"""

from __future__ import annotations

from typing import Any

from transformers import WhisperFeatureExtractor, WhisperProcessor


class WhisperFeatureExtractorTorch(WhisperFeatureExtractor):
    """The feature extractor of Transformers."""


class WhisperProcessorTorch(WhisperProcessor):
    """A feature extractor and a tokenizer."""

    def __init__(self, feature_extractor: Any, tokenizer: Any) -> None:
        super().__init__(feature_extractor, tokenizer)
        self.feature_extractor.__class__ = WhisperFeatureExtractorTorch
