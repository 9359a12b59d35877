"""`keras.optimizer_v2.adam`."""

from keras.optimizers import Adam

__all__ = ["Adam"]
