"""Scripts of TensorFlow 1's time, as they are: `openipu run --tf1`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = """
import tensorflow as tf
from tensorflow.python import ipu
from tensorflow.keras import layers
from tensorflow.python.ipu.scopes import ipu_scope

cfg = ipu.utils.IPUConfig()
cfg.auto_select_ipus = 1
cfg.configure_ipu_system()
with tf.device("cpu"):
    x = tf.placeholder(tf.float32, [2])

def my_net(x):
    w = tf.get_variable("w", initializer=[2.0, 3.0])
    return x * w

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
    command = [sys.executable, "-m", "openipu", "run", "--tf1", "--tier", "instant", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.strip().endswith("[array([2., 3.], dtype=float32)]")
    assert "my_net" in done.stderr  # the summary names the program
