"""`tensorflow.contrib.data`: what has moved to `tf.data.experimental`."""

from __future__ import annotations

import tensorflow.compat.v1 as v1

AUTOTUNE = v1.data.AUTOTUNE
map_and_batch = v1.data.experimental.map_and_batch
parallel_interleave = v1.data.experimental.parallel_interleave
shuffle_and_repeat = v1.data.experimental.shuffle_and_repeat
