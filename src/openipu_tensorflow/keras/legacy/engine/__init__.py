"""`keras.engine` of Keras 2: where its classes were."""
