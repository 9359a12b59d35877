"""A training loop of TensorFlow 1 on the device: data come by an infeed, losses leave by an outfeed.

openipu run examples/tensorflow/offline.py examples/tensorflow/tf1_feeds.py
"""

import argparse

import tensorflow.compat.v1 as tf
from tensorflow.python import ipu

parser = argparse.ArgumentParser()
parser.add_argument("--rounds", type=int, default=100, help="training steps of one run of the device")
parser.add_argument("--runs", type=int, default=5)
args = parser.parse_args()

tf.disable_v2_behavior()

(images, labels), _ = tf.keras.datasets.mnist.load_data()
data = tf.data.Dataset.from_tensor_slices((images.astype("float32") / 255, labels.astype("int32")))
data = data.shuffle(10000).repeat().batch(32, drop_remainder=True)
infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(data)
outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()


def dense(x, units, name):
    with tf.variable_scope(name, use_resource=True):
        weight = tf.get_variable("weight", [int(x.shape[-1]), units])
        return tf.matmul(x, weight) + tf.get_variable("bias", [units], initializer=tf.zeros_initializer())


def step(x, y):
    hidden = tf.nn.relu(dense(tf.reshape(x, [32, 784]), 128, "hidden"))
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=dense(hidden, 10, "logits")))
    update = tf.train.MomentumOptimizer(0.05, 0.9).minimize(loss)
    return outfeed.enqueue(loss), update


def train():
    return ipu.loops.repeat(args.rounds, step, [], infeed)


with ipu.scopes.ipu_scope("/device:IPU:0"):
    run = ipu.ipu_compiler.compile(train)
losses = outfeed.dequeue()

config = ipu.config.IPUConfig()
config.auto_select_ipus = 1
config.configure_ipu_system()
ipu.utils.move_variable_initialization_to_cpu()

with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    session.run(infeed.initializer)
    for number in range(args.runs):
        session.run(run)
        found = session.run(losses)
        print(f"run {number + 1}: {len(found)} losses, mean {found.mean():.4f}")
