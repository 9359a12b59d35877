"""Foreign graph x table -> function over torch ops -> `Program`.

A reader (`translate/onnx/`, later TensorFlow's and Paddle's) delivers a `ForeignGraph`; a table says what each of its
ops is in torch; `interpret` runs the one with the other. Capture then sees an ordinary module.
"""
