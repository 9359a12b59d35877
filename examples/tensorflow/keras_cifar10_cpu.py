"""A CNN for CIFAR-10 in stock Keras. `keras_cifar10_ipu.py` is the same on an IPU."""

import argparse

from tensorflow import keras

parser = argparse.ArgumentParser()
parser.add_argument("--images", type=int, default=50000, help="how many to train on")
parser.add_argument("--epochs", type=int, default=1)
args = parser.parse_args()

BATCH = 64


def load_data():
    (x_train, y_train), (x_test, y_test) = keras.datasets.cifar10.load_data()
    return (x_train.astype("float32") / 255, y_train), (x_test.astype("float32") / 255, y_test)


def make_model():
    layers = keras.layers
    return keras.Sequential(
        [
            keras.Input((32, 32, 3)),
            layers.Conv2D(32, 3, padding="same", activation="relu"),
            layers.Conv2D(32, 3, activation="relu"),
            layers.MaxPooling2D(2),
            layers.Dropout(0.25),
            layers.Conv2D(64, 3, padding="same", activation="relu"),
            layers.Conv2D(64, 3, activation="relu"),
            layers.MaxPooling2D(2),
            layers.Dropout(0.25),
            layers.Flatten(),
            layers.Dense(512, activation="relu"),
            layers.Dropout(0.5),
            layers.Dense(10, activation="softmax"),
        ]
    )


(x_train, y_train), (x_test, y_test) = load_data()
x_train, y_train = x_train[: args.images], y_train[: args.images]

model = make_model()
model.compile(keras.optimizers.Adam(0.001), "sparse_categorical_crossentropy", metrics=["accuracy"])
model.summary()
model.fit(x_train, y_train, batch_size=BATCH, epochs=args.epochs)
loss, accuracy = model.evaluate(x_test[:2000], y_test[:2000], batch_size=BATCH)
print(f"loss {loss:.4f}, accuracy {accuracy:.4f}")
