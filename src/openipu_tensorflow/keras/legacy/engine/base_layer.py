"""`keras.engine.base_layer`."""

from keras.layers import Layer

__all__ = ["Layer"]
