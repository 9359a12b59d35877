"""Prompts that are read at once: the tokens, keys and values of reading them one by one."""

from __future__ import annotations

from collections import Counter
from typing import Any

import matrix_decoders as tiny
import pytest
import torch
import transformers
from generation_cases import STRATEGIES, assert_same_tokens, generate, make_model, make_pipelined
from tiny_decoders import make_llama_config, make_mistral_config, make_qwen_config

import poptorch
from openipu.pod import find_pod
from optimum.graphcore import IPUConfig
from optimum.graphcore.generation import GenerationSettings
from optimum.graphcore.modeling_utils import to_pipelined

PROMPT = 9
LENGTH = 15
GENERIC = {
    "llama": (transformers.LlamaForCausalLM, make_llama_config),
    "mistral": (transformers.MistralForCausalLM, make_mistral_config),  # which sees 4 tokens back
    "qwen": (transformers.Qwen2ForCausalLM, make_qwen_config),
}


def make_decoder(family: str) -> Any:
    if family == "gpt2":
        return make_model("gpt2")
    kind, make_config = GENERIC[family]
    torch.manual_seed(0)
    model = kind(make_config()).eval()
    for parameter in model.parameters():
        if parameter.dim() > 1:
            parameter.data.normal_(0, 0.3)
    return model


def make_prompt(side: str = "left", rows: int = 2, length: int = PROMPT) -> dict[str, torch.Tensor]:
    """Words, of which three of the last row are padding."""
    tokens, mask = tiny.make_words(rows, length) % 44 + 3, torch.ones(rows, length, dtype=torch.long)
    if side != "none":
        padded = slice(0, 3) if side == "left" else slice(-3, None)
        tokens[-1, padded], mask[-1, padded] = 0, 0
    return {"input_ids": tokens, "attention_mask": mask}


def make_generating(model: Any, **settings: Any) -> Any:
    config = IPUConfig(layers_per_ipu=[1, 1], executable_cache_dir="disabled")
    return to_pipelined(model, config).parallelize(for_generation=True, **settings)


