"""TensorFlow 1 on an IPU in three steps: configure, make a function of the graph, compile it for the device.

openipu run examples/tensorflow/tf1_graph.py
"""

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu
from tensorflow.python.ipu.scopes import ipu_scope

tf.disable_v2_behavior()

config = ipu.config.IPUConfig()
config.auto_select_ipus = 1
config.configure_ipu_system()

with tf.device("cpu"):
    pa, pb, pc = (tf.placeholder(np.float32, [2], name=name) for name in "abc")


def add_up(a, b, c):
    return (a + b) + (a + c)


with ipu_scope("/device:IPU:0"):
    result = ipu.ipu_compiler.compile(add_up, [pa, pb, pc])

with tf.Session() as session:
    print(session.run(result, feed_dict={pa: [1.0, 1.0], pb: [0.0, 1.0], pc: [1.0, 5.0]}))
