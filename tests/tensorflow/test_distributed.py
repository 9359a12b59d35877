"""Several instances: what their hosts exchange, and that training together equals training in one process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import torch.distributed as distributed

import popdist.tensorflow
import tensorflow as tf
from openipu_tensorflow.ipu import config, horovod
from openipu_tensorflow.ipu.distributed import allgather, allreduce, broadcast, exchange
from openipu_tensorflow.ipu.distributed.exchange import HostExchange, reduce_arrays
from openipu_tensorflow.ipu.distributed.popdist_strategy import PopDistStrategy

SCRIPT = Path(__file__).parent / "distributed_script.py"


def run_instances(count, body):
    """`body(exchange, index)` in a thread for each instance; results, or the error of each."""
    store = distributed.HashStore()
    results = [None] * count

    def run(index):
        try:
            results[index] = body(HostExchange(store, index, count), index)
        except Exception as error:
            results[index] = error

    threads = [threading.Thread(target=run, args=(index,)) for index in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    return results


def test_every_instance_gets_the_values_of_all_in_their_order():
    found = run_instances(3, lambda together, index: together.gather("x", np.full((2,), index, np.float32)))
    for own in found:
        np.testing.assert_array_equal(np.stack(own), [[0, 0], [1, 1], [2, 2]])


def test_names_may_come_in_different_orders():
    def body(together, index):
        names = ["x", "y"] if index else ["y", "x"]
        waiting = {}

        def ask(name):
            waiting[name] = together.gather(name, np.array([index, len(name)], np.int32))

        threads = [threading.Thread(target=ask, args=(name,)) for name in names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        return waiting

    for own in run_instances(2, body):
        assert sorted(own) == ["x", "y"]
        np.testing.assert_array_equal(own["x"], [[0, 1], [1, 1]])


def test_the_same_name_again_is_another_round():
    def body(together, index):
        return [together.gather("x", np.float32(index + 10 * turn)) for turn in range(3)]

    first, second = run_instances(2, body)
    np.testing.assert_array_equal(first, [[0, 1], [10, 11], [20, 21]])
    np.testing.assert_array_equal(first, second)


def test_one_instance_gives_its_value_to_all():
    found = run_instances(3, lambda together, index: together.take("x", np.float16(index), 1))
    assert [float(value) for value in found] == [1, 1, 1]
    assert all(value.dtype == np.float16 for value in found)


def test_the_instance_that_gives_waits_for_nobody_so_that_orders_may_differ():
    """Each instance asks one name after the other, as a session with a single thread does."""

    def body(together, index):
        names = ["x", "y", "z"] if index else ["z", "y", "x"]
        return {name: float(together.take(name, np.float32(index + ord(name)), 0)) for name in names}

    for own in run_instances(2, body):
        assert own == {name: ord(name) for name in "xyz"}


@pytest.mark.parametrize("call", ["gather", "take"])
@pytest.mark.parametrize("other", [np.zeros((), np.int32), np.zeros((2,), np.float32)])
def test_tensors_that_do_not_match_are_refused_on_every_instance_that_gets_one(call, other):
    def body(together, index):
        value = other if index else np.zeros((), np.float32)
        return together.gather("x", value) if call == "gather" else together.take("x", value, 0)

    for error in run_instances(2, body)[1 if call == "take" else 0 :]:
        assert isinstance(error, tf.errors.UnknownError)
        assert "Tensor layouts did not match on all instances" in error.message
        assert "float32 [] on instance 0" in error.message


def test_means_keep_the_type():
    assert reduce_arrays([np.int32(1), np.int32(2)], mean=True) == 1
    assert reduce_arrays([np.float16(1), np.float16(2)], mean=True).dtype == np.float16
    assert reduce_arrays([np.float32(1), np.float32(2)], mean=False) == 3


def test_one_instance_is_alone():
    x = tf.constant([1.0, 2.0])
    np.testing.assert_array_equal(allgather(x), [[1, 2]])
    np.testing.assert_array_equal(allreduce(x, tf.distribute.ReduceOp.MEAN), [1, 2])
    np.testing.assert_array_equal(broadcast(x), [1, 2])
    np.testing.assert_array_equal(horovod.allgather(x), [1, 2])
    assert (horovod.size(), horovod.rank(), horovod.local_size(), horovod.local_rank()) == (1, 0, 1, 0)
    with pytest.raises(ValueError, match="Unsupported reduce op"):
        allreduce(x, "MEDIAN")
    with pytest.raises(NotImplementedError, match="Adasum"):
        horovod.allreduce(x, op=horovod.Adasum)


def test_collectives_of_a_graph_run_when_it_runs(monkeypatch):
    calls = []

    class Two:
        def gather(self, name, value):
            calls.append(name)
            return [value, value + 1]

        def take(self, name, value, source):
            return value + source

    monkeypatch.setattr(exchange, "_current", Two())
    monkeypatch.setattr(exchange.popdist, "getNumInstances", lambda: 2)

    @tf.function
    def step(x):
        return allreduce(x, tf.distribute.ReduceOp.SUM), allgather(x), broadcast(x, root_rank=1)

    total, every, taken = step(tf.constant([1.0, 2.0]))
    np.testing.assert_array_equal(total, [3, 5])
    np.testing.assert_array_equal(every, [[1, 2], [2, 3]])
    np.testing.assert_array_equal(taken, [2, 3])
    assert sorted(name.partition("_")[0] for name in calls) == ["PopDistAllGather", "PopDistAllReduce"]


def test_a_configuration_is_that_of_this_instance(monkeypatch):
    monkeypatch.setenv("POPDIST_NUM_TOTAL_REPLICAS", "8")
    monkeypatch.setenv("POPDIST_NUM_LOCAL_REPLICAS", "4")
    monkeypatch.setenv("POPDIST_NUM_INSTANCES", "2")
    monkeypatch.setenv("POPDIST_INSTANCE_INDEX", "1")
    monkeypatch.setenv("POPDIST_NUM_IPUS_PER_REPLICA", "2")
    monkeypatch.setenv("POPDIST_EXECUTABLE_CACHE_PATH", "/somewhere")
    monkeypatch.setenv("TF_POPLAR_FLAGS", "--max_infeed_threads=2")
    made = config.IPUConfig()
    popdist.tensorflow.set_ipu_config(made, ipus_per_replica=2)
    distribution = made.experimental.multi_replica_distribution
    assert (made.auto_select_ipus, distribution.process_count, distribution.process_index) == (8, 2, 1)
    assert os.environ["TF_POPLAR_FLAGS"] == "--max_infeed_threads=2 --executable_cache_path=/somewhere"
    with pytest.raises(RuntimeError, match="--ipus-per-replica 4"):
        popdist.tensorflow.set_ipu_config(made, ipus_per_replica=4)


def test_a_strategy_of_one_instance_is_like_any_other():
    strategy = PopDistStrategy()
    made = strategy.update_ipu_config(config.IPUConfig())
    assert made.experimental.multi_replica_distribution.process_count == 1
    assert strategy.num_replicas_in_sync == 1
    with strategy.scope():
        variable = tf.Variable(3.0)
    assert float(strategy.reduce(tf.distribute.ReduceOp.SUM, variable.read_value())) == 3


def run_script(instances, replicas, tmp_path):
    launch = ["-m", "poprun", "--num-replicas", str(replicas), "--num-instances", str(instances), sys.executable]
    words = [sys.executable, *(launch if instances > 1 else ()), str(SCRIPT), str(replicas), str(tmp_path / "out")]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, env=environment, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(path.read_text()) for path in sorted(tmp_path.glob("out*.json"))]


@pytest.mark.slow
def test_two_instances_train_as_two_replicas_of_one_process_do(tmp_path):
    (tmp_path / "alone").mkdir()
    (alone,) = run_script(1, 2, tmp_path / "alone")
    together = run_script(2, 2, tmp_path)
    assert len(together) == 2
    for own in together:
        assert own["weights"] == together[0]["weights"]  # to the bit
        np.testing.assert_allclose(own["weights"], alone["weights"], rtol=1e-5, atol=1e-6)
        assert own["gathered"] == [0, 1]
        assert own["sum"] == [2, 1]
        np.testing.assert_allclose(own["tf1"], alone["tf1"], rtol=1e-5, atol=1e-6)
