"""Models that spread themselves over IPUs: where parts go, what changes, and that all of it can be undone."""

from __future__ import annotations

import copy
import importlib
import logging
import pickle

import pytest
import torch
from matrix_encoders import make_bert_config, make_masked_language, make_text
from torch import nn
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertModel,
    DebertaConfig,
    DebertaForMaskedLM,
    PreTrainedModel,
)

import optimum.graphcore
import poptorch
from openipu.plan import Plan, VariableKind
from optimum.graphcore import IPUConfig
from optimum.graphcore.ipu_configuration import IncompatibleIPUConfigError
from optimum.graphcore.modeling import mixin, registry
from optimum.graphcore.modeling_utils import (
    PipelineMixin,
    SerializedEmbedding,
    SerializedLinear,
    SplitProjection,
    register,
    to_pipelined,
)
from optimum.graphcore.models.bert import BertFusedSelfAttention, PipelinedBertForMaskedLM

FOUR = {"layers_per_ipu": [0, 1, 1, 0], "gradient_accumulation_steps": 8}


def make_masked_model(**fields) -> PipelinedBertForMaskedLM:
    torch.manual_seed(0)
    return to_pipelined(BertForMaskedLM(make_bert_config()), IPUConfig(**{**FOUR, **fields}))


def plan_training(model, batch: dict[str, torch.Tensor]) -> Plan:
    options = model.ipu_config.to_options()
    executor = poptorch.trainingModel(model.train(), options, poptorch.optim.SGD(model.parameters(), lr=0.1))
    executor.compile(**batch)
    plan = executor._compiled.plan
    executor.destroy()
    return plan


def test_parts_lie_where_the_layout_puts_them():
    plan = plan_training(make_masked_model().parallelize(), make_masked_language(8))
    places = {
        "bert.embeddings": 0,
        "bert.encoder.layer.0": 1,
        "bert.encoder.layer.1": 2,
        "cls": 0,  # shares its weight with the embeddings
    }
    parameters = [variable for variable in plan.variables if variable.kind is VariableKind.PARAMETER]
    assert len(parameters) > 30
    for variable in parameters:
        expected = next(ipu for path, ipu in places.items() if variable.name.startswith(path))
        assert variable.ipu == expected, variable.name
    assert [stage.ipu for stage in plan.pipeline.stages] == [0, 1, 2, 0, 2, 1, 0]


def test_the_allocation_is_logged(monkeypatch):
    lines: list[str] = []
    monkeypatch.setattr(mixin.logger, "info", lines.append)
    make_masked_model().parallelize()
    assert lines == [
        "-------------------- Device Allocation --------------------",
        "Embedding  --> IPU 0",
        "Encoder 0  --> IPU 1",
        "Encoder 1  --> IPU 2",
        "Classifier --> IPU 0",
        "-----------------------------------------------------------",
    ]


def test_recomputation_keeps_the_outputs_of_every_layer_of_a_language_model():
    model = make_masked_model(recompute_checkpoint_every_layer=True).parallelize()
    assert [len(layer._forward_hooks) for layer in model.bert.encoder.layer] == [1, 1]
    assert [len(layer._forward_hooks) for layer in model.deparallelize().bert.encoder.layer] == [0, 0]


def test_a_model_that_was_parallelized_and_back_is_as_it_was():
    model = make_masked_model(embedding_serialization_factor=4, recompute_checkpoint_every_layer=True)
    before = {name: (type(module), dict(module.__dict__)) for name, module in model.named_modules() if name}
    weights = {name: value.data_ptr() for name, value in model.state_dict().items()}
    model.parallelize()
    assert isinstance(model.cls.predictions.decoder, SerializedLinear)
    assert type(model.bert.encoder.layer[0].attention.self) is BertFusedSelfAttention
    assert model.is_parallelized
    model.deparallelize()
    assert not model.is_parallelized
    after = {name: type(module) for name, module in model.named_modules() if name}
    assert after == {name: kind for name, (kind, _) in before.items()}
    assert {name: value.data_ptr() for name, value in model.state_dict().items()} == weights
    for module in model.modules():
        assert not module._forward_pre_hooks
        assert not module._forward_hooks
    assert model.cls.predictions.decoder.weight is model.bert.embeddings.word_embeddings.weight


