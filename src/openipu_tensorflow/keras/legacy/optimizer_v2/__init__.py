"""`keras.optimizer_v2` of Keras 2: where its optimizers were."""
