"""The `set_…` methods of models: what they refuse, and what they become."""

from __future__ import annotations

from pathlib import Path

import keras
import pytest
from keras_help import make_dense

from openipu.graph import Recompute, Reduction, Strategy, TensorRole
from openipu_tensorflow.keras import effects
from openipu_tensorflow.keras.methods import options_of
from openipu_tensorflow.keras.options import ModelOptions
from openipu_tensorflow.keras.running.arranging import Layout, arrange, find_accumulation, lay_out


@pytest.fixture
def model():
    return make_dense()


@pytest.mark.parametrize("steps", [0, -1, 1.5, "4", True])
def test_steps_of_accumulation_are_a_positive_integer(model, steps):
    with pytest.raises(ValueError, match="to be a positive integer"):
        model.set_gradient_accumulation_options(steps)
    with pytest.raises(ValueError, match="to be a positive integer"):
        model.set_pipelining_options(steps)


@pytest.mark.parametrize("name", ["opt", "num_mini_batches", "experimental_normalize_gradients"])
def test_arguments_that_keras_gives_the_optimizer_are_refused(model, name):
    with pytest.raises(ValueError, match=f"Found `{name}`"):
        model.set_gradient_accumulation_options(2, **{name: 1})


@pytest.mark.parametrize(
    ("name", "phrase"),
    [
        ("gradient_accumulation_count", "Set the `gradient_accumulation_steps_per_replica` argument"),
        ("repeat_count", "automatically set by Keras"),
        ("infeed_queue", "automatically set by Keras"),
        ("outfeed_loss", "not compatible with Keras"),
        ("batch_serialization_iterations", "not compatible with Keras"),
        ("experimental_normalize_gradients", "`gradient_accumulation_reduction_method`"),
    ],
)
def test_arguments_that_keras_gives_the_pipeline_are_refused(model, name, phrase):
    with pytest.raises(ValueError, match=phrase):
        model.set_pipelining_options(2, **{name: 1})


def test_an_unknown_option_is_an_error_and_not_ignored(model):
    for method in (model.set_pipelining_options, model.set_gradient_accumulation_options):
        with pytest.raises(TypeError, match="'pipeline_shedule'"):
            method(2, pipeline_shedule=1)
    for method in (model.set_infeed_queue_options, model.set_outfeed_queue_options):
        with pytest.raises(TypeError, match="'prefetch_deep'"):
            method(prefetch_deep=1)


def test_a_mapping_of_devices_is_a_list_of_integers(model):
    with pytest.raises(ValueError, match="list of integers"):
        model.set_pipelining_options(2, device_mapping="01")


def test_feeds_refuse_what_keras_decides(model):
    with pytest.raises(ValueError, match="Found `dataset` key"):
        model.set_infeed_queue_options(dataset=None)
    with pytest.raises(ValueError, match="Found `outfeed_mode` key"):
        model.set_outfeed_queue_options(outfeed_mode=None)
    with pytest.raises(ValueError, match="prefetch_depth must be > 0 and < 256"):
        model.set_infeed_queue_options(prefetch_depth=256)


def test_methods_of_reduction_are_known_by_name(model):
    model.set_gradient_accumulation_options(2, gradient_accumulation_reduction_method="running_mean")
    assert options_of(model).accumulation_reduction.name == "RUNNING_MEAN"
    with pytest.raises(ValueError, match="Valid values are: SUM, MEAN, RUNNING_MEAN"):
        model.set_gradient_accumulation_options(2, gradient_accumulation_reduction_method="median")
    with pytest.raises(ValueError, match="Cannot parse median as a ReplicatedMetricReductionMethod"):
        model.set_replication_options("median")


def test_every_option_acts_or_says_why_not():
    for table in (
        effects.GRADIENT_ACCUMULATION_OPTIONS,
        effects.PIPELINING_OPTIONS,
        effects.INFEED_OPTIONS,
        effects.OUTFEED_OPTIONS,
    ):
        assert all(effect.startswith(("acts: ", "no effect: ")) for effect in table.values())


