"""Callbacks that watch a metric of the user's own: Keras 2 told from its name whether more of it is better.

In: `ModelCheckpoint`, `EarlyStopping` and the like with `mode="auto"`, and a name that Keras 3 refuses to guess about.
Out: more is better of what is named after an accuracy, an area or an F measure; of anything else less is.
"""

from __future__ import annotations

import functools
from typing import Any

from keras import ops
from keras.src.callbacks.monitor_callback import MonitorCallback

_MORE_IS_BETTER = ("acc", "auc")  # anywhere in a name
_BEGINS = "fmeasure"


def restore_directions() -> None:
    """Let names decide where Keras 3 does not know."""
    choose = MonitorCallback._set_monitor_op

    @functools.wraps(choose)
    def set_monitor_op(self: Any) -> None:
        try:
            choose(self)
        except ValueError:
            name = self.monitor.removeprefix("val_")
            more = name.startswith(_BEGINS) or any(part in name for part in _MORE_IS_BETTER)
            self.monitor_op = ops.greater if more else ops.less
            if not more:
                self.min_delta *= -1

    MonitorCallback._set_monitor_op = set_monitor_op
