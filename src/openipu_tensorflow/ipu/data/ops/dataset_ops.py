"""Data sets beside those of `tf.data`."""

from __future__ import annotations

from typing import Any


def BufferDataset(input_dataset: Any, buffer_size: int) -> Any:  # noqa: N802 (as scripts call it)
    """The same elements, taken `buffer_size` at a time; those that fill no buffer at the end are dropped."""
    if isinstance(buffer_size, bool) or not isinstance(buffer_size, int) or buffer_size < 1:
        raise ValueError(f"buffer_size must be a whole number of at least 1, not {buffer_size!r}.")
    return input_dataset.batch(buffer_size, drop_remainder=True).unbatch()
