"""What programs of Keras 2 rely on and Keras 3 refuses: each module restores one part of it.

Programs for IPUs are of that time. What is restored was an error before, so that programs of Keras 3 see no difference.
"""

from openipu_tensorflow.keras.legacy.checkpoints import restore_checkpoints
from openipu_tensorflow.keras.legacy.layers import restore_arguments_of_layers
from openipu_tensorflow.keras.legacy.loss_scaling import restore_constant_loss_scaling
from openipu_tensorflow.keras.legacy.nodes import restore_names_of_nodes
from openipu_tensorflow.keras.legacy.optimizers import restore_optimizers
from openipu_tensorflow.keras.legacy.symbolic import take_symbolic_tensors
from openipu_tensorflow.keras.legacy.targets import spread_targets
from openipu_tensorflow.keras.legacy.types import restore_types
from openipu_tensorflow.keras.legacy.watching import restore_directions

_done: list[bool] = []


def restore_keras_2() -> None:
    """A second call changes nothing."""
    if not _done:
        _done.append(True)
        restore_types()
        restore_names_of_nodes()
        restore_arguments_of_layers()
        take_symbolic_tensors()
        spread_targets()
        restore_checkpoints()
        restore_optimizers()
        restore_constant_loss_scaling()
        restore_directions()
