"""The update rule of each kind of optimizer, in plain torch: one group of parameters at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from openipu.capture.optimizer.adaptive import update_adadelta, update_adagrad, update_rmsprop
from openipu.capture.optimizer.members import GroupUpdate, Updated
from openipu.capture.optimizer.moments import update_adam, update_adamax, update_lamb
from openipu.capture.optimizer.sgd import update_sgd
from openipu.graph import OptimizerKind

RULES: Mapping[OptimizerKind, Callable[[GroupUpdate], Updated]] = {
    OptimizerKind.SGD: update_sgd,
    OptimizerKind.ADAM: update_adam,
    OptimizerKind.ADAMW: update_adam,
    OptimizerKind.ADAMAX: update_adamax,
    OptimizerKind.LAMB: update_lamb,
    OptimizerKind.RMSPROP: update_rmsprop,
    OptimizerKind.ADAGRAD: update_adagrad,
    OptimizerKind.ADADELTA: update_adadelta,
}
