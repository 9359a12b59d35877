"""`generate` on modelled IPUs: the tokens of plain Transformers, from programs of static shapes."""

from __future__ import annotations

import logging
from typing import Any

import matrix_decoders as tiny
import pytest
import torch
import transformers
from generation_cases import (
    FAMILIES,
    LENGTH,
    STRATEGIES,
    assert_same_tokens,
    generate,
    make_inputs,
    make_ipu_config,
    make_model,
    make_pipelined,
)

import poptorch
from optimum.graphcore.generation import GenerationSettings, IPUGenerationMixin
from optimum.graphcore.modeling_utils import to_pipelined


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("family", FAMILIES)
def test_tokens_are_those_of_transformers(family, strategy):
    model = make_model(family)
    assert_same_tokens(model, make_pipelined(model, 4), make_inputs(family), **STRATEGIES[strategy])


@pytest.mark.parametrize("family", FAMILIES)
def test_without_a_cache_each_step_runs_over_all_tokens(family):
    model = make_model(family)
    pipelined = make_pipelined(model, use_cache=False)
    assert_same_tokens(model, pipelined, make_inputs(family), num_beams=2)
    assert pipelined.generation_programs.decoder is None


@pytest.mark.parametrize(
    "settings",
    [
        {"use_cross_cache": True},
        {"use_encoder_output_buffer": True},
        {"use_cross_cache": True, "use_encoder_output_buffer": True},
        {"use_cond_encoder": True},
        {"use_cond_encoder": True, "use_cross_cache": True},
        {"sequence_serialization_factor": 4},
        {"batch_serialization_factor": 2},
    ],
    ids=lambda settings: "+".join(settings),
)
def test_what_is_done_once_a_sequence_or_in_parts_changes_no_token(settings):
    model = make_model("whisper")
    pipelined = make_pipelined(model, 4, **settings)
    inputs = make_inputs("whisper")
    assert_same_tokens(model, pipelined, inputs, num_beams=2)
    assert_same_tokens(model, pipelined, {name: value.flip(0) for name, value in inputs.items()}, num_beams=2)


def test_t5_keeps_what_the_encoder_made_and_its_relative_positions():
    model = make_model("t5")
    pipelined = make_pipelined(model, use_cross_cache=True, use_encoder_output_buffer=True)
    for seed in (0, 1):
        inputs = {**make_inputs("t5"), "input_ids": tiny.make_words(2, seed=seed)}
        assert_same_tokens(model, pipelined, inputs)


def test_keys_and_values_are_buffers_of_the_program():
    pipelined = make_pipelined(make_model("gpt2"))
    generate(pipelined, make_inputs("gpt2"), num_beams=2)
    buffers = dict(pipelined.poptorch_decoder.model.cache.named_buffers())
    # 2 texts x 2 beams, 4 heads, all tokens but the last, 32 features / 4 heads; for 2 layers
    assert {name: tuple(value.shape) for name, value in buffers.items()} == {
        f"{kind}_{layer}": (2 * 2, 4, LENGTH - 1, 8) for kind in ("keys", "values") for layer in (0, 1)
    }


def test_a_smaller_batch_and_a_shorter_text_use_the_same_program():
    model = make_model("gpt2")
    pipelined = make_pipelined(model)
    assert_same_tokens(model, pipelined, make_inputs("gpt2", 3))
    program = pipelined.poptorch_decoder
    assert_same_tokens(model, pipelined, {"input_ids": tiny.make_words(2, 3)}, max_length=9)
    assert pipelined.poptorch_decoder is program


def test_a_larger_batch_compiles_again():
    model = make_model("bart")
    pipelined = make_pipelined(model)
    assert_same_tokens(model, pipelined, make_inputs("bart", 2))
    program = pipelined.poptorch_decoder
    assert_same_tokens(model, pipelined, make_inputs("bart", 3))
    assert pipelined.poptorch_decoder is not program


def test_sizes_that_parallelize_is_given_are_compiled_for():
    pipelined = make_pipelined(make_model("t5"), batch_size=4, max_length=20, num_beams=2)
    generate(pipelined, make_inputs("t5"), num_beams=2)
    assert tuple(pipelined.poptorch_decoder.model.cache.keys_0.shape[:3:2]) == (4 * 2, 19)


@pytest.mark.parametrize(
    ("fixed", "given"), [({"num_beams": 2}, {"num_beams": 3}), ({"max_length": 9}, {}), ({"batch_size": 1}, {})]
)
def test_a_call_that_does_not_fit_the_fixed_sizes_is_refused(fixed, given):
    name = next(iter(fixed))
    with pytest.raises(ValueError, match=f"KV caches were created with {name}="):
        generate(make_pipelined(make_model("gpt2"), **fixed), make_inputs("gpt2"), **given)


