"""`keras.optimizer_v2.gradient_descent`."""

from keras.optimizers import SGD

__all__ = ["SGD"]
