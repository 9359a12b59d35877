"""Handwritten digits that ship with scikit-learn, in the size and range of MNIST's."""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits

HELD_BACK = 360  # images that are not trained on


def load() -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Images of [1, 28, 28] from -1 to 1 with their labels: to train on, and to verify with."""
    found = load_digits()
    large = np.kron(found.images, np.ones((3, 3)))  # 8 x 8 pixels become 24 x 24
    images = np.pad(large, ((0, 0), (2, 2), (2, 2)))[:, None].astype("float32") / 8 - 1
    labels = found.target.astype("int64")[:, None]
    order = np.random.RandomState(0).permutation(len(labels))
    images, labels = images[order], labels[order]
    return (images[HELD_BACK:], labels[HELD_BACK:]), (images[:HELD_BACK], labels[:HELD_BACK])
