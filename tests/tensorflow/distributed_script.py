"""What test_distributed.py starts, alone or as one of several instances: words are all replicas, and where to write.

A Keras model and a loop of TensorFlow 1 are trained on the replicas of all instances; instances begin with different
weights, of which those of instance 0 count.
"""

import json
import sys

import numpy as np
from tensorflow.python import ipu
from tensorflow.python.ipu.distributed import allgather
from tensorflow.python.ipu.distributed.popdist_strategy import PopDistStrategy

import popdist
import popdist.tensorflow
import tensorflow as tf

REPLICAS, INDEX, INSTANCES = int(sys.argv[1]), popdist.getInstanceIndex(), popdist.getNumInstances()
LOCAL = REPLICAS // INSTANCES
BATCH, STEPS = 4, 3


def configure():
    config = ipu.config.IPUConfig()
    popdist.tensorflow.set_ipu_config(config)
    if INSTANCES == 1:
        config.auto_select_ipus = REPLICAS
    config.configure_ipu_system()


def make_data():
    """Of this instance's replicas: batches of all replicas lie side by side."""
    source = np.random.default_rng(1)
    x = source.normal(size=(STEPS, REPLICAS, BATCH, 3)).astype("float32")
    y = source.normal(size=(STEPS, REPLICAS, BATCH, 2)).astype("float32")
    own = slice(INDEX * LOCAL, (INDEX + 1) * LOCAL)
    return x[:, own].reshape(-1, 3), y[:, own].reshape(-1, 2)


def train_keras():
    keras = tf.keras
    x, y = make_data()
    with PopDistStrategy().scope():
        start = keras.initializers.Constant(0.1 + INDEX)
        model = keras.Sequential(
            [
                keras.Input((3,)),
                keras.layers.Dense(4, "tanh", kernel_initializer=start),
                keras.layers.Dense(2, kernel_initializer=start),
            ]
        )
        loss = keras.losses.MeanSquaredError(reduction="sum")
        model.compile(keras.optimizers.SGD(0.01, momentum=0.9), loss, steps_per_execution=STEPS)
        model.fit(x, y, batch_size=BATCH, epochs=2, shuffle=False, verbose=0)
        return np.concatenate([value.reshape(-1) for value in model.get_weights()])


def train_tf1():
    v1 = tf.compat.v1
    x, y = make_data()
    with tf.Graph().as_default():
        data = tf.data.Dataset.from_tensor_slices((x, y)).repeat().batch(BATCH, drop_remainder=True)
        infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(data)

        def step(features, labels):
            weight = v1.get_variable("weight", initializer=np.full((3, 2), 0.2 + INDEX, "float32"), use_resource=True)
            difference = tf.reduce_mean((tf.matmul(features, weight) - labels) ** 2)
            optimizer = ipu.optimizers.CrossReplicaOptimizer(v1.train.MomentumOptimizer(0.05, 0.9))
            return optimizer.minimize(difference)

        with ipu.scopes.ipu_scope("/device:IPU:0"):
            run = ipu.ipu_compiler.compile(lambda: ipu.loops.repeat(STEPS, step, [], infeed))
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            session.run(infeed.initializer)
            session.run(run)
            session.run(run)
            return session.run(v1.trainable_variables()[0]).reshape(-1)


def sum_replicas():
    """Collectives inside a program reach the replicas of all instances."""
    v1 = tf.compat.v1
    with tf.Graph().as_default():
        given = v1.placeholder(np.float32, [2])
        with ipu.scopes.ipu_scope("/device:IPU:0"):
            run = ipu.ipu_compiler.compile(ipu.cross_replica_ops.cross_replica_sum, [given])
        with v1.Session() as session:
            return session.run(run, {given: [1.0, INDEX]})[0].tolist()


configure()
weights = train_keras().tolist()
gathered = allgather(tf.constant(INDEX)).numpy().tolist()
found = {"weights": weights, "gathered": gathered, "tf1": train_tf1().tolist(), "sum": sum_replicas()}
with open(f"{sys.argv[2]}{INDEX}.json", "w", encoding="utf-8") as file:
    json.dump(found, file)
