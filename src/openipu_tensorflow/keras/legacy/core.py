"""`keras.layers.core` of Keras 2: layers, and what stood for functions of TensorFlow and for slices of tensors."""

from keras.layers import Activation, Dense, Dropout, Flatten, Lambda, Masking, Permute, RepeatVector, Reshape
from keras.src.ops.numpy import GetItem

from openipu_tensorflow.keras.legacy.symbolic import TFOpLambda

SlicingOpLambda = GetItem

__all__ = [
    "Activation",
    "Dense",
    "Dropout",
    "Flatten",
    "Lambda",
    "Masking",
    "Permute",
    "RepeatVector",
    "Reshape",
    "SlicingOpLambda",
    "TFOpLambda",
]
