"""Scripts of TensorFlow 1's time, as they are: `openipu run --tf1`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import tensorflow as tf
import tensorflow.compat.v1.logging
from tensorflow.contrib import rnn
from tensorflow.python import ipu
from tensorflow.keras import layers
from tensorflow.python.ipu.scopes import ipu_scope
from tensorflow_core.python.keras.backend import unique_object_name

assert tf.python.ipu is ipu
assert tf.contrib.rnn.LSTMCell is rnn.LSTMCell is tf.nn.rnn_cell.LSTMCell

cfg = ipu.utils.IPUConfig()
cfg.auto_select_ipus = 1
cfg.configure_ipu_system()
with tf.device("cpu"):
    x = tf.placeholder(tf.float32, [2])

def my_net(x):
    w = tf.get_variable("w", initializer=[2.0, 3.0])
    init = tf.contrib.layers.xavier_initializer(dtype=tf.float16)
    v = tf.get_variable(unique_object_name("v"), [2, 2], tf.float16, initializer=init)
    return x * w + 0.0 * tf.cast(tf.reduce_sum(v), tf.float32)

with ipu_scope("/device:IPU:0"):
    result = ipu.ipu_compiler.compile(my_net, [x])
ipu.utils.move_variable_initialization_to_cpu()
with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    print(sess.run(result, feed_dict={x: [1.0, 1.0]}))
"""


def test_a_script_with_the_names_of_tensorflow_1_runs_and_is_summed_up(tmp_path):
    script = Path(tmp_path) / "script.py"
    script.write_text(SCRIPT)
    command = [sys.executable, "-m", "openipu", "run", "--tf1", "--engine", "operators", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.strip().endswith("[array([2., 3.], dtype=float32)]")
    assert "my_net" in done.stderr  # the summary names the program


PIPELINE = """
import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.keras import layers
from tensorflow.python import ipu

tf.disable_v2_behavior()
data = tf.data.Dataset.from_tensor_slices((np.ones([2, 8, 8, 3], "f"), np.arange(2, dtype="i")))
infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(data.batch(2, drop_remainder=True).repeat())
outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()

def first(x, labels):
    with tf.variable_scope("first", use_resource=True):
        return layers.Conv2D(3, 1)(x), labels

def second(x, labels):
    with tf.variable_scope("second", use_resource=True):
        logits = layers.Dense(10)(layers.Flatten()(x))
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))

def minimize(loss):
    return ipu.pipelining_ops.OptimizerFunctionOutput(tf.train.GradientDescentOptimizer(0.01), loss)

def my_net():
    return ipu.pipelining_ops.pipeline(
        [first, second], 4, repeat_count=2, infeed_queue=infeed, outfeed_queue=outfeed, optimizer_function=minimize)

with tf.device("/device:IPU:0"):
    run = ipu.ipu_compiler.compile(my_net, [])
losses = outfeed.dequeue()
cfg = ipu.config.IPUConfig()
cfg.auto_select_ipus = 2
cfg.configure_ipu_system()
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    session.run(infeed.initializer)  # is asked for after a session has seen the graph
    session.run(run)
    print(session.run(losses)[0].shape)
"""


def test_a_pipeline_on_an_ipu_device_runs_without_warnings_of_its_placement(tmp_path):
    script = Path(tmp_path) / "pipeline.py"
    script.write_text(PIPELINE)
    seen = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "1"}  # warnings, no more
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=600, env=seen)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.strip() == "(8,)"
    assert "Failed to place the graph" not in done.stderr
    assert "was changed by setting attribute" not in done.stderr


