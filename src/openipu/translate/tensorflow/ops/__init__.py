"""The rules of TensorFlow's ops, by family."""
