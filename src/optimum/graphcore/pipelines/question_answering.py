"""Answers from a text.

In: questions and texts. Out: for each the part of the text that answers it. Transformers 5 has no pipeline for this
task any more; this one takes and returns what that of version 4 did. A long text is read in pieces of one length.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from transformers import MODEL_FOR_QUESTION_ANSWERING_MAPPING
from transformers.pipelines.base import ChunkPipeline

from optimum.graphcore.pipelines.answers import find_spans
from optimum.graphcore.pipelines.ipu_pipeline import IPUPipelineMixin

Example = dict[str, str]  # question, context
_NOT_FOR_MODEL = ("offset_mapping", "special_tokens_mask", "overflow_to_sample_mapping")


class QuestionAnsweringPipeline(ChunkPipeline):
    """Returns {"score": …, "start": …, "end": …, "answer": …}, or a list of them with `top_k` or several questions."""

    tokenizer: Any
    default_input_names = "question,context"
    _load_processor = False
    _load_image_processor = False
    _load_feature_extractor = False
    _load_tokenizer = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if not self.tokenizer.is_fast:
            raise ValueError(
                f"question-answering needs a fast tokenizer, which knows where tokens are in a text; "
                f"{type(self.tokenizer).__name__} does not. Load it with AutoTokenizer."
            )
        self.check_model_type([kind.__name__ for kind in MODEL_FOR_QUESTION_ANSWERING_MAPPING.values()])

    def _sanitize_parameters(
        self,
        padding: Any = None,
        doc_stride: int | None = None,
        max_question_len: int | None = None,
        max_seq_len: int | None = None,
        top_k: int | None = None,
        topk: int | None = None,
        max_answer_len: int | None = None,
        handle_impossible_answer: bool | None = None,
        align_to_words: bool | None = None,
    ) -> Any:
        top_k = topk if top_k is None else top_k  # `topk` is the name of earlier releases
        for name, value in {"top_k": top_k, "max_answer_len": max_answer_len}.items():
            if value is not None and value < 1:
                raise ValueError(f"{name} parameter should be >= 1 (got {value})")
        for_preprocess = {
            "padding": padding,
            "doc_stride": doc_stride,
            "max_question_len": max_question_len,
            "max_seq_len": max_seq_len,
        }
        for_postprocess = {
            "top_k": top_k,
            "max_answer_len": max_answer_len,
            "handle_impossible_answer": handle_impossible_answer,
            "align_to_words": align_to_words,
        }
        return _select(for_preprocess), {}, _select(for_postprocess)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """`question=`, `context=`; or dictionaries with both. Several questions may share a context."""
        is_single, examples = _read_examples(args, kwargs)
        results = super().__call__(examples, **kwargs)
        return results[0] if is_single else results

    def preprocess(
        self,
        example: Example,
        padding: Any = "max_length",
        doc_stride: int | None = None,
        max_question_len: int = 64,
        max_seq_len: int | None = None,
    ) -> Iterator[dict[str, Any]]:
        max_seq_len = min(self.tokenizer.model_max_length, 384) if max_seq_len is None else max_seq_len
        doc_stride = min(max_seq_len // 2, 128) if doc_stride is None else doc_stride
        if doc_stride >= max_seq_len:
            raise ValueError(
                f"`doc_stride` ({doc_stride}) is larger than `max_seq_len` ({max_seq_len}): pieces of a text overlap "
                "by doc_stride tokens, and must be longer than that."
            )
        pieces = self.tokenizer(
            self._cut_question(example["question"], max_question_len),
            example["context"],
            truncation="only_second",
            padding=padding,
            max_length=max_seq_len,
            stride=doc_stride,
            return_overflowing_tokens=True,
            return_offsets_mapping=True,
            return_special_tokens_mask=True,
            return_tensors="pt",
        )
        count = len(pieces["input_ids"])
        for index in range(count):
            inputs = {name: pieces[name][index : index + 1] for name in pieces if name not in _NOT_FOR_MODEL}
            encoding = pieces.encodings[index]
            yield {"example": example, "encoding": encoding, "is_last": index == count - 1, **inputs}

    def _cut_question(self, question: str, max_question_len: int) -> str:
        """As much of a question as so many tokens cover."""
        offsets = self.tokenizer(question, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
        return question if len(offsets) <= max_question_len else question[: offsets[max_question_len - 1][1]]

    def _forward(self, inputs: dict[str, Any]) -> dict[str, Any]:
        kept = {name: inputs.pop(name) for name in ("example", "encoding", "is_last")}
        tokens = inputs["input_ids"]
        outputs = self.model(**inputs)
        start, end = (outputs["start_logits"], outputs["end_logits"]) if isinstance(outputs, dict) else outputs[:2]
        return {"start": start, "end": end, "input_ids": tokens, **kept}

    def postprocess(
        self,
        model_outputs: list[dict[str, Any]],
        top_k: int = 1,
        handle_impossible_answer: bool = False,
        max_answer_len: int = 15,
        align_to_words: bool = True,
    ) -> Any:
        best: dict[tuple[int, int], dict[str, Any]] = {}  # pieces overlap, and may both hold an answer
        least_null = 1.0
        for piece in model_outputs:
            encoding, context = piece["encoding"], piece["example"]["context"]
            is_context = np.array([number == 1 for number in encoding.sequence_ids])
            is_null = piece["input_ids"][0].numpy() == self.tokenizer.cls_token_id
            start, end = (piece[name][0].float().numpy() for name in ("start", "end"))
            spans, null = find_spans(start, end, is_context, is_null, top_k, max_answer_len)
            least_null = min(least_null, null)
            for span in spans:
                first, last = _find_characters(encoding, span.first, span.last, align_to_words)
                answer = {"score": span.score, "start": first, "end": last, "answer": context[first:last]}
                known = best.get((first, last))
                if known is None or known["score"] < span.score:
                    best[first, last] = answer
        answers = list(best.values())
        if handle_impossible_answer or not answers:
            answers.append({"score": least_null, "start": 0, "end": 0, "answer": ""})
        answers.sort(key=lambda answer: answer["score"], reverse=True)
        return answers[0] if top_k == 1 else answers[:top_k]


class IPUQuestionAnsweringPipeline(IPUPipelineMixin, QuestionAnsweringPipeline):
    """Answers on IPUs."""


def _read_examples(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[bool, list[Example]]:
    """Whether it is a single example, and all examples. Takes its arguments out of `kwargs`."""
    given: Any = next((kwargs.pop(name) for name in ("X", "data") if name in kwargs), None)
    if given is None and "question" in kwargs and "context" in kwargs:
        question, context = kwargs.pop("question"), kwargs.pop("context")
        if isinstance(question, str):
            return True, [_check_example({"question": question, "context": context})]
        contexts = [context] * len(question) if isinstance(context, str) else context
        if len(contexts) != len(question):
            raise ValueError(
                f"Questions and contexts don't have the same lengths: {len(question)} and {len(contexts)}."
            )
        pairs = zip(question, contexts, strict=True)
        return False, [_check_example({"question": one, "context": other}) for one, other in pairs]
    if given is None:
        given = args[0] if len(args) == 1 else list(args)
    if isinstance(given, dict) and isinstance(given.get("question"), list):
        return _read_examples((), dict(given))
    is_single = isinstance(given, dict)
    examples = [_check_example(example) for example in ([given] if is_single else given)]
    if not examples:
        raise ValueError(
            "question-answering got no question. Give question=… and context=…, or dictionaries with both."
        )
    return is_single, examples


def _check_example(example: Any) -> Example:
    if not isinstance(example, dict):
        raise ValueError(f"{example!r} is not an example: give dictionaries with a `question` and a `context`.")
    for name in ("question", "context"):
        if name not in example:
            raise KeyError(f"You need to provide a dictionary with keys {{question:..., context:...}}: no {name!r}.")
        if not isinstance(example[name], str) or not example[name]:
            raise ValueError(f"`{name}` cannot be empty: {example[name]!r}. Give a text.")
    return {"question": example["question"], "context": example["context"]}


def _find_characters(encoding: Any, first: int, last: int, align_to_words: bool) -> tuple[int, int]:
    """The answer in the text: whole words, or what the tokens cover."""
    if align_to_words:
        words = encoding.token_to_word(first), encoding.token_to_word(last)
        if None not in words:
            return encoding.word_to_chars(words[0], 1)[0], encoding.word_to_chars(words[1], 1)[1]
    return encoding.offsets[first][0], encoding.offsets[last][1]


def _select(parameters: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in parameters.items() if value is not None}