def test_replicas_share_the_rows():
    model = make_model("gpt2")
    pipelined = make_pipelined(model, fields={"inference_replication_factor": 2})
    assert_same_tokens(model, pipelined, make_inputs("gpt2", 3), num_beams=2)
    assert pipelined.poptorch_decoder.model.cache.keys_0.shape[0] == 4  # 3 texts make 4, x 2 beams / 2 replicas


def test_scores_come_back_as_from_transformers():
    model = make_model("t5")
    arguments = {"return_dict_in_generate": True, "output_scores": True, "output_logits": True}
    expected = generate(model, make_inputs("t5"), **arguments)
    actual = generate(make_pipelined(model), make_inputs("t5"), **arguments)
    assert torch.equal(actual.sequences, expected.sequences)
    torch.testing.assert_close(torch.stack(actual.scores), torch.stack(expected.scores), rtol=1e-4, atol=1e-4)


def test_detecting_a_language_is_a_call_without_a_cache():
    model = make_model("whisper")
    for each in (model, model.generation_config):
        each.is_multilingual = True
    model.generation_config.lang_to_id = {"<|en|>": 10, "<|de|>": 11}
    model.generation_config.task_to_id = {"transcribe": 12, "translate": 13}
    model.generation_config.no_timestamps_token_id = 14
    pipelined = make_pipelined(model)
    assert_same_tokens(model, pipelined, make_inputs("whisper"), task="transcribe")
    assert pipelined.generation_programs.uncached is not None


def test_attentions_are_not_returned():
    with pytest.raises(NotImplementedError, match="leave out output_attentions"):
        generate(
            make_pipelined(make_model("gpt2")),
            make_inputs("gpt2"),
            return_dict_in_generate=True,
            output_attentions=True,
        )


def test_a_cache_of_the_host_is_refused():
    with pytest.raises(ValueError, match="a DynamicCache of the host cannot be used"):
        generate(make_pipelined(make_model("gpt2")), make_inputs("gpt2"), past_key_values=transformers.DynamicCache())


def test_assisted_generation_is_refused():
    model = make_model("gpt2")
    with pytest.raises(ValueError, match="only supports"):
        generate(make_pipelined(model), make_inputs("gpt2", 1), assistant_model=model)


