"""Classes of words on IPUs.

In: texts. Out: the class of each word. All texts are padded to one length.
"""

from __future__ import annotations

import inspect
from typing import Any

from transformers import TokenClassificationPipeline

from optimum.graphcore.pipelines.ipu_pipeline import IPUPipelineMixin

_OWN = frozenset(inspect.signature(TokenClassificationPipeline._sanitize_parameters).parameters)


class IPUTokenClassificationPipeline(IPUPipelineMixin, TokenClassificationPipeline):  # type: ignore[misc]
    """As in Transformers. Arguments of the tokenizer, such as `max_length`, may be given by themselves."""

    def _sanitize_parameters(self, **kwargs: Any) -> Any:
        # Two arguments of earlier releases, which named what aggregation_strategy names now.
        grouped, ignore_subwords = kwargs.pop("grouped_entities", None), kwargs.pop("ignore_subwords", None)
        if grouped is not None or ignore_subwords is not None:
            strategy = ("first" if ignore_subwords else "simple") if grouped else "none"
            kwargs.setdefault("aggregation_strategy", strategy)
        own = {name: value for name, value in kwargs.items() if name in _OWN}
        preprocess, forward, postprocess = super()._sanitize_parameters(**own)
        for_tokenizer = {name: value for name, value in kwargs.items() if name not in _OWN}
        # Transformers truncates to what the tokenizer can do, and a second word on it would be one too many.
        for_tokenizer.pop("truncation", None)
        if for_tokenizer:
            preprocess["tokenizer_params"] = {**preprocess.get("tokenizer_params", {}), **for_tokenizer}
        return preprocess, forward, postprocess

    def preprocess(self, sentence: Any, offset_mapping: Any = None, **preprocess_params: Any) -> Any:
        # The tokens of a call must not reach the next one by way of a shared dictionary.
        if "tokenizer_params" in preprocess_params:
            preprocess_params["tokenizer_params"] = dict(preprocess_params["tokenizer_params"])
        yield from super().preprocess(sentence, offset_mapping, **preprocess_params)
