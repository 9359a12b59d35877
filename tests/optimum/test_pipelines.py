"""Pipelines on IPUs against those of Transformers, with tiny models and nothing from the network."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from matrix_vision_audio import SPEECH, make_vit_config
from PIL import Image
from tiny_models import (
    make_decoder,
    make_feature_extractor,
    make_letter_tokenizer,
    make_text_model,
    make_text_to_text,
    make_tokenizer,
    make_whisper,
)

import poptorch
from optimum.graphcore import IPUConfig
from optimum.graphcore.ipu_configuration import IncompatibleIPUConfigError
from optimum.graphcore.pipelines import (
    SUPPORTED_TASKS,
    IPUFillMaskPipeline,
    QuestionAnsweringPipeline,
    list_tasks,
    pipeline,
)
from optimum.graphcore.pipelines.answers import find_spans

ONE_IPU = IPUConfig(executable_cache_dir="disabled")
TWO_IPUS = IPUConfig(layers_per_ipu=[1, 1], executable_cache_dir="disabled")
CONTEXT = "anna lives in paris and ben works in london and clara likes the big red birds in rome it was good"


def make(task: str, model: Any, ipu_config: IPUConfig = ONE_IPU, **kwargs: Any) -> Any:
    processors = {} if {"tokenizer", "feature_extractor"} & kwargs.keys() else {"tokenizer": make_tokenizer()}
    return pipeline(task, model, ipu_config, fp16=kwargs.pop("fp16", False), **processors, **kwargs)


def make_reference(task: str, model: Any, **kwargs: Any) -> Any:
    return transformers.pipeline(task, model=model, **({"tokenizer": make_tokenizer()} | kwargs))


def compare(actual: Any, expected: Any) -> None:
    """The same structure; numbers equal within rounding."""
    if isinstance(expected, float):
        assert actual == pytest.approx(expected, abs=1e-5)
    elif isinstance(expected, dict):
        assert actual.keys() == expected.keys()
        for key, value in expected.items():
            compare(actual[key], value)
    elif isinstance(expected, list):
        assert len(actual) == len(expected)
        for one, other in zip(actual, expected, strict=True):
            compare(one, other)
    else:
        assert actual == expected


def make_speech_model(head: str) -> Any:
    torch.manual_seed(0)
    return getattr(transformers, head)(getattr(transformers, head).config_class(**SPEECH)).eval()


def make_sound(samples: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(samples).astype(np.float32)


def test_masked_words_are_those_of_transformers():
    model = make_text_model("ForMaskedLM")
    fill = make("fill-mask", model, TWO_IPUS, max_length=12)
    texts = ["the cat [MASK] home", "a [MASK] in rome"]
    compare(fill(texts), make_reference("fill-mask", model)(texts))
    compare(
        fill(texts[0], targets=["sat", "ran"]), make_reference("fill-mask", model)(texts[0], targets=["sat", "ran"])
    )


def test_classes_of_texts_are_those_of_transformers():
    model = make_text_model("ForSequenceClassification", num_labels=3)
    classify = make("sentiment-analysis", model)
    reference = make_reference("text-classification", model)
    compare(classify("the cat sat"), reference("the cat sat"))
    pair = {"text": "the cat sat", "text_pair": "dogs ran"}
    compare(classify(pair, top_k=2), reference(pair, top_k=2))


def test_classes_of_words_are_those_of_transformers():
    labels = {0: "O", 1: "B-PER", 2: "I-PER"}
    model = make_text_model("ForTokenClassification", num_labels=3, id2label=labels)
    tag, reference = make("ner", model, TWO_IPUS), make_reference("token-classification", model)
    text = "anna likes cats in paris"
    compare(tag(text), reference(text))
    compare(tag(text, grouped_entities=True), reference(text, aggregation_strategy="simple"))


def test_classes_without_training_are_those_of_transformers():
    labels = {0: "contradiction", 1: "neutral", 2: "entailment"}
    model = make_text_model(
        "ForSequenceClassification", num_labels=3, id2label=labels, label2id={name: key for key, name in labels.items()}
    )
    choose, reference = make("zero-shot-classification", model), make_reference("zero-shot-classification", model)
    arguments = {"candidate_labels": ["food", "sport", "birds"], "multi_label": True}
    compare(choose("the cat ran home", **arguments), reference("the cat ran home", **arguments))


@pytest.mark.parametrize("kind", ["GPT2", "Llama"])
def test_generated_text_is_that_of_transformers(kind):
    model = make_decoder(kind)
    arguments = {"do_sample": False, "max_new_tokens": 6, "min_new_tokens": 6}
    expected = make_reference("text-generation", model)("the cat", **arguments)
    assert make("text-generation", model)("the cat", **arguments) == expected


def test_what_was_compiled_for_generation_goes_with_the_pipeline():
    write = make("text-generation", make_decoder())
    write("the cat", max_new_tokens=2)
    model = write.model
    assert model.poptorch_decoder.isCompiled()
    del write
    gc.collect()
    assert not hasattr(model, "poptorch_decoder")


def test_pictures_have_the_classes_of_transformers():
    torch.manual_seed(0)
    model = transformers.ViTForImageClassification(make_vit_config()).eval()
    processor = transformers.ViTImageProcessor(size={"height": 16, "width": 16})
    pixels = np.random.default_rng(0).integers(0, 255, (3, 20, 20, 3), dtype=np.uint8)
    pictures = [Image.fromarray(picture) for picture in pixels]
    classify = make("image-classification", model, feature_extractor=processor)
    reference = transformers.pipeline("image-classification", model=model, image_processor=processor)
    compare(classify(pictures), reference(pictures))


def test_sounds_have_the_classes_of_transformers_whatever_their_length():
    model = make_speech_model("HubertForSequenceClassification")
    classify = make("audio-classification", model, feature_extractor=make_feature_extractor())
    reference = transformers.pipeline("audio-classification", model=model, feature_extractor=make_feature_extractor())
    for samples in (400, 300):
        compare(classify(make_sound(samples)), reference(make_sound(samples)))


def test_speech_has_the_text_of_transformers(tmp_path):
    model = make_speech_model("Wav2Vec2ForCTC")
    parts = {"tokenizer": make_letter_tokenizer(tmp_path), "feature_extractor": make_feature_extractor()}
    recognise = make("automatic-speech-recognition", model, **parts)
    reference = transformers.pipeline("automatic-speech-recognition", model=model, **parts)
    arguments = {"chunk_length_s": 0.05, "return_timestamps": "char"}
    compare(recognise(make_sound(1600), **arguments), reference(make_sound(1600), **arguments))


def test_whisper_writes_the_text_of_transformers():
    parts = make_whisper()
    arguments = {"generate_kwargs": {"max_new_tokens": 6, "num_beams": 2}}
    expected = transformers.pipeline("automatic-speech-recognition", **parts)(make_sound(16000), **arguments)
    assert expected["text"]
    recognise = make("automatic-speech-recognition", parts.pop("model"), TWO_IPUS, **parts)
    assert recognise(make_sound(16000), **arguments) == expected


def test_texts_become_texts_as_generate_says():
    model, tokenizer = make_text_to_text(), make_tokenizer()
    arguments = {"num_beams": 2, "max_length": 8, "min_length": 4}
    names = {
        "summarization": "summary_text",
        "translation_en_to_de": "translation_text",
        "text2text-generation": "generated_text",
    }
    inputs = tokenizer("the cat ran home", return_tensors="pt", padding="max_length", max_length=12)
    tokens = model.generate(inputs["input_ids"], attention_mask=inputs["attention_mask"], **arguments)
    expected = tokenizer.decode(tokens[0], skip_special_tokens=True)
    assert expected
    for task, name in names.items():
        write = make(task, model, max_input_length=12, **arguments)
        assert write("the cat ran home") == [{name: expected}]
    assert write(["the cat ran home", "the cat ran home"]) == [{name: expected}] * 2
    assert torch.equal(write("the cat ran home", return_tensors=True)[0]["generated_token_ids"], tokens[0])


def test_a_task_may_want_words_before_the_text():
    model = make_text_to_text()
    model.config.task_specific_params = {"translation_en_to_de": {"prefix": "the big red "}}
    arguments = {"max_input_length": 12, "max_length": 8, "num_beams": 2, "min_length": 4}
    with_prefix = make("translation_en_to_de", model, **arguments)("cat")
    model.config.task_specific_params = None
    assert make("translation", model, **arguments)("the big red cat") == with_prefix


def test_answers_are_the_likeliest_parts_of_the_text():
    model, tokenizer = make_text_model("ForQuestionAnswering"), make_tokenizer()
    answer = make("question-answering", model, max_seq_len=32)
    question, context = "who lives in paris", "anna lives in paris and ben works"
    best = answer(question=question, context=context)
    encoded = tokenizer(question, context, return_tensors="pt", return_offsets_mapping=True)
    offsets = encoded.pop("offset_mapping")[0]
    with torch.no_grad():
        outputs = model(**encoded)
    # Tokens of the context, and the first one, which stands for no answer.
    allowed = [0, *(index for index, number in enumerate(encoded.sequence_ids(0)) if number == 1)]
    start, end = (logits[0, allowed].softmax(-1) for logits in (outputs.start_logits, outputs.end_logits))
    score, first, last = max(
        (float(start[i] * end[j]), int(offsets[allowed[i]][0]), int(offsets[allowed[j]][1]))
        for i in range(1, len(allowed))
        for j in range(i, len(allowed))
    )
    compare(best, {"score": score, "start": first, "end": last, "answer": context[first:last]})


def test_a_long_text_is_read_in_pieces_and_several_questions_share_it():
    answer = make("question-answering", make_text_model("ForQuestionAnswering"), max_seq_len=20, doc_stride=4)
    results = answer(question=["who lives in paris", "where is ben"], context=CONTEXT, top_k=3)
    assert [len(answers) for answers in results] == [3, 3]
    for answers in results:
        scores = [found["score"] for found in answers]
        assert scores == sorted(scores, reverse=True)
        assert all(CONTEXT[found["start"] : found["end"]] == found["answer"] for found in answers)
    assert answer({"question": "where is ben", "context": CONTEXT}) == results[1][0]


def test_a_question_may_have_no_answer():
    is_null, is_allowed = np.array([True, False, False]), np.array([False, True, True])
    spans, no_answer = find_spans(np.array([3.0, 0.0, 1.0]), np.array([3.0, 0.0, 2.0]), is_allowed, is_null, 2, 5)
    total_start, total_end = np.exp([3.0, 0.0, 1.0]).sum(), np.exp([3.0, 0.0, 2.0]).sum()
    assert no_answer == pytest.approx(np.exp(6.0) / total_start / total_end)
    assert [(span.first, span.last) for span in spans] == [(2, 2), (1, 2)]
    assert spans[0].score == pytest.approx(np.exp(3.0) / total_start / total_end)


def test_an_answer_is_no_longer_than_was_asked_for():
    everywhere, nowhere = np.ones(4, dtype=bool), np.zeros(4, dtype=bool)
    start, end = np.array([5.0, 0.0, 0.0, 0.0]), np.array([0.0, 0.0, 1.0, 5.0])
    assert [(s.first, s.last) for s in find_spans(start, end, everywhere, nowhere, 1, 4)[0]] == [(0, 3)]
    assert [(s.first, s.last) for s in find_spans(start, end, everywhere, nowhere, 1, 3)[0]] == [(0, 2)]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"question": "", "context": "a"}, ValueError, "`question` cannot be empty"),
        ({"question": ["a", "b"], "context": ["c"]}, ValueError, "don't have the same lengths"),
        ({"data": {"question": "a"}}, KeyError, "no 'context'"),
        ({"data": []}, ValueError, "got no question"),
        ({"question": "a", "context": "b", "top_k": 0}, ValueError, "top_k parameter should be >= 1"),
        ({"question": "a", "context": "b", "doc_stride": 40}, ValueError, "`doc_stride` \\(40\\) is larger"),
    ],
)
def test_questions_that_make_no_sense_are_refused(arguments, error, message):
    answer = QuestionAnsweringPipeline(
        model=make_text_model("ForQuestionAnswering"), tokenizer=make_tokenizer(), task="question-answering"
    )
    with pytest.raises(error, match=message):
        answer(**arguments)


def test_the_last_batch_is_filled_up_and_compiles_nothing():
    model = make_text_model("ForSequenceClassification", num_labels=3)
    classify = make("text-classification", model, max_length=12)
    texts = ["the cat", "a dog ran", "birds in rome", "ben", "anna likes food"]
    results = classify(texts, batch_size=2)  # 2 + 2 + 1
    compare(results, make_reference("text-classification", model)(texts))
    assert classify._rows == 2
    compare(classify(texts, batch_size=5), results)  # more than before: compiled anew
    assert classify._rows == 5


def test_half_precision_is_the_default_and_scores_are_floats():
    model = make_text_model("ForSequenceClassification", num_labels=3)
    expected = make_reference("text-classification", model)("the cat sat")
    classify = pipeline("text-classification", model, ONE_IPU, tokenizer=make_tokenizer())
    assert classify.model.dtype is torch.float16
    assert model.dtype is torch.float32  # the model that was given stays as it is
    found = classify("the cat sat")
    assert found[0]["label"] == expected[0]["label"]
    assert found[0]["score"] == pytest.approx(expected[0]["score"], abs=5e-3)


def test_a_directory_says_all_that_is_needed(tmp_path):
    model = make_text_model("ForMaskedLM")
    model.save_pretrained(tmp_path)
    make_tokenizer().save_pretrained(tmp_path)
    TWO_IPUS.save_pretrained(tmp_path)
    fill = pipeline("fill-mask", str(tmp_path), fp16=False, max_length=12)
    assert fill.model._user_model.ipu_config.inference_layers_per_ipu == [1, 1]
    compare(fill("the [MASK] sat"), make_reference("fill-mask", model)("the [MASK] sat"))


def test_a_configuration_that_does_not_suit_is_refused():
    with pytest.raises(
        IncompatibleIPUConfigError, match=r"'layers_per_ipu': \[3, 4\].*\n.*for 7 layers but there are 2"
    ):
        make("fill-mask", make_text_model("ForMaskedLM"), IPUConfig(layers_per_ipu=[3, 4]))


def test_an_executor_may_be_given_and_the_class_of_the_pipeline():
    class Shouting(transformers.TextClassificationPipeline):
        def postprocess(self, *args, **kwargs):
            result = super().postprocess(*args, **kwargs)
            return {**result, "label": result["label"] + "!"}

    model = make_text_model("ForSequenceClassification", num_labels=3)
    executor = poptorch.inferenceModel(model)
    forward = Shouting._forward
    classify = pipeline("text-classification", executor, tokenizer=make_tokenizer(), pipeline_class=Shouting)
    assert classify.model is executor
    assert classify("the cat")[0]["label"].endswith("!")
    assert Shouting._forward is forward  # other users of the class notice nothing


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({}, RuntimeError, "without either a task or a model"),
        ({"model": object()}, RuntimeError, "name the task"),
        ({"task": "time-travel", "model": "x"}, ValueError, "Task time-travel is not supported. Supported tasks are"),
        ({"task": "fill-mask", "model": object()}, ValueError, "is not supported. Please provide a valid model"),
    ],
)
def test_pipelines_that_make_no_sense_are_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        pipeline(**arguments)


def test_a_model_without_its_tokenizer_is_refused():
    model = make_text_model("ForMaskedLM")
    with pytest.raises(ValueError, match="PreTrainedModel, you must pass a tokenizer"):
        pipeline("fill-mask", model)
    with pytest.raises(ValueError, match="PoplarExecutor, you must pass a tokenizer"):
        pipeline("fill-mask", poptorch.inferenceModel(model))
    with pytest.raises(ValueError, match="you must pass a feature extractor"):
        pipeline("audio-classification", make_speech_model("HubertForSequenceClassification"))


def test_adapters_must_be_merged_first():
    kind = type("PeftModel", (), {})
    with pytest.raises(TypeError, match="merge_and_unload"):
        pipeline("fill-mask", kind(), tokenizer=make_tokenizer())


def test_all_tasks_and_their_other_names_are_listed():
    assert len(SUPPORTED_TASKS) == 12
    assert {"ner", "sentiment-analysis", "summarization", "question-answering"} <= set(list_tasks())
    assert SUPPORTED_TASKS["fill-mask"]["impl"] is IPUFillMaskPipeline


def test_every_usual_configuration_of_a_task_is_built_in():
    for row in SUPPORTED_TASKS.values():
        config = row["default"]["ipu_config"]
        assert isinstance(config if isinstance(config, IPUConfig) else IPUConfig.from_pretrained(config), IPUConfig)
