"""The Keras models of `bench.keras_speed` and of `tests/conformance/run_keras_numerics.py`, with data for them.

In: a name. Out: a `Case`: functions that make the model, its optimizer and a batch's worth of made-up data. The CNN is
that of `examples/tensorflow`; LSTM and transformer have the sizes of Keras' own examples for reviews of films.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

WORDS, LENGTH = 20000, 80


@dataclass(frozen=True)
class Case:
    """A model, and how it is trained."""

    make: Callable[[float], Any]  # from what a dropout takes in place of its usual rate: 0 leaves nothing to chance
    optimizer: Callable[[], Any]
    loss: str
    batch: int
    steps: int  # of one execution
    draw: Callable[[int], tuple[Any, Any]]  # samples

    def compile(self, dropout: float = 1.0, **options: Any) -> Any:
        """A new model with the same weights each time, ready to train."""
        import keras

        keras.utils.set_random_seed(1)
        model = self.make(dropout)
        model.compile(self.optimizer(), self.loss, **{"steps_per_execution": self.steps, **options})
        return model


def draw_images(size: int, classes: int) -> Callable[[int], tuple[Any, Any]]:
    def draw(count: int) -> tuple[Any, Any]:
        generator = np.random.default_rng(0)
        return generator.random((count, size, size, 3), "float32"), generator.integers(0, classes, count)

    return draw


def draw_words(count: int) -> tuple[Any, Any]:
    generator = np.random.default_rng(0)
    return generator.integers(0, WORDS, (count, LENGTH)).astype("int32"), generator.integers(0, 2, count)


def make_cnn(dropout: float) -> Any:
    import keras
    from keras import layers

    return keras.Sequential(
        [
            keras.Input((32, 32, 3)),
            layers.Conv2D(32, 3, padding="same", activation="relu"),
            layers.Conv2D(32, 3, activation="relu"),
            layers.MaxPooling2D(2),
            layers.Dropout(0.25 * dropout),
            layers.Conv2D(64, 3, padding="same", activation="relu"),
            layers.Conv2D(64, 3, activation="relu"),
            layers.MaxPooling2D(2),
            layers.Dropout(0.25 * dropout),
            layers.Flatten(),
            layers.Dense(512, activation="relu"),
            layers.Dropout(0.5 * dropout),
            layers.Dense(10, activation="softmax"),
        ]
    )


def make_lstm(dropout: float) -> Any:
    import keras
    from keras import layers

    words = keras.Input((LENGTH,), dtype="int32")
    x = layers.LSTM(128)(layers.Embedding(WORDS, 128)(words))
    return keras.Model(words, layers.Dense(2, activation="softmax")(layers.Dropout(0.2 * dropout)(x)))


def make_transformer(dropout: float) -> Any:
    import keras
    from keras import layers, ops

    words = keras.Input((LENGTH,), dtype="int32")
    places = layers.Embedding(LENGTH, 64)(ops.arange(LENGTH))
    x = layers.Embedding(WORDS, 64)(words) + places
    for _ in range(2):
        attended = layers.Dropout(0.1 * dropout)(layers.MultiHeadAttention(4, 16)(x, x))
        x = layers.LayerNormalization(epsilon=1e-6)(x + attended)
        widened = layers.Dense(64)(layers.Dense(256, activation="relu")(x))
        x = layers.LayerNormalization(epsilon=1e-6)(x + layers.Dropout(0.1 * dropout)(widened))
    x = layers.Dropout(0.1 * dropout)(layers.GlobalAveragePooling1D()(x))
    return keras.Model(words, layers.Dense(2, activation="softmax")(x))


def make_resnet(size: int) -> Callable[[float], Any]:
    def make(dropout: float) -> Any:
        import keras

        return keras.applications.ResNet50(weights=None, input_shape=(size, size, 3), classes=100)

    return make


def _adam() -> Any:
    import keras

    return keras.optimizers.Adam(0.001)


def _momentum() -> Any:
    import keras

    return keras.optimizers.SGD(0.01, momentum=0.9)


_LOSS = "sparse_categorical_crossentropy"
CASES = {
    "CIFAR-10 CNN": Case(make_cnn, _adam, _LOSS, 50, 20, draw_images(32, 10)),
    "LSTM classifier": Case(make_lstm, _adam, _LOSS, 32, 10, draw_words),
    "small transformer": Case(make_transformer, _adam, _LOSS, 32, 10, draw_words),
    "ResNet-50": Case(make_resnet(224), _momentum, _LOSS, 4, 2, draw_images(224, 100)),
}
