"""A Keras model in two stages on two IPUs, with its profile: which layer runs on which IPU, and when.

openipu run --profile demo-report/pipeline examples/tensorflow/offline.py examples/tensorflow/keras_pipeline.py
"""

import argparse

from tensorflow.python import ipu

from tensorflow import keras

parser = argparse.ArgumentParser()
parser.add_argument("--images", type=int, default=6400, help="how many to train on")
parser.add_argument("--epochs", type=int, default=2)
args = parser.parse_args()

BATCH, STEPS, ACCUMULATION = 32, 20, 4

config = ipu.config.IPUConfig()
config.auto_select_ipus = 2
config.configure_ipu_system()

(x_train, y_train), _ = keras.datasets.mnist.load_data()
whole = args.images - args.images % (BATCH * STEPS)
x_train, y_train = x_train[:whole, ..., None].astype("float32") / 255, y_train[:whole]

with ipu.ipu_strategy.IPUStrategy().scope():
    image = keras.Input((28, 28, 1), name="image")
    with keras.ipu.PipelineStage(0):
        x = keras.layers.Conv2D(16, 3, activation="relu", name="first_convolution")(image)
        x = keras.layers.MaxPooling2D(name="pool")(x)
        x = keras.layers.Conv2D(32, 3, activation="relu", name="second_convolution")(x)
    with keras.ipu.PipelineStage(1):
        x = keras.layers.Flatten(name="flatten")(x)
        x = keras.layers.Dense(64, activation="relu", name="hidden")(x)
        x = keras.layers.Dense(10, activation="softmax", name="digits")(x)
    model = keras.Model(image, x)
    model.set_pipelining_options(
        gradient_accumulation_steps_per_replica=ACCUMULATION,
        pipeline_schedule=ipu.ops.pipelining_ops.PipelineSchedule.Grouped,
    )
    model.print_pipeline_stage_assignment_summary()
    model.compile("sgd", "sparse_categorical_crossentropy", metrics=["accuracy"], steps_per_execution=STEPS)
    model.fit(x_train, y_train, batch_size=BATCH, epochs=args.epochs)
