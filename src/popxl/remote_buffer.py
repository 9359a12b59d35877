"""Remote buffers: entries of one shape in the memory beside the device."""

from __future__ import annotations

from popxl.context import gcg
from popxl.dtypes import dtype
from popxl.tensor import Tensor


class RemoteBuffer:
    """`entries` tensors of one shape and format."""

    def __init__(self, tensor_shape: tuple[int, ...], tensor_dtype: dtype, entries: int) -> None:
        _check_entries(entries)
        self._ir = gcg().ir
        self._meta_shape: tuple[int, ...] = ()
        self._remote_buffer_id = len(self._ir._remote_buffers) + 1
        self._ir._remote_buffers[self._remote_buffer_id] = self
        self.set_remote_buffer_info(tensor_dtype, tensor_shape, entries)

    def set_remote_buffer_info(self, tensor_dtype: dtype, tensor_shape: tuple[int, ...], entries: int) -> None:
        """Say anew what it holds."""
        self._dtype, self._shape, self._entries = tensor_dtype, tuple(int(size) for size in tensor_shape), entries

    def validate_tensor_matches_buffer(self, t: Tensor, num_shards: int = 1) -> None:
        """Refuse a tensor that is no entry of it."""
        shape = self._shape if num_shards == 1 else self._meta_shape
        if t.shape != shape or t.dtype != self._dtype:
            raise ValueError(
                f"{t.id} does not match buffer: it is {t.dtype} of shape {t.shape}, and the buffer holds "
                f"{self._dtype} of shape "
                f"{shape}."
            )

    @property
    def remote_buffer_id(self) -> int:
        """Its number in the program."""
        return self._remote_buffer_id

    @property
    def tensor_shape(self) -> tuple[int, ...]:
        """The shape of an entry."""
        return self._shape

    @property
    def tensor_dtype(self) -> dtype:
        """The format of an entry."""
        return self._dtype

    @property
    def entries(self) -> int:
        """How many it holds."""
        return self._entries

    @entries.setter
    def entries(self, entries: int) -> None:
        _check_entries(entries)
        self._entries = entries

    @property
    def meta_shape(self) -> tuple[int, ...]:
        """The shape of the whole tensor of which replicas keep shares; empty where they do not."""
        return self._meta_shape

    @meta_shape.setter
    def meta_shape(self, shape: tuple[int, ...]) -> None:
        self._meta_shape = tuple(shape)

    def __hash__(self) -> int:
        return hash((self._ir, self._remote_buffer_id))

    def __eq__(self, other: object) -> bool:
        return self is other


def _check_entries(entries: int) -> None:
    if entries < 1:
        raise ValueError(f"Entries must be counted by a whole number above 0, not {entries}.")


def remote_buffer(tensor_shape: tuple[int, ...], tensor_dtype: dtype, entries: int = 1) -> RemoteBuffer:
    """A buffer for `entries` tensors."""
    return RemoteBuffer(tensor_shape, tensor_dtype, entries)