def test_the_page_says_of_every_option_what_the_code_says():
    page = (Path(__file__).parents[2] / "docs/keras.md").read_text(encoding="utf-8")
    tables = {
        "set_gradient_accumulation_options": effects.GRADIENT_ACCUMULATION_OPTIONS,
        "set_pipelining_options": effects.PIPELINING_OPTIONS,
        "set_infeed_queue_options": effects.INFEED_OPTIONS,
        "set_outfeed_queue_options": effects.OUTFEED_OPTIONS,
    }
    for method, table in tables.items():
        for name, effect in table.items():
            assert f"| `{method}` | `{name}` | {effect} |" in page


@pytest.mark.parametrize(
    ("stages", "mapping", "ipus", "replicas"),
    [(1, None, 1, 1), (1, None, 4, 4), (2, None, 4, 2), (3, None, 8, 2), (4, (0, 1, 1, 0), 4, 2)],
)
def test_there_are_as_many_replicas_as_the_device_has_room_for(stages, mapping, ipus, replicas):
    assert lay_out(stages, ModelOptions(device_mapping=mapping), ipus).replicas == replicas


def test_a_pipeline_that_is_longer_than_the_device_is_refused():
    with pytest.raises(ValueError, match=r"Current device has 2 IPUs attached.*requires a multiple of 4 IPUs"):
        lay_out(3, ModelOptions(), 2)


def test_accumulation_must_divide_an_execution_and_a_pipeline_must_accumulate():
    assert find_accumulation(ModelOptions(accumulation=4), False, 8) == 4
    with pytest.raises(RuntimeError, match=r"\(set to 6\) is not divisible"):
        find_accumulation(ModelOptions(accumulation=4), False, 6)
    with pytest.raises(ValueError, match="has not been set through `set_pipelining_options"):
        find_accumulation(ModelOptions(accumulation=4), True, 8)


class Named:
    def __init__(self, name, **rest):
        self.name = name
        self.__dict__.update(rest)


def test_options_of_a_pipeline_become_those_of_the_core(model):
    model.set_pipelining_options(
        4,
        device_mapping=[0, 1],
        gradient_accumulation_reduction_method="mean",
        pipeline_schedule=Named("Sequential"),
        recomputation_mode=Named("RecomputeThenBackpropagate"),
        offload_weight_update_variables=True,
        replicated_optimizer_state_sharding=True,
        forward_propagation_stages_poplar_options=[
            Named("", matmul_options={"availableMemoryProportion": "0.3"}),
            Named("", convolution_options={"availableMemoryProportion": "0.2"}),
        ],
    )
    how = arrange(options_of(model), Layout((0, 1), 2), training=True, steps=8, accumulation=4)
    assert (how.device_iterations, how.gradient_accumulation, how.replicas) == (2, 4, 2)
    assert how.reduction is Reduction.MEAN
    assert how.replica_reduction is Reduction.SUM
    assert how.strategy is Strategy.SHARDED
    assert how.recompute is Recompute.PIPELINE
    assert how.off_chip == how.shares == (TensorRole.OPTIMIZER,)
    assert how.memory_proportions == ((0, 0.3), (1, 0.2))


def test_what_is_not_there_says_so(model):
    model.set_pipelining_options(4, continuous_weight_updates=True)
    with pytest.raises(NotImplementedError):
        arrange(options_of(model), Layout((0, 1), 1), training=True, steps=4, accumulation=4)
    model.set_gradient_accumulation_options(2, dtype=keras.backend.floatx())
    arrange(options_of(model), Layout((0,), 1), training=True, steps=4, accumulation=2)
    model.set_gradient_accumulation_options(2, dtype="float16")
    with pytest.raises(NotImplementedError, match="accumulated in their own type"):
        arrange(options_of(model), Layout((0,), 1), training=True, steps=4, accumulation=2)
    with pytest.raises(NotImplementedError, match="TensorFlow Serving"):
        model.export_for_ipu_serving("there")
