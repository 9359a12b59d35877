"""`keras.engine.input_spec`."""

from keras import InputSpec

__all__ = ["InputSpec"]
