"""Pipeline stages of Keras models: said in the model's code, or layer by layer."""
