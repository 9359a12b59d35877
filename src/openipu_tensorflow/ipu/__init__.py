"""`tensorflow.python.ipu`: the names that TensorFlow programs for IPUs import."""
