"""TensorFlow on IPUs: what `tensorflow.python.ipu` and `keras.ipu` are, on the stock TensorFlow.

`ipu/` has the names that programs import; `graphs/` reads TensorFlow's graphs as plain records; `engine/` is the one
door through which all of them reach openipu's pipeline.
"""
