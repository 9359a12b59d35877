"""The operators of tensors: arithmetic, comparisons by value there are none, indexing, views."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from popxl.tensor import Tensor


class Operators:
    """What a tensor can be asked for by an operator or a method; each is an op of the current graph."""

    def transpose(self, permutation: Iterable[int] | None = None) -> Tensor:
        """Dimensions in another order; reversed if none is given."""
        import popxl.ops as ops

        return ops.transpose(self, permutation)  # type: ignore[arg-type]

    def transpose_(self, permutation: Iterable[int] | None = None) -> Tensor:
        """The same memory with its dimensions in another order."""
        import popxl.ops as ops

        return ops.transpose_(self, permutation)  # type: ignore[arg-type]

    @property
    def T(self) -> Tensor:  # noqa: N802 (numpy's own name)
        """Dimensions reversed."""
        return self.transpose()

    @property
    def T_(self) -> Tensor:  # noqa: N802
        """The same memory with its dimensions reversed."""
        return self.transpose_()

    def reshape(self, shape: Iterable[int]) -> Tensor:
        """The same elements in another shape."""
        import popxl.ops as ops

        return ops.reshape(self, shape)  # type: ignore[arg-type]

    def reshape_(self, shape: Iterable[int]) -> Tensor:
        """The same memory in another shape."""
        import popxl.ops as ops

        return ops.reshape_(self, shape)  # type: ignore[arg-type]

    def flatten(self) -> Tensor:
        """All elements on one dimension."""
        import popxl.ops as ops

        return ops.flatten(self)  # type: ignore[arg-type]

    def flatten_(self) -> Tensor:
        """The same memory on one dimension."""
        import popxl.ops as ops

        return ops.flatten_(self)  # type: ignore[arg-type]

    def detach(self) -> Tensor:
        """The same values, through which no gradient flows."""
        import popxl.ops as ops

        return ops.detach(self)  # type: ignore[arg-type]

    def detach_(self) -> Tensor:
        """The same memory, through which no gradient flows."""
        import popxl.ops as ops

        return ops.detach_(self)  # type: ignore[arg-type]

    def diag(self) -> Tensor:
        """The diagonal of a matrix."""
        shape: tuple[int, ...] = self.shape  # type: ignore[attr-defined]
        if len(shape) != 2:
            raise ValueError(f"Only a matrix has a diagonal, and this tensor is {shape}.")
        step = shape[1] + 1  # from one element of it to the next, in memory
        return self.flatten()[::step]

    def copy_to_ipu(self, destination: int, source: int | None = None) -> Tensor:
        """A copy on another IPU."""
        import popxl.ops as ops

        return ops.ipu_copy(self, destination, source)  # type: ignore[arg-type]

    def _other(self, value: Any) -> Tensor:
        return self._ensure_tensor(value)  # type: ignore[attr-defined, no-any-return]

    def __add__(self, other: Any) -> Tensor:
        import popxl.ops as ops

        return ops.add(self, self._other(other))  # type: ignore[arg-type]

    def __radd__(self, other: Any) -> Tensor:
        import popxl.ops as ops

        return ops.add(self._other(other), self)  # type: ignore[arg-type]

    def __iadd__(self, other: Any) -> Operators:
        import popxl.ops as ops

        ops.add_(self, self._other(other))  # type: ignore[arg-type]
        return self

    def __sub__(self, other: Any) -> Tensor:
        import popxl.ops as ops

        return ops.sub(self, self._other(other))  # type: ignore[arg-type]

    def __rsub__(self, other: Any) -> Tensor:
        import popxl.ops as ops

        return ops.sub(self._other(other), self)  # type: ignore[arg-type]

    def __mul__(self, other: Any) -> Tensor:
        import popxl.ops as ops

        return ops.mul(self, self._other(other))  # type: ignore[arg-type]

    def __rmul__(self, other: Any) -> Tensor:
        import popxl.ops as ops

        return ops.mul(self._other(other), self)  # type: ignore[arg-type]

    def __pow__(self, other: Any) -> Tensor:
        import popxl.ops as ops

        return ops.pow(self, other)  # type: ignore[arg-type]

    def __rpow__(self, other: Any) -> Tensor:
        import popxl.ops as ops
        from popxl.tensor import constant

        return ops.pow(constant(other), self)

    def __truediv__(self, other: Any) -> Tensor:
        import popxl.ops as ops

        return ops.div(self, self._other(other))  # type: ignore[arg-type]

    def __rtruediv__(self, other: Any) -> Tensor:
        import popxl.ops as ops

        return ops.div(self._other(other), self)  # type: ignore[arg-type]

    def __mod__(self, other: Any) -> Tensor:
        import popxl.ops as ops

        return ops.fmod(self, self._other(other))  # type: ignore[arg-type]

    def __rmod__(self, other: Any) -> Tensor:
        import popxl.ops as ops

        return ops.fmod(self._other(other), self)  # type: ignore[arg-type]

    def __neg__(self) -> Tensor:
        import popxl.ops as ops

        return ops.negate(self)  # type: ignore[arg-type]

    def __matmul__(self, other: Any) -> Tensor:
        import popxl.ops as ops

        return ops.matmul(self, self._other(other))  # type: ignore[arg-type]

    def __rmatmul__(self, other: Any) -> Tensor:
        import popxl.ops as ops

        return ops.matmul(self._other(other), self)  # type: ignore[arg-type]

    def __and__(self, other: Any) -> Tensor:
        import popxl.ops as ops

        return ops.logical_and(self, self._other(other))  # type: ignore[arg-type]

    def __rand__(self, other: Any) -> Tensor:
        import popxl.ops as ops

        return ops.logical_and(self._other(other), self)  # type: ignore[arg-type]

    def __or__(self, other: Any) -> Tensor:
        import popxl.ops as ops

        return ops.logical_or(self, self._other(other))  # type: ignore[arg-type]

    def __ror__(self, other: Any) -> Tensor:
        import popxl.ops as ops

        return ops.logical_or(self._other(other), self)  # type: ignore[arg-type]

    def __invert__(self) -> Tensor:
        import popxl.ops as ops

        return ops.logical_not(self)  # type: ignore[arg-type]

    def __getitem__(self, key: Any) -> Tensor:
        from popxl._ir.indexing import take

        return take(self, key)  # type: ignore[arg-type]
