"""`tensorflow.contrib.framework`: variables of checkpoints."""

from openipu_tensorflow.contrib.framework.python.framework.checkpoint_utils import (
    init_from_checkpoint,
    list_variables,
    load_checkpoint,
    load_variable,
)

__all__ = ["init_from_checkpoint", "list_variables", "load_checkpoint", "load_variable"]
