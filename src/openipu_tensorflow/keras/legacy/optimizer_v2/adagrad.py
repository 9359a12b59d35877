"""`keras.optimizer_v2.adagrad`."""

from keras.optimizers import Adagrad

__all__ = ["Adagrad"]
