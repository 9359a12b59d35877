"""`tensorflow.compiler.plugin`: a package that the stock TensorFlow does not have."""