HABITS = """
import numpy as np
import tensorflow as tf
from tensorflow.python import ipu

cfg = ipu.config.IPUConfig()
cfg.auto_select_ipus = 1
cfg.configure_ipu_system()
conv = tf.keras.layers.Conv2D(8, 3, padding="same")
model = tf.keras.Sequential([conv, conv, tf.keras.layers.Flatten()])
half = tf.keras.layers.Dense(2)

def my_net(x):
    assert tf.TensorShape([8 / 4]) == [2]
    features = model(x)
    tf.nn.dynamic_rnn(tf.nn.rnn_cell.LSTMCell(3), x[..., 0], dtype=tf.float32)
    return tf.layers.dense(tf.layers.flatten(x), 3), features, half(tf.cast(features, tf.float16))

with tf.device("cpu"):
    x = tf.placeholder(tf.float32, [2, 4, 4, 1])
with ipu.scopes.ipu_scope("/device:IPU:0"):
    results = ipu.ipu_compiler.compile(my_net, [x])
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    for found in session.run(results, feed_dict={x: np.ones((2, 4, 4, 1), "f")}):
        print(found.shape, found.dtype)
"""


@pytest.mark.parametrize("first", ["", "import keras"])
def test_layers_are_what_they_were_in_tensorflow_1(tmp_path, first):
    """`tf.layers`; a layer that a model is given twice is there once; a half input makes a layer half."""
    script = Path(tmp_path) / "habits.py"
    script.write_text(first + HABITS)
    environment = {**os.environ, "OPENIPU_TF1": "1"}
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=600, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.split("\n")[:3] == ["(2, 3) float32", "(2, 128) float32", "(2, 2) float16"]


NAMES = """
import numpy as np
import tensorflow as whole
import tensorflow.compat.v1 as tf
import tensorflow.contrib.compiler.xla as xla
from tensorflow import pywrap_tensorflow
from tensorflow.contrib.framework.python.framework import checkpoint_utils
from tensorflow.python import ipu

assert tf is whole  # a program has one TensorFlow, whichever name it imports
config = ipu.config.IPUConfig()
config.auto_select_ipus = 1
config.configure_ipu_system()

statistics = tf.data.experimental.StatsAggregator()
data = tf.data.Dataset.from_tensor_slices(np.ones([4, 3], "f")).apply(tf.data.experimental.latency_stats("latency"))
data = data.prefetch(tf.contrib.data.AUTOTUNE).repeat().batch(2, drop_remainder=True)
options = tf.data.Options()
options.experimental_stats.aggregator = statistics
queue = ipu.ipu_infeed_queue.IPUInfeedQueue(data.with_options(options))
tf.add_to_collection(tf.GraphKeys.SUMMARIES, statistics.get_summary())

def body(total, rows):
    rows = tf.layers.dense(rows, 1, kernel_initializer=tf.ones_initializer())
    return total + tf.reduce_sum(rows)

def my_net():
    return ipu.loops.repeat(2, body, [tf.constant(0.0)], queue)

with ipu.scopes.ipu_scope("/device:IPU:0"):
    (total,) = xla.compile(my_net, [])
tf.summary.scalar("total", total)
summary, saver = tf.summary.merge_all(), tf.train.Saver()
ipu.utils.move_variable_initialization_to_cpu()
with tf.Session() as session:
    session.run([tf.global_variables_initializer(), queue.initializer])
    found, text = session.run([total, summary])
    path = saver.save(session, "saved")
    print(found, [value.tag for value in tf.Summary.FromString(text).value])
print(checkpoint_utils.list_variables(path)[1], pywrap_tensorflow.NewCheckpointReader(path).has_tensor("dense/bias"))
from openipu.history import history
print([program.name for program in history.compiled])
"""


def test_names_that_tensorflow_2_dropped_are_there(tmp_path):
    """Statistics of data, readers of checkpoints, `contrib`: and `tensorflow.compat.v1` is the same TensorFlow."""
    script = Path(tmp_path) / "names.py"
    script.write_text(NAMES)
    environment = {**os.environ, "OPENIPU_TF1": "1"}
    command = [sys.executable, str(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=environment, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.splitlines()[-3:] == ["12.0 ['total']", "('dense/kernel', [3, 1]) True", "['my_net']"]
