"""Models without a pipelined class of their own: their layers are found in the module tree."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import torch
import transformers
from matrix import Row, compare_checkpoint, compare_outputs, compare_training
from optimum.utils import logging
from tiny_decoders import SIZES, VOCABULARY, make_llama_config, make_mistral_config, make_qwen_config
from torch import nn
from transformers.testing_utils import CaptureLogger

import poptorch
from optimum.graphcore import IPUConfig
from optimum.graphcore.ipu_configuration import IncompatibleIPUConfigError
from optimum.graphcore.modeling_utils import to_pipelined
from optimum.graphcore.models.generic import PipelinedLlamaForCausalLM, find_layer_chain

NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
ON_FOUR = {"layers_per_ipu": [0, 1, 1, 0], "recompute_checkpoint_every_layer": True}


def make_deberta_config() -> Any:
    return transformers.DebertaV2Config(
        **SIZES,
        **NO_DROPOUT,
        relative_attention=True,
        pos_att_type=["p2c", "c2p"],
        position_buckets=4,
        norm_rel_ebd="layer_norm",
        share_att_key=True,
        type_vocab_size=0,
        num_labels=3,
    )


def make_opt_config() -> Any:
    names = {name: value for name, value in SIZES.items() if name != "intermediate_size"}
    return transformers.OPTConfig(**names, ffn_dim=48, word_embed_proj_dim=32, dropout=0.0)


def make_marian_config() -> Any:
    return transformers.MarianConfig(
        vocab_size=VOCABULARY,
        d_model=32,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=48,
        decoder_ffn_dim=48,
        max_position_embeddings=32,
        dropout=0.0,
        pad_token_id=0,
        eos_token_id=2,
        decoder_start_token_id=0,
        forced_eos_token_id=None,
    )


def make_swin_config() -> Any:
    return transformers.SwinConfig(
        image_size=32,
        patch_size=4,
        embed_dim=8,
        depths=[1, 3],
        num_heads=[2, 2],
        window_size=4,
        drop_path_rate=0.0,
        num_labels=3,
    )


def make_text(batch_size: int) -> dict[str, torch.Tensor]:
    mask = torch.ones(batch_size, 10, dtype=torch.long)
    mask[::2, 8:] = 0
    tokens = torch.randint(3, VOCABULARY, (batch_size, 10), generator=torch.Generator().manual_seed(1))
    return {"input_ids": tokens, "attention_mask": mask}


def make_language(batch_size: int) -> dict[str, torch.Tensor]:
    inputs = make_text(batch_size)
    return {**inputs, "labels": torch.where(inputs["attention_mask"].bool(), inputs["input_ids"], -100)}


def make_translation(batch_size: int) -> dict[str, torch.Tensor]:
    inputs = make_language(batch_size)
    return {**inputs, "decoder_input_ids": inputs["input_ids"].roll(1, 1)}


def make_classes(batch_size: int) -> dict[str, torch.Tensor]:
    return {**make_text(batch_size), "labels": torch.arange(batch_size) % 3}


def make_pictures(batch_size: int) -> dict[str, torch.Tensor]:
    pixels = torch.randn(batch_size, 3, 32, 32, generator=torch.Generator().manual_seed(1))
    return {"pixel_values": pixels, "labels": torch.arange(batch_size) % 3}


def make_row(original: str, make_config: Any, make_batch: Any, **on_four: Any) -> Row:
    return Row(f"generic.Pipelined{original}", original, make_config, make_batch, on_four={**ON_FOUR, **on_four})


ROWS = [
    make_row("LlamaForCausalLM", make_llama_config, make_language, embedding_serialization_factor=2),
    make_row("MistralForCausalLM", make_mistral_config, make_language),
    make_row("Qwen2ForCausalLM", make_qwen_config, make_language, projection_serialization_factor=2),
    make_row("DebertaV2ForSequenceClassification", make_deberta_config, make_classes),
    make_row("DebertaV2ForMaskedLM", make_deberta_config, make_language),
    make_row("OPTForCausalLM", make_opt_config, make_language),
    make_row("MarianMTModel", make_marian_config, make_translation, layers_per_ipu=[1, 1, 2, 0]),
    make_row("SwinForImageClassification", make_swin_config, make_pictures, layers_per_ipu=[1, 1, 1, 1]),
]


@pytest.mark.parametrize("ipus", [1, 4])
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_model_without_a_class_equals_its_transformers_class(row: Row, ipus: int, tmp_path):
    original = row.make_original()
    pipelined = row.make_pipelined(original, ipus)
    compare_outputs(row, original, pipelined)
    compare_training(row, original, pipelined)
    compare_checkpoint(row, pipelined, tmp_path)


@pytest.mark.parametrize("ipus", [1, 4])
@pytest.mark.parametrize("index", [0, 1, 2, 6])
def test_generated_tokens_are_those_of_transformers(index, ipus):
    row = ROWS[index]
    original = row.make_original().eval()
    inputs = {name: value[:, :6] for name, value in make_text(2).items()}
    arguments = {"max_new_tokens": 7, "min_new_tokens": 7, "num_beams": 2 if ipus == 4 else 1, "do_sample": False}
    pipelined = row.make_pipelined(original, ipus).parallelize(for_generation=True)
    assert torch.equal(pipelined.generate(**inputs, **arguments), original.generate(**inputs, **arguments))
    pipelined.destroy()


def read_places(model: nn.Module) -> dict[str, str]:
    """The block that each module begins, as text."""
    return {
        path: repr(hook)
        for path, module in model.named_modules()
        for hook in module._forward_pre_hooks.values()
        if repr(hook).startswith("BeginBlock")
    }


def test_layers_are_spread_and_a_head_of_its_own_is_on_the_last_ipu():
    model = transformers.LlamaForCausalLM(make_llama_config())
    pipelined = to_pipelined(model, IPUConfig(layers_per_ipu=[-1, -1])).parallelize()
    assert read_places(pipelined) == {
        "model": "BeginBlock(user_id=Embedding, ipu_id=0)",
        "model.layers.0": "BeginBlock(user_id=Layer0, ipu_id=0)",
        "model.layers.1": "BeginBlock(user_id=Layer1, ipu_id=1)",
        "lm_head": "BeginBlock(user_id=Head lm_head, ipu_id=1)",
    }
    assert not read_places(pipelined.deparallelize())


def test_a_head_that_shares_the_embeddings_is_with_them():
    model = transformers.Qwen2ForCausalLM(make_qwen_config())
    pipelined = to_pipelined(model, IPUConfig(layers_per_ipu=[-1, -1])).parallelize()
    assert read_places(pipelined)["lm_head"] == "BeginBlock(user_id=Head lm_head, ipu_id=0)"


def test_no_keys_and_values_are_returned_unless_asked_for():
    pipelined = to_pipelined(transformers.LlamaForCausalLM(make_llama_config()), IPUConfig())
    assert pipelined(**make_text(1)).past_key_values is None
    assert pipelined(**make_text(1), use_cache=True).past_key_values is not None


def test_layer_drop_of_a_decoder_is_static_and_undone():
    config = make_opt_config()
    config.layerdrop = 1.0
    model = transformers.OPTForCausalLM(config)
    pipelined = to_pipelined(model, IPUConfig()).parallelize().train()
    without_layers = copy.deepcopy(model)
    without_layers.model.decoder.layers = nn.ModuleList()
    torch.testing.assert_close(pipelined(**make_text(1)).logits, without_layers.eval()(**make_text(1)).logits)
    assert pipelined.deparallelize().model.decoder.layerdrop == 1.0


def test_a_model_without_a_chain_runs_on_one_ipu_only():
    config = transformers.AlbertConfig(
        vocab_size=48,
        embedding_size=16,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=2,
    )
    model = transformers.AlbertForMaskedLM(config).eval()
    assert find_layer_chain(model) is None
    pipelined = to_pipelined(model, IPUConfig()).parallelize()
    torch.testing.assert_close(pipelined(**make_text(1)).logits, model(**make_text(1)).logits)
    message = r"AlbertForMaskedLM has no list of layers.*ipus_per_replica=1"
    with pytest.raises(IncompatibleIPUConfigError, match=message):
        to_pipelined(model, IPUConfig(ipus_per_replica=2)).parallelize()
    forced = to_pipelined(model, IPUConfig(ipus_per_replica=2), force=True)
    with CaptureLogger(logging.get_logger("optimum.graphcore.models.generic.modeling_generic")) as messages:
        forced.parallelize()
    assert "all of it runs on IPU 0" in messages.out
    executor = poptorch.inferenceModel(forced, forced.ipu_config.to_options(for_inference=True))
    torch.testing.assert_close(executor(**make_text(1)).logits, model(**make_text(1)).logits)


def test_a_module_that_is_not_of_transformers_is_refused():
    with pytest.raises(KeyError, match="Linear pipelined version not found in registry"):
        to_pipelined(nn.Linear(2, 2), IPUConfig())


def test_classes_have_names_and_can_be_pickled():
    model = to_pipelined(transformers.LlamaForCausalLM(make_llama_config()), IPUConfig())
    assert type(model) is PipelinedLlamaForCausalLM
    loaded = pickle.loads(pickle.dumps(model.parallelize()))
    assert type(loaded) is PipelinedLlamaForCausalLM
    assert read_places(loaded) == read_places(model)


def test_hidden_states_of_a_base_model_are_recorded():
    model = transformers.LlamaModel(make_llama_config()).eval()
    expected = model(**make_text(1), output_hidden_states=True).hidden_states
    found = to_pipelined(model, IPUConfig()).parallelize()(**make_text(1), output_hidden_states=True).hidden_states
    assert len(found) == 3  # the embeddings and two layers
    torch.testing.assert_close(found, expected)


def list_layers(model: nn.Module) -> list[str]:
    chain = find_layer_chain(model)
    assert chain is not None
    return [path for path, _ in chain.layers]


class Block(nn.Module):
    """A layer, with experts or without."""

    def __init__(self, size: int, experts: int = 0) -> None:
        super().__init__()
        self.linear = nn.Linear(size, size)
        self.experts = nn.ModuleList(nn.Linear(size, size) for _ in range(experts))


class Stage(nn.Module):
    def __init__(self, size: int, blocks: int) -> None:
        super().__init__()
        self.shrink = nn.Linear(size // 2, size)
        self.blocks = nn.ModuleList(Block(size) for _ in range(blocks))


def test_experts_are_no_layers():
    model = nn.ModuleDict({"layers": nn.ModuleList(Block(4, experts=8) for _ in range(3))})
    assert list_layers(model) == ["layers.0", "layers.1", "layers.2"]


def test_blocks_of_growing_stages_are_one_chain():
    model = nn.ModuleDict({"stages": nn.ModuleList([Stage(4, 1), Stage(8, 2), Stage(16, 1)])})
    assert list_layers(model) == ["stages.0.blocks.0", "stages.1.blocks.0", "stages.1.blocks.1", "stages.2.blocks.0"]


def test_a_light_list_before_the_layers_is_left_out():
    lists = {
        "convolutions": nn.ModuleList(nn.Linear(2, 2) for _ in range(7)),
        "layers": nn.ModuleList(Block(16) for _ in range(2)),
    }
    assert list_layers(nn.ModuleDict({"encoder": nn.ModuleDict(lists)})) == ["encoder.layers.0", "encoder.layers.1"]


def test_a_sequential_of_layers_is_a_chain():
    model = nn.ModuleDict(
        {"first": nn.Linear(4, 4), "layers": nn.Sequential(Block(4), Block(4)), "last": nn.Linear(4, 4)}
    )
    assert list_layers(model) == ["layers.0", "layers.1"]


def test_children_after_the_layers_are_heads():
    body = nn.ModuleDict({"layers": nn.ModuleList(Block(4) for _ in range(2))})
    model = nn.ModuleDict({"before": nn.Linear(4, 4), "body": body, "dropout": nn.Dropout(), "head": nn.Linear(4, 2)})
    chain = find_layer_chain(model)
    assert (chain.trunk, [name for name, _ in chain.heads]) == ("body", ["head"])


@pytest.mark.parametrize(
    ("name", "count", "first", "heads"),
    [
        ("T5ForConditionalGeneration", 12, "encoder.block.0", ["lm_head"]),
        ("XLMRobertaForMaskedLM", 12, "roberta.encoder.layer.0", ["lm_head"]),
        ("MixtralForCausalLM", 32, "model.layers.0", ["lm_head"]),
        ("ResNetForImageClassification", 16, "resnet.encoder.stages.0.layers.0", ["classifier"]),
        ("FunnelForMaskedLM", 12, "funnel.encoder.blocks.0.0", ["lm_head"]),
        ("Wav2Vec2ForCTC", 12, "wav2vec2.encoder.layers.0", ["lm_head"]),
    ],
)
def test_the_layers_of_well_known_models_are_found(name, count, first, heads):
    with torch.device("meta"):
        model = getattr(transformers, name)(getattr(transformers, name).config_class())
    chain = find_layer_chain(model)
    assert (len(chain), chain.layers[0][0]) == (count, first)
    assert [head for head, _ in chain.heads] == heads
