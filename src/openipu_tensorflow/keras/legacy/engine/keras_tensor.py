"""`keras.engine.keras_tensor`: symbolic tensors. Sparse ones are of the same class in Keras 3."""

from keras import KerasTensor

SparseKerasTensor = KerasTensor

__all__ = ["KerasTensor", "SparseKerasTensor"]