def test_to_parallelize_twice_is_to_parallelize_once():
    model = make_masked_model(embedding_serialization_factor=2).parallelize().parallelize()
    names = list(model.deparallelize().state_dict())
    assert names == list(make_masked_model().state_dict())


def test_a_failing_layout_leaves_the_model_as_it_was():
    model = make_masked_model(layers_per_ipu=[0, 1, 2, 0])
    names = list(model.state_dict())
    with pytest.raises(IncompatibleIPUConfigError, match="correct number of layers"):
        model.parallelize()
    assert not model.is_parallelized
    assert not any(module._forward_pre_hooks for module in model.modules())
    assert list(model.state_dict()) == names


def test_each_mode_has_its_own_split():
    model = make_masked_model(embedding_serialization_factor=2, inference_embedding_serialization_factor=4)
    assert model.parallelize().cls.predictions.decoder.factor == 2
    model.ipu_config.eval()
    assert model.parallelize().cls.predictions.decoder.factor == 4


def test_an_untied_model_may_have_its_embedding_and_its_projection_in_pieces_on_several_ipus():
    config = make_bert_config()
    config.tie_word_embeddings = False
    fields = {"serialized_embedding_splits_per_ipu": [2, 2, 0, 0], "serialized_projection_splits_per_ipu": [0, 0, 1, 1]}
    torch.manual_seed(0)
    plain = BertForMaskedLM(config)
    model = to_pipelined(plain, IPUConfig(**FOUR, **fields)).parallelize()
    assert isinstance(model.bert.embeddings.word_embeddings, SerializedEmbedding)
    assert isinstance(model.cls.predictions.decoder, SplitProjection)
    inputs = make_text(2)
    assert torch.allclose(model.eval()(**inputs).logits, plain.eval()(**inputs).logits, atol=1e-6)
    assert list(model.deparallelize().state_dict()) == list(plain.state_dict())


def test_a_tied_table_cannot_lie_on_several_ipus():
    model = make_masked_model(serialized_embedding_splits_per_ipu=[2, 2, 0, 0])
    with pytest.raises(IncompatibleIPUConfigError, match=r"share their weight.*Use embedding_serialization_factor=4"):
        model.parallelize()


def test_a_head_without_a_projection_cannot_be_serialized():
    config = DebertaConfig(**{**make_bert_config().to_dict(), "model_type": "deberta", "legacy": False})
    plain = DebertaForMaskedLM(config)
    model = to_pipelined(plain, IPUConfig(**FOUR)).parallelize()
    assert torch.allclose(model.eval()(**make_text(2)).logits, plain.eval()(**make_text(2)).logits, atol=1e-6)
    model.ipu_config = IPUConfig(**FOUR, embedding_serialization_factor=2)
    with pytest.raises(IncompatibleIPUConfigError, match="no projection of its own"):
        model.parallelize()


def test_a_copy_of_a_parallelized_model_can_be_undone_by_itself():
    model = make_masked_model(embedding_serialization_factor=2, recompute_checkpoint_every_layer=True).parallelize()
    clone = pickle.loads(pickle.dumps(copy.deepcopy(model)))
    clone.deparallelize()
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in clone.modules())
    assert type(clone.cls.predictions.decoder) is nn.Linear
    assert isinstance(model.cls.predictions.decoder, SerializedLinear)


def test_a_model_is_copied_with_its_frozen_parameters_number_format_and_mode():
    plain = BertModel(make_bert_config()).half().eval()
    plain.embeddings.requires_grad_(False)
    model = to_pipelined(plain, IPUConfig())
    assert model.dtype == torch.float16
    assert not model.training
    assert not model.embeddings.word_embeddings.weight.requires_grad
    assert model.embeddings.word_embeddings.weight.data_ptr() != plain.embeddings.word_embeddings.weight.data_ptr()


