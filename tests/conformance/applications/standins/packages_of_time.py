"""Gives packages of others what they have no more, and programs of that time use.

In: a module of theirs, just loaded, by name. Out: HamiltonianMonteCarlo of TensorFlow Probability takes
`step_size_update_fn`, as until 0.19, which is called with the variable and the results of each step, and returns what
has been assigned; TemporalData of PyTorch Geometric has `seq_batches`, as until 2.0; trees of SciPy take `n_jobs`, as
until 1.8. Keras takes generated data for those of its downloads, whatever their checksums.
"""

from __future__ import annotations

import sys
from typing import Any


def restore_step_size_updates(name: str) -> None:
    hmc = sys.modules[name]

    class HamiltonianMonteCarlo(hmc.HamiltonianMonteCarlo):  # type: ignore[misc, name-defined]
        def __init__(self, *args: Any, step_size_update_fn: Any = None, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self._update_step_size = step_size_update_fn

        def one_step(self, current_state: Any, previous_kernel_results: Any, seed: Any = None) -> Any:
            import tensorflow.compat.v1 as tf

            state, results = super().one_step(current_state, previous_kernel_results, seed=seed)
            if self._update_step_size is not None:
                assigned = self._update_step_size(self.step_size, results)
                with tf.control_dependencies(tf.nest.flatten(assigned)):
                    state = tf.nest.map_structure(tf.identity, state)
            return state, results

    hmc.HamiltonianMonteCarlo = HamiltonianMonteCarlo  # type: ignore[attr-defined]


def restore_batches(name: str) -> None:
    def seq_batches(self: Any, batch_size: int) -> Any:
        for start in range(0, self.num_events, batch_size):
            yield self[start : start + batch_size]

    sys.modules[name].TemporalData.seq_batches = seq_batches  # type: ignore[attr-defined]


def restore_jobs(name: str) -> None:
    spatial = sys.modules[name]

    class cKDTree(spatial.cKDTree):  # type: ignore[misc, name-defined]  # noqa: N801
        def query(self, *args: Any, n_jobs: int = 1, **kwargs: Any) -> Any:
            return super().query(*args, **{"workers": n_jobs, **kwargs})

    spatial.cKDTree = cKDTree  # type: ignore[attr-defined]


def accept_generated_files() -> None:
    from keras.src.utils import file_utils

    file_utils.validate_file = lambda *args, **kwargs: True
