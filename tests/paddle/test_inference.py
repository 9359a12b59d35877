"""Saved models: read by our own reader, run by `paddle.inference` on IPUs, equal to Paddle's own predictor."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import paddle
from openipu.errors import InputError, OpenIpuError, OptionError, TranslationError
from openipu.model_files import run_file
from paddle import inference, static


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A saved classifier, an input, and what Paddle's own executor makes of it."""
    path = str(tmp_path_factory.mktemp("model") / "net")
    main, startup, scope = static.Program(), static.Program(), static.Scope()
    paddle.seed(3)
    with static.scope_guard(scope), paddle.utils.unique_name.guard(), static.program_guard(main, startup):
        image = static.data("image", [-1, 3, 12, 12], "float32")
        hidden = static.nn.batch_norm(static.nn.conv2d(image, 6, 3, act="relu"), is_test=True)
        result = static.nn.fc(paddle.nn.functional.avg_pool2d(hidden, 2), 5, activation="softmax")
        executor = static.Executor(paddle.CPUPlace())
        executor.run(startup)
        data = np.random.RandomState(1).rand(4, 3, 12, 12).astype("float32")
        wanted = executor.run(main, feed={"image": data}, fetch_list=[result])[0]
        static.save_inference_model(path, [image], [result], executor, program=main)
    return path, data, wanted


def predict(config, data):
    predictor = inference.create_predictor(config)
    predictor.get_input_handle(predictor.get_input_names()[0]).copy_from_cpu(data)
    predictor.run()
    return predictor.get_output_handle(predictor.get_output_names()[0]).copy_to_cpu()


def make_config(path, **options):
    config = inference.Config(f"{path}.pdmodel", f"{path}.pdiparams")
    config.enable_ipu(**options)
    return config


def test_a_predictor_on_ipus_equals_paddles_executor(saved):
    path, data, wanted = saved
    np.testing.assert_allclose(predict(make_config(path), data), wanted, rtol=1e-5, atol=1e-6)


def test_several_ipus_batches_and_replicas_give_the_same(saved):
    path, data, wanted = saved
    config = make_config(path, ipu_device_num=2, ipu_enable_pipelining=True, ipu_batches_per_step=2)
    config.set_ipu_config(ipu_replica_num=2)
    np.testing.assert_allclose(predict(config, data), wanted, rtol=1e-5, atol=1e-6)


def test_half_is_near_and_comes_back_as_float(saved):
    path, data, wanted = saved
    config = make_config(path)
    config.set_ipu_config(ipu_enable_fp16=True)
    found = predict(config, data)
    assert found.dtype == np.float32
    assert 0 < np.abs(found - wanted).max() < 5e-3


def test_options_from_a_file(saved, tmp_path):
    path, data, wanted = saved
    (tmp_path / "ipu.json").write_text(json.dumps({"ipu_device_num": 2, "ipu_micro_batch_size": 4}))
    config = make_config(path)
    config.load_ipu_config(str(tmp_path / "ipu.json"))
    np.testing.assert_allclose(predict(config, data), wanted, rtol=1e-5, atol=1e-6)
    (tmp_path / "ipu.json").write_text(json.dumps({"ipu_devices": 2}))
    with pytest.raises(OptionError, match="ipu_devices"):
        config.load_ipu_config(str(tmp_path / "ipu.json"))


def test_without_enable_ipu_the_predictor_is_paddles_own(saved):
    path, data, wanted = saved
    config = inference.Config(f"{path}.pdmodel", f"{path}.pdiparams")
    np.testing.assert_allclose(predict(config, data), wanted, rtol=1e-5, atol=1e-6)


def test_a_pipeline_needs_as_many_batches_as_ipus(saved):
    with pytest.raises(OptionError, match="ipu_batches_per_step"):
        inference.create_predictor(make_config(saved[0], ipu_device_num=4, ipu_enable_pipelining=True))


def test_wrong_data_are_named(saved):
    path, data, _ = saved
    with pytest.raises(TranslationError, match="image"):
        predict(make_config(path), data[:, :, :5])
    with pytest.raises(InputError, match="no input 'picture'"):
        inference.create_predictor(make_config(path)).get_input_handle("picture")


def test_a_saved_model_runs_without_paddle(saved):
    path, data, wanted = saved
    results = run_file(Path(f"{path}.pdmodel"), {"image": torch.from_numpy(data)})
    np.testing.assert_allclose(next(iter(results.values())).numpy(), wanted, rtol=1e-5, atol=1e-6)


def test_weights_of_another_model_are_refused(saved, tmp_path):
    path = saved[0]
    short = tmp_path / "short.pdiparams"
    short.write_bytes(Path(f"{path}.pdiparams").read_bytes()[:-7])
    config = inference.Config(f"{path}.pdmodel", str(short))
    config.enable_ipu()
    with pytest.raises(OpenIpuError, match="cut short"):
        inference.create_predictor(config)
