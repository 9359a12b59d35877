"""`IPUConfig`: fields, modes, files, text, older forms, options."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification

import poptorch
from optimum.graphcore import IPUConfig
from optimum.graphcore.configurations import list_configurations
from optimum.graphcore.ipu_configuration import IncompatibleIPUConfigError


def test_fields_follow_from_one_another() -> None:
    config = IPUConfig(layers_per_ipu=[1, 2, 3])
    assert (config.ipus_per_replica, config.inference_ipus_per_replica) == (3, 3)
    config = IPUConfig(layers_per_ipu=[1, 2], matmul_proportion=[0.1, 0.2], inference_layers_per_ipu=[3])
    assert config.inference_matmul_proportion == 0.2  # the list does not suit one IPU
    assert IPUConfig(layers_per_ipu=[-1], ipus_per_replica=4).inference_ipus_per_replica == 4
    assert IPUConfig(inference_layers_per_ipu=[3, 3]).ipus_per_replica == 1
    assert IPUConfig().embedding_serialization_factor == 1


def test_the_mode_chooses_between_two_fields() -> None:
    config = IPUConfig(layers_per_ipu=[1, 3], inference_layers_per_ipu=[4])
    assert config._layers_per_ipu == [1, 3]
    assert config.eval()._layers_per_ipu == [4]
    config._matmul_proportion = 0.5
    assert (config.matmul_proportion, config.inference_matmul_proportion) == (0.2, 0.5)
    assert config.train().mode == "training"
    with pytest.raises(ValueError, match="mode can only take values in"):
        config.mode = "sleeping"


def test_a_saved_configuration_is_the_same(tmp_path: Path) -> None:
    config = IPUConfig(layers_per_ipu=[2, -1], matmul_proportion=[0.1, 0.3], parallelize_kwargs={"use_cache": True})
    config.save_pretrained(tmp_path)
    written = json.loads((tmp_path / "ipu_config.json").read_text())
    assert list(written) == sorted(written)
    assert written["inference_replication_factor"] == 1
    again = IPUConfig.from_pretrained(tmp_path)
    assert again.to_dict() == config.to_dict()
    assert IPUConfig.from_pretrained(tmp_path / "ipu_config.json", seed=3).seed == 3
    assert copy.deepcopy(again) == again


@pytest.mark.parametrize("name", list_configurations())
def test_every_built_in_configuration_makes_options(name: str) -> None:
    config = IPUConfig.from_pretrained(name)
    assert config.to_options().Training.gradient_accumulation == config.gradient_accumulation_steps
    assert config.to_options(for_inference=True).output_mode == poptorch.OutputMode.All


def test_a_checkpoint_leads_to_its_configuration() -> None:
    found = IPUConfig.from_pretrained("google-bert/bert-base-uncased", gradient_accumulation_steps=8)
    assert found.layers_per_ipu == [2, 3, 3, 4]
    assert found.gradient_accumulation_steps == 8


def test_text_changes_fields_by_their_type() -> None:
    config = IPUConfig()
    config.update_from_string("layers_per_ipu=[1 2],matmul_proportion=[0.1,0.2],seed=3,auto_loss_scaling=yes")
    assert (config.layers_per_ipu, config.ipus_per_replica) == ([1, 2], 2)
    assert (config.matmul_proportion, config.seed, config.auto_loss_scaling) == ([0.1, 0.2], 3, True)
    config.update_from_string("output_mode=all,layers_per_ipu=auto,seed=none")
    assert (config.output_mode, config.layers_per_ipu, config.seed) == ("all", "auto", None)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("colour=red", "isn't in the original config dict"),
        ("replication_factor=two", "Can't read 'two' as int"),
        ("auto_loss_scaling=perhaps", "Can't derive true or false"),
        ("replication_factor", "not of the form key=value"),
        ("parallelize_kwargs=1", "You can only update"),
        ("device_iterations=4,replication_factor=0", "must be >= 1"),
    ],
)
def test_wrong_text_changes_nothing(text: str, words: str) -> None:
    config = IPUConfig()
    before = config.to_dict()
    with pytest.raises(ValueError, match=words):
        config.update_from_string(text)
    assert config.to_dict() == before


@pytest.mark.parametrize(
    ("fields", "error", "words"),
    [
        ({"layers_per_ipu": [1, "2"]}, TypeError, "layers_per_ipu, type: list"),
        ({"layers_per_ipu": [-2]}, ValueError, "must have all elements >= -1"),
        ({"replication_factor": 1.5}, ValueError, "must be of type `int`"),
        ({"replication_factor": True}, ValueError, "must be of type `int`"),
        ({"gradient_accumulation_steps": 0}, ValueError, "must be >= 1"),
        ({"output_mode": "loud"}, ValueError, "can only take values in"),
        ({"enable_half_partials": 1}, TypeError, "enable_half_partials"),
        ({"matmul_proportion": [0.1, 0.2]}, IncompatibleIPUConfigError, "should use the same number of IPUs"),
        ({"layers_per_ipu": [1, 2], "ipus_per_replica": 4}, IncompatibleIPUConfigError, "same number of IPUs"),
        ({"serialized_embedding_splits_per_ipu": [0, 0], "ipus_per_replica": 2}, ValueError, "atleast 1 split"),
        ({"serialized_embedding_splits_per_ipu": [1, 0, 1], "ipus_per_replica": 3}, ValueError, "consecutive"),
        (
            {"embedding_serialization_factor": 2, "serialized_embedding_splits_per_ipu": [2]},
            ValueError,
            "Only one of `embedding_serialization_factor`",
        ),
        ({"colour": "red"}, IncompatibleIPUConfigError, "unknown arguments:\n  colour=red"),
    ],
)
def test_wrong_fields_are_refused(fields: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        IPUConfig(**fields)


def test_older_forms_are_read_with_a_warning() -> None:
    with pytest.warns(FutureWarning, match="several POD types"):
        config = IPUConfig(ipus_per_replica=4, replication_factor={"pod16": 4, "default": 2})
    assert config.replication_factor == 2
    with pytest.warns(FutureWarning, match="n_ipu=16"):
        config = IPUConfig(ipus_per_replica=4, pod_type="pod16")
    assert config.replication_factor == 4  # 16 IPUs in fours
    with pytest.warns(FutureWarning, match="n_ipu"):
        assert config.batch_size_factor(pod_type="pod8") == 2
    with pytest.warns(UserWarning, match="sharded execution is always used"):
        IPUConfig(sharded_execution_for_inference=True)
    with (
        pytest.raises(ValueError, match="not a correct value for a POD type"),
        pytest.warns(FutureWarning, match="n_ipu"),
    ):
        config.for_pod_type("pod3")
    with pytest.raises(IncompatibleIPUConfigError, match="no default value was provided"):
        IPUConfig(replication_factor={"pod16": 4})


def test_options_hold_what_the_fields_say() -> None:
    config = IPUConfig(
        replication_factor=2,
        gradient_accumulation_steps=4,
        device_iterations=3,
        ipus_per_replica=2,
        matmul_proportion=[0.1, 0.4],
        optimizer_state_offchip=True,
        replicated_tensor_sharding=True,
        auto_loss_scaling=True,
        output_mode="sum",
        seed=7,
    )
    options = config.to_options()
    told = options.toDict()
    assert config.batch_size_factor() == 2 * 4 * 3
    assert told["available_memory_proportion"] == {"IPU0": 0.1, "IPU1": 0.4}
    assert told["location_optimizer"] == {"onChip": False, "useReplicatedTensorSharding": True}
    assert (told["output_mode"], told["random_seed"]) == (poptorch.OutputMode.Sum, 7)
    assert told["enable_stochastic_rounding"]
    assert told["partials_type"] is torch.float16
    inference = config.to_options(for_inference=True).toDict()
    assert (inference["gradient_accumulation"], inference["enable_stochastic_rounding"]) == (1, False)
    assert config.mode == "training"


def test_auto_must_be_settled_before_it_runs() -> None:
    config = IPUConfig(layers_per_ipu="auto")
    assert config.ipus_per_replica is None
    with pytest.raises(IncompatibleIPUConfigError, match=r"IPUConfig\.auto"):
        config.to_options()
    with pytest.raises(TypeError, match="layers_per_ipu"):
        IPUConfig(layers_per_ipu="somehow")


def test_auto_splits_a_model_by_its_plan() -> None:
    """The embedding of this model weighs as much as several layers: the first IPU gets fewer."""
    with torch.device("meta"):
        model = BertForSequenceClassification(
            BertConfig(hidden_size=128, num_hidden_layers=6, num_attention_heads=2, intermediate_size=512)
        )
    config = IPUConfig.auto(model, batch_size=2, sequence_length=64, ipus_per_replica=2, replication_factor=1)
    assert len(config.layers_per_ipu) == config.ipus_per_replica == 2
    assert sum(config.layers_per_ipu) == 6
    assert min(config.layers_per_ipu) > 0
    assert config.gradient_accumulation_steps >= 3  # a pipeline of two IPUs has three stages in training
    assert config.to_options().replication_factor == 1
    with pytest.raises(IncompatibleIPUConfigError, match="example_inputs"):
        IPUConfig.auto(_Odd())


class _Odd(torch.nn.Module):
    main_input_name = "input_values"


def test_every_exported_name_is_there() -> None:
    import optimum.graphcore

    for name in optimum.graphcore.__all__:
        assert getattr(optimum.graphcore, name) is not None, name
    with pytest.raises(AttributeError, match="no attribute 'IPUNothing'"):
        optimum.graphcore.IPUNothing  # noqa: B018


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"[" * 9999, "Expected `object`"),
        (b'{"seed": ' + b"[" * 9999, "nested too deeply"),
        (b'{"seed": NaN}', "is not JSON"),
        (b"\xff\xfe", "is not JSON"),
        (b" " * (2 << 20), "bytes, and at most"),
    ],
)
def test_a_file_that_holds_no_configuration_is_one_error(content, problem, tmp_path):
    (tmp_path / "ipu_config.json").write_bytes(content)
    with pytest.raises(OSError, match=rf"The configuration .*ipu_config\.json .*{problem}.*save_pretrained"):
        IPUConfig.from_pretrained(tmp_path)