def count_runs(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each program runs from now on, by the class of its module."""
    runs: Counter[str] = Counter()
    run = poptorch.PoplarExecutor.__call__

    def count(executor: Any, *args: Any, **kwargs: Any) -> Any:
        runs[type(executor.model).__name__] += 1
        return run(executor, *args, **kwargs)

    monkeypatch.setattr(poptorch.PoplarExecutor, "__call__", count)
    return runs


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("family", ["gpt2", *GENERIC])
def test_tokens_are_those_of_transformers(family, strategy):
    model = make_decoder(family)
    pipelined = make_generating(model)
    assert_same_tokens(model, pipelined, make_prompt(), max_length=LENGTH, **STRATEGIES[strategy])
    assert pipelined.generation_programs.prompt.tokens == PROMPT


@pytest.mark.parametrize("side", ["right", "none"])
def test_padding_may_be_on_either_side(side):
    model = make_decoder("gpt2")
    assert_same_tokens(model, make_generating(model), make_prompt(side), max_length=LENGTH)


def test_a_prompt_is_one_call_and_each_further_token_another(monkeypatch):
    runs = count_runs(monkeypatch)
    generate(make_generating(make_decoder("gpt2")), make_prompt("none"), max_length=LENGTH)
    # the prompt gives the first of 15 - 9 new tokens, and nothing follows the last one
    assert runs == {"PromptProgram": 1, "DecoderWrapper": LENGTH - PROMPT - 1}


def test_the_step_program_is_handed_the_keys_and_values_of_the_prompt():
    model = make_decoder("llama")
    pipelined = make_generating(model)
    inputs = make_prompt()
    generate(pipelined, inputs, max_length=LENGTH)
    positions = (inputs["attention_mask"].cumsum(1) - 1).clamp(min=0)
    expected = model(**inputs, position_ids=positions, use_cache=True).past_key_values
    seen = inputs["attention_mask"][:, None, :, None]  # of padding nothing is read
    for index, layer in enumerate(expected.layers):
        cache = pipelined.poptorch_decoder.model.cache
        for name, value in ((f"keys_{index}", layer.keys), (f"values_{index}", layer.values)):
            torch.testing.assert_close(cache.get_buffer(name)[:, :, :PROMPT] * seen, value * seen)


def test_the_beams_of_a_text_read_their_prompt_once():
    pipelined = make_generating(make_decoder("gpt2"))
    generate(pipelined, make_prompt(), max_length=LENGTH, num_beams=3)
    programs = pipelined.generation_programs
    assert (programs.prompt.rows, programs.decoder.rows) == (2, 2 * 3)


def test_a_shorter_prompt_and_fewer_texts_use_the_same_program():
    model = make_decoder("gpt2")
    pipelined = make_generating(model)
    generate(pipelined, make_prompt(rows=3, length=12), max_length=LENGTH)
    program = pipelined.generation_programs.prompt
    for inputs in (make_prompt("right"), make_prompt("left", rows=1)):
        assert_same_tokens(model, pipelined, inputs, max_length=LENGTH)
    assert_same_tokens(model, pipelined, make_prompt(), max_length=11)  # fewer tokens in all than the program reads
    assert pipelined.generation_programs.prompt is program


@pytest.mark.parametrize(("longest", "tokens"), [(25, 2 * PROMPT), (LENGTH, LENGTH - 1)], ids=["twice", "all"])
def test_a_longer_prompt_compiles_for_twice_the_tokens_or_all_that_are_kept(longest, tokens):
    model = make_decoder("gpt2")
    pipelined = make_generating(model, max_length=longest)
    generate(pipelined, make_prompt(), max_length=longest)
    steps = pipelined.poptorch_decoder
    assert_same_tokens(model, pipelined, make_prompt(length=12), max_length=longest)
    assert pipelined.generation_programs.prompt.tokens == tokens
    assert pipelined.poptorch_decoder is steps


def test_the_rest_of_a_prompt_beyond_the_fixed_length_is_read_one_by_one():
    model = make_decoder("mistral")
    pipelined = make_generating(model, prompt_length=6)
    for length in (9, 4):
        assert_same_tokens(model, pipelined, make_prompt(length=length), max_length=LENGTH, num_beams=2)
    assert pipelined.generation_programs.prompt.tokens == 6


@pytest.mark.parametrize("prompt_length", [None, 6])
@pytest.mark.parametrize("arguments", [{}, {"num_beams": 3, "repetition_penalty": 1.5}], ids=["greedy", "beams"])
def test_the_device_goes_on_by_itself_from_a_prompt_that_was_read_at_once(arguments, prompt_length, monkeypatch):
    model = make_decoder("gpt2")
    pipelined = make_generating(model, on_device_generation_steps=3, prompt_length=prompt_length)
    runs = count_runs(monkeypatch)
    for seed in (0, 1):
        inputs = {**make_prompt(), "input_ids": tiny.make_words(2, PROMPT, seed=seed)}
        assert_same_tokens(model, pipelined, inputs, max_length=LENGTH, eos_token_id=63, **arguments)
    # from the last token that was read at once to the last but one of 15
    calls = -(-(LENGTH - (prompt_length or PROMPT)) // 3)
    assert runs == {"PromptProgram": 2, type(pipelined.poptorch_decoder.model).__name__: 2 * calls}


@pytest.mark.parametrize("num_beams", [1, 2])
def test_the_device_goes_on_to_the_last_position_that_the_model_has(num_beams):
    model = make_decoder("gpt2")
    longest = model.config.n_positions
    pipelined = make_generating(model, on_device_generation_steps=7)
    arguments = {"max_length": longest, "num_beams": num_beams, "eos_token_id": 63}
    assert_same_tokens(model, pipelined, make_prompt("none", length=longest - 4), **arguments)


def test_the_device_reads_a_prompt_of_a_decoder_with_an_encoder():
    model = make_model("bart")
    settings = {"use_encoder_output_buffer": True, "on_device_generation_steps": 4, "prompt_length": 6}
    pipelined = make_pipelined(model, 4, **settings)
    for seed in (0, 1):
        text = {**tiny.make_text(2), "input_ids": tiny.make_words(2, seed=seed)}
        given = {**text, "decoder_input_ids": tiny.make_words(2, 5, seed=seed + 2)}
        assert_same_tokens(model, pipelined, given)
    assert pipelined.generation_programs.prompt.tokens == 6


@pytest.mark.parametrize(("settings", "length"), [({"prompt_length": 0}, PROMPT), ({}, 4)], ids=["asked", "few"])
def test_few_tokens_or_no_length_mean_one_by_one(settings, length):
    model = make_decoder("gpt2")
    pipelined = make_generating(model, **settings)
    assert_same_tokens(model, pipelined, make_prompt(length=length), max_length=LENGTH)
    assert pipelined.generation_programs.prompt is None


def test_replicas_read_one_by_one():
    model = make_decoder("gpt2")
    pipelined = make_pipelined(model, fields={"inference_replication_factor": 2})
    assert_same_tokens(model, pipelined, make_prompt(), max_length=LENGTH)
    assert pipelined.generation_programs.prompt is None


@pytest.mark.parametrize("num_beams", [1, 2])
@pytest.mark.parametrize(
    "settings",
    [{}, {"use_cross_cache": True}, {"use_encoder_output_buffer": True}],
    ids=lambda settings: "+".join(settings) or "plain",
)
@pytest.mark.parametrize("family", ["t5", "bart"])
def test_a_decoder_with_an_encoder_reads_its_prompt_at_once(family, settings, num_beams):
    model = make_model(family)
    pipelined = make_pipelined(model, 4, prompt_length=6, **settings)
    for seed in (0, 1):  # what was kept of the first text is not that of the second
        text = {**tiny.make_text(2), "input_ids": tiny.make_words(2, seed=seed)}
        given = {**text, "decoder_input_ids": tiny.make_words(2, 5, seed=seed + 2)}
        assert_same_tokens(model, pipelined, given, num_beams=num_beams)
    assert pipelined.generation_programs.prompt.tokens == 6


@pytest.mark.parametrize("settings", [{}, {"use_cross_cache": True}, {"use_cond_encoder": True}])
def test_whisper_reads_what_was_said_before(settings):
    model = make_model("whisper")
    pipelined = make_pipelined(model, prompt_length=8, **settings)
    speech = {"input_features": tiny.make_speech(2)["input_features"]}
    given = {**speech, "decoder_input_ids": tiny.make_words(2, 6, seed=5)}
    assert_same_tokens(model, pipelined, given)
    at_once = pipelined.generation_programs.prompt is not None
    assert at_once == ("use_cond_encoder" not in settings)  # there the encoder is in the program of single steps


def test_where_ipus_are_counted_both_programs_take_turns_on_the_same_ones(monkeypatch, tmp_path):
    monkeypatch.setenv("OPENIPU_STATE_DIR", str(tmp_path))
    monkeypatch.setenv("OPENIPU_POD", "bow-2000")
    model = make_decoder("gpt2")
    config = IPUConfig(layers_per_ipu=[0, 1, 1, 0], executable_cache_dir="disabled")
    pipelined = to_pipelined(model, config).parallelize(for_generation=True)
    for seed in (0, 1):
        inputs = {"input_ids": tiny.make_words(2, PROMPT, seed=seed)}
        assert_same_tokens(model, pipelined, inputs, max_length=LENGTH)
    assert [one.ipus for one in find_pod().list_attachments()] == [3]  # of 4: there is no room for another program
    assert pipelined.generation_programs.prompt is not None
    pipelined.destroy()
    assert find_pod().list_attachments() == []


@pytest.mark.parametrize("setting", ["use_cross_cache", "use_encoder_output_buffer"])
def test_what_is_kept_of_the_encoder_survives_the_turns(setting, monkeypatch, tmp_path):
    monkeypatch.setenv("OPENIPU_STATE_DIR", str(tmp_path))
    monkeypatch.setenv("OPENIPU_POD", "bow-2000")
    model = make_model("bart")
    pipelined = make_pipelined(model, prompt_length=6, **{setting: True})
    for seed in (0, 1):
        text = {**tiny.make_text(2), "input_ids": tiny.make_words(2, seed=seed)}
        given = {**text, "decoder_input_ids": tiny.make_words(2, 5, seed=seed + 2)}
        assert_same_tokens(model, pipelined, given, num_beams=2)
    assert pipelined.generation_programs.prompt is not None
    pipelined.destroy()


def test_the_host_runs_both_programs_to_debug(monkeypatch):
    monkeypatch.setenv("DEBUG_RUN_DECODER_ON_CPU", "1")
    model = make_decoder("gpt2")
    pipelined = make_generating(model)
    assert_same_tokens(model, pipelined, make_prompt(), max_length=LENGTH)
    assert isinstance(pipelined.generation_programs.prompt.run, torch.nn.Module)


def test_a_length_below_nothing_is_refused():
    with pytest.raises(ValueError, match="`prompt_length` is at least 0, not -1"):
        GenerationSettings(prompt_length=-1)


@pytest.mark.parametrize("family", ["t5", "bart"])
def test_inputs_of_the_encoder_are_filled_up_to_their_fixed_length(family):
    model = make_model(family)
    pipelined = make_pipelined(model, encoder_max_length=10)
    assert_same_tokens(model, pipelined, tiny.make_text(2))
    programs = (pipelined.poptorch_encoder, pipelined.poptorch_decoder)
    assert_same_tokens(model, pipelined, {"input_ids": tiny.make_words(2, 10, seed=4)}, num_beams=1)
    assert_same_tokens(model, pipelined, {"input_ids": tiny.make_words(2, 4, seed=5)}, num_beams=1)
    assert (pipelined.poptorch_encoder, pipelined.poptorch_decoder) == programs


@pytest.mark.parametrize(("family", "given"), [("t5", 7), ("whisper", 16)])
def test_longer_inputs_of_the_encoder_are_refused(family, given):
    pipelined = make_pipelined(make_model(family), encoder_max_length=given - 1)
    inputs = {"input_features": tiny.make_speech(2)["input_features"]} if family == "whisper" else tiny.make_text(2)
    with pytest.raises(ValueError, match=f"inputs of length {given}. Pass encoder_max_length={given}"):
        generate(pipelined, inputs)
