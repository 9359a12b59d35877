"""`ipu_tensorflow_addons`: layers and optimizers that the original has beside TensorFlow, on Keras 3."""