def test_unknown_settings_are_named():
    with pytest.raises(TypeError, match=r"unexpected arguments \['use_cash'\]"):
        make_pipelined(make_model("gpt2"), use_cash=True)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"use_cond_encoder": True, "use_encoder_output_buffer": True}, "only set one to True"),
        ({"batch_serialization_factor": 2, "sequence_serialization_factor": 2}, "along one dimension"),
        ({"batch_serialization_factor": 0}, "must be at least 1"),
        ({"on_device_generation_steps": 4, "use_cache": False}, "pass `use_cache=True`"),
        ({"on_device_generation_steps": -1}, "is at least 0, not -1"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        GenerationSettings(**settings)


@pytest.mark.parametrize(
    ("family", "settings", "message"),
    [
        ("gpt2", {"use_cross_cache": True}, "PipelinedGPT2LMHeadModel has none"),
        ("gpt2", {"batch_serialization_factor": 2}, "PipelinedGPT2LMHeadModel has none"),
        ("t5", {"use_cond_encoder": True}, "encoders without an attention mask"),
    ],
)
def test_settings_that_a_model_has_no_part_for_are_refused(family, settings, message):
    with pytest.raises(NotImplementedError, match=message):
        make_pipelined(make_model(family), **settings)


def test_a_model_that_trains_is_parallelized_anew_to_generate(caplog):
    model = make_model("t5")
    pipelined = to_pipelined(model, make_ipu_config(4)).parallelize().train()
    with caplog.at_level(logging.INFO, logger="optimum"):
        assert_same_tokens(model, pipelined, make_inputs("t5"))
    assert pipelined.training
    assert pipelined.ipu_config.mode == "training"


def test_deparallelize_leaves_no_trace():
    model = make_model("whisper")
    pipelined = make_pipelined(model, use_cross_cache=True)
    generate(pipelined, make_inputs("whisper"))
    pipelined.deparallelize()
    assert not hasattr(pipelined, "poptorch_decoder")
    assert list(pipelined.state_dict()) == list(model.state_dict())
    assert pipelined.config.use_cache == model.config.use_cache


def test_the_programs_leave_the_device_and_come_back():
    model = make_model("bart")
    pipelined = make_pipelined(model)
    generate(pipelined, make_inputs("bart"))
    pipelined.detachFromDevice()
    assert not pipelined.poptorch_decoder.isAttachedToDevice()
    assert_same_tokens(model, pipelined, make_inputs("bart"))
    pipelined.destroy()
    assert not hasattr(pipelined, "poptorch_encoder")


def test_the_mixin_works_at_the_end_of_the_bases_too():
    class Late(transformers.GPT2LMHeadModel, IPUGenerationMixin):
        def parallelize(self, for_generation: bool = False, **settings: Any) -> Any:
            self.ipu_config = self.decoder_ipu_config = make_ipu_config(1)
            self.set_generation_settings(self.read_generation_settings(for_generation, settings))
            return self

    model = make_model("gpt2")
    late = Late(model.config).eval()
    late.load_state_dict(model.state_dict())
    assert_same_tokens(model, late, make_inputs("gpt2"))  # no cache: the class is not marked as supporting one
    assert late.generation_programs.decoder is None


def test_sums_of_t5_do_not_overflow_in_half():
    model = make_model("t5")
    batch = {**make_inputs("t5"), "decoder_input_ids": tiny.make_words(2, 5, seed=2)}
    feed_forward = model.encoder.block[0].layer[-1].DenseReluDense
    peaks: list[torch.Tensor] = []
    hook = feed_forward.register_forward_hook(lambda module, inputs, output: peaks.append(output.detach().abs().max()))
    model(**batch)
    feed_forward.wo.weight.data.mul_(1e5 / peaks[0])  # more than half can hold, less than 8 times that
    expected = model(**batch).encoder_last_hidden_state
    hook.remove()
    assert peaks[1] > torch.finfo(torch.half).max
    assert not model.half()(**batch).encoder_last_hidden_state.float().allclose(expected, rtol=0.05, atol=0.05)
    pipelined = to_pipelined(model, make_ipu_config(1)).parallelize()
    executor = poptorch.inferenceModel(pipelined, pipelined.ipu_config.to_options(for_inference=True))
    actual = executor(**batch).encoder_last_hidden_state
    torch.testing.assert_close(actual.float(), expected, rtol=0.05, atol=0.05)


def test_bart_generates_in_half():
    model = make_model("bart")
    pipelined = make_pipelined(model.half())
    tokens = generate(pipelined, make_inputs("bart"))
    assert tokens.shape[0] == 2
    assert pipelined.poptorch_decoder.model.cache.keys_0.dtype == torch.half


@pytest.mark.parametrize("family", FAMILIES)
def test_the_device_chooses_the_tokens_itself(family):
    model = make_model(family)
    pipelined = make_pipelined(model, 4, on_device_generation_steps=5)
    assert_same_tokens(model, pipelined, make_inputs(family))
    assert pipelined.poptorch_decoder.options.device_iterations == 5
    assert_same_tokens(model, pipelined, {name: value.flip(0) for name, value in make_inputs(family).items()})


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"early_stopping": True, "length_penalty": 0.5, "num_return_sequences": 2},
        {"early_stopping": "never", "length_penalty": 2.0},
    ],
    ids=["usual", "early", "never"],
)
def test_the_device_keeps_the_beams_itself(family, arguments):
    model = make_model(family)
    pipelined = make_pipelined(model, on_device_generation_steps=4)
    # many end tokens, so that beams end at different lengths
    assert_same_tokens(model, pipelined, make_inputs(family), num_beams=3, eos_token_id=[5, 9, 20, 33], **arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        {"no_repeat_ngram_size": 2, "repetition_penalty": 1.5},
        {"min_length": 6, "eos_token_id": list(range(4, 40))},
        {"min_new_tokens": 4, "eos_token_id": list(range(4, 40))},
        {"forced_bos_token_id": 9, "forced_eos_token_id": 5},
        {"suppress_tokens": list(range(4, 30)), "begin_suppress_tokens": list(range(30, 50))},
    ],
    ids=lambda arguments: "+".join(arguments),
)
def test_logits_processors_run_on_the_device(arguments):
    model = make_model("t5")
    pipelined = make_pipelined(model, on_device_generation_steps=4, use_encoder_output_buffer=True)
    expected = generate(model, make_inputs("t5"), **arguments)
    assert torch.equal(generate(pipelined, make_inputs("t5"), **arguments), expected)
    assert not torch.equal(generate(model, make_inputs("t5")), expected), "the arguments change nothing"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"do_sample": True}, "On device sampling"),
        ({"bad_words_ids": [[3, 4]]}, "is not supported yet to run on IPU"),
        ({"return_dict_in_generate": True}, "returns sequences only"),
        ({"max_time": 1.0}, "not by"),
    ],
)
def test_what_the_device_cannot_choose_is_refused(arguments, message):
    with pytest.raises(NotImplementedError, match=message):
        generate(make_pipelined(make_model("gpt2"), on_device_generation_steps=4), make_inputs("gpt2"), **arguments)
