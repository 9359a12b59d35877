"""Stands in for TensorFlow Addons, whose wheels need the Keras of their time: optimizers that decay weights."""

from tensorflow_addons import optimizers

__all__ = ["optimizers"]
