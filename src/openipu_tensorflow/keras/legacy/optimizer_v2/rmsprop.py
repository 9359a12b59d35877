"""`keras.optimizer_v2.rmsprop`."""

from keras.optimizers import RMSprop

__all__ = ["RMSprop"]
