"""`tensorflow_addons.optimizers`."""

import keras

from tensorflow_addons.optimizers.weight_decay_optimizers import (
    DecoupledWeightDecayExtension,
    extend_with_decoupled_weight_decay,
)

AdamW = extend_with_decoupled_weight_decay(keras.optimizers.Adam)
SGDW = extend_with_decoupled_weight_decay(keras.optimizers.SGD)

__all__ = ["SGDW", "AdamW", "DecoupledWeightDecayExtension", "extend_with_decoupled_weight_decay"]
