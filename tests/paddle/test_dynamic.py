"""Dynamic-to-static on IPUs, in the legacy form; test_new_form.py asks the same of the new one."""

from __future__ import annotations

import dynamic_training
import pytest

import paddle
from openipu.errors import InputError, TranslationError
from paddle import static


@pytest.fixture(autouse=True)
def _dynamic():
    paddle.disable_static()
    yield
    from openipu_paddle import dynamic

    dynamic.release_patch()
    paddle.enable_static()


@pytest.mark.parametrize("name", dynamic_training.OPTIMIZERS)
def test_losses_weights_and_state_equal_those_of_paddle_also_after_loading_them(name, tmp_path):
    losses, kept = dynamic_training.compare(name, tmp_path)
    assert losses < 1e-5
    assert kept <= 1


def test_what_is_loaded_goes_to_a_program_that_runs():
    first, second, _, again = dynamic_training.reload_while_running()
    assert second < first
    assert again == first


def make(**more):
    model = paddle.nn.Linear(3, 1)
    strategy = static.IpuStrategy()
    optimizer = more.pop("kind", paddle.optimizer.SGD)
    if more.pop("optimizer", True):
        strategy.set_optimizer(optimizer(learning_rate=0.1, parameters=model.parameters(), **more))
    return dynamic_training.make_call(model)(paddle.ones([1, 3]), paddle.ones([1, 1]))


def test_training_without_an_optimizer_is_refused():
    with pytest.raises(InputError, match="set_optimizer"):
        make(optimizer=False)


def test_optimizers_clips_and_decays_that_an_ipu_has_not_are_refused_by_name():
    with pytest.raises(TranslationError, match="ClipGradByValue"):
        make(grad_clip=paddle.nn.ClipGradByValue(0.1))
    with pytest.raises(TranslationError, match="L1Decay"):
        make(weight_decay=paddle.regularizer.L1Decay(0.1))
    with pytest.raises(TranslationError, match="NAdam"):
        make(kind=paddle.optimizer.NAdam)