def test_a_checkpoint_can_be_written_while_an_executor_trains(tmp_path):
    model = make_masked_model(embedding_serialization_factor=2).parallelize().train()
    optimizer = poptorch.optim.SGD(model.parameters(), lr=0.5)
    executor = poptorch.trainingModel(model, model.ipu_config.to_options(), optimizer)
    first = executor(**make_masked_language(8))["loss"]
    model.save_pretrained(tmp_path)
    saved = BertForMaskedLM.from_pretrained(tmp_path)
    fresh = make_masked_model()
    assert not torch.equal(saved.cls.predictions.bias, fresh.cls.predictions.bias)
    second = executor(**make_masked_language(8))["loss"]
    assert second.mean() < first.mean()


class Scratch(PipelineMixin, PreTrainedModel):
    """A model that was written as a pipeline."""

    config_class = BertConfig

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config)
        self.layer = nn.Linear(2, 2)
        self.post_init()


def test_a_model_written_as_a_pipeline_is_saved_as_itself(tmp_path):
    model = Scratch(make_bert_config())
    model.save_pretrained(tmp_path)
    loaded = Scratch.from_pretrained_transformers(tmp_path, IPUConfig(ipus_per_replica=2))
    assert torch.equal(loaded.layer.weight, model.layer.weight)
    assert loaded.config.architectures == ["Scratch"]
    assert loaded.ipu_config.ipus_per_replica == 2


class Custom(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(3, 3), nn.Linear(3, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(x))


class PipelinedCustom(Custom, PipelineMixin):
    def parallelize(self):
        super().parallelize()
        self.first = poptorch.BeginBlock(self.first, "first", ipu_id=0)
        self.second = poptorch.BeginBlock(self.second, "second", ipu_id=1)
        return self


def test_a_class_of_the_users_own_spreads_itself():
    model = to_pipelined(PipelinedCustom(), IPUConfig(ipus_per_replica=2)).parallelize()
    assert len(model.second._forward_pre_hooks) == 1
    assert not model.deparallelize().second._forward_pre_hooks
    assert model.num_parameters() == 3 * 3 + 3 + 3 * 2 + 2


def test_a_registered_class_is_found_by_the_class_it_derives_from(monkeypatch):
    monkeypatch.setattr(registry, "_PRETRAINED_TO_PIPELINED_REGISTRY", {})

    @register()
    class Registered(PipelineMixin, Custom):
        pass

    assert type(to_pipelined(Custom(), IPUConfig())) is Registered


def test_a_model_without_a_pipelined_class_is_refused_or_forced():
    class Unknown(nn.Linear):
        pass

    with pytest.raises(KeyError, match="Unknown pipelined version not found in registry"):
        to_pipelined(Unknown(2, 2), IPUConfig())
    forced = to_pipelined(Unknown(2, 2), IPUConfig(), force=True)
    assert type(forced).__name__ == "PipelinedUnknown"
    assert isinstance(forced.parallelize(), PipelineMixin)


@pytest.mark.parametrize(("wanted", "level"), [(None, "ERROR"), ("INFO", "INFO")])
def test_the_import_quietens_poptorch_unless_the_user_says_otherwise(wanted, level, monkeypatch):
    monkeypatch.delenv("POPTORCH_LOG_LEVEL", raising=False)
    if wanted is not None:
        monkeypatch.setenv("POPTORCH_LOG_LEVEL", wanted)
        poptorch.setLogLevel(wanted)  # as PopTorch does when it is imported
    importlib.reload(optimum.graphcore)
    assert logging.getLevelName(poptorch.logger.level) == level
    poptorch.setLogLevel("WARN")


def test_a_model_needs_an_ipu_config():
    model = PipelinedCustom()
    with pytest.raises(AttributeError, match="No IPUConfig was found"):
        model.parallelize()
    with pytest.raises(TypeError, match="ipu_config must be an instance of IPUConfig"):
        model.ipu_config = {"layers_per_ipu": [1]}


def test_tied_and_embedded_parameters_are_counted_once():
    model = make_masked_model()
    tables = (64 + 24 + 2) * 32  # words, positions, types
    assert model.num_parameters() == sum(parameter.numel() for parameter in BertForMaskedLM(model.config).parameters())
    assert model.num_parameters(exclude_embeddings=True) == model.num_parameters() - tables
    model.bert.requires_grad_(False)
    assert model.num_parameters(only_trainable=True) == 32 * 32 + 32 + 2 * 32 + 64  # transform, norm, bias
