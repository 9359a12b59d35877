"""Embeddings in the memory of the host: a program asks for rows while it runs, and sends back what to add to them.

The values are those of a variable of TensorFlow. While it is registered, programs work on a copy beside it, which the
variable gets back afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from openipu.host.embeddings import hold_table, release_table
from openipu_tensorflow.graphs.device_ops import add_device_op
from openipu_tensorflow.graphs.formats import to_numpy, to_torch

_STRATEGIES = ("TOKEN", "ENCODING")


class HostEmbeddingOptimizerSpec:
    """Gradient descent on the host."""

    def __init__(self, learning_rate: float, optimizer_name: str | None = None) -> None:
        self._learning_rate = learning_rate
        self._optimizer_name = optimizer_name or "SGD"

    def get_learning_rate(self) -> float:
        return self._learning_rate

    def get_accumulation_factor(self) -> int:
        """Micro-batches whose changes are added at once."""
        return 1


class HostEmbeddingSGDGAOptimizerSpec(HostEmbeddingOptimizerSpec):
    """Gradient descent on the host, once for so many micro-batches."""

    def __init__(self, learning_rate: float, accumulation_factor: int) -> None:
        super().__init__(learning_rate, "SGD" if accumulation_factor == 1 else "SGD+GA")
        if isinstance(accumulation_factor, bool) or not isinstance(accumulation_factor, int) or accumulation_factor < 1:
            raise ValueError(f"accumulation_factor must be at least 1, not {accumulation_factor!r}.")
        self._accumulation_factor = accumulation_factor

    def get_accumulation_factor(self) -> int:
        return self._accumulation_factor


class HostEmbedding:
    """A table [tokens, encoding] and how it is trained."""

    def __init__(
        self,
        name: str,
        embedding_tensor: Any,
        partition_strategy: str = "TOKEN",
        optimizer_spec: HostEmbeddingOptimizerSpec | None = None,
    ) -> None:
        if partition_strategy not in _STRATEGIES:
            raise ValueError(
                f"Unknown partition_strategy {partition_strategy!r}: it is {' or '.join(map(repr, _STRATEGIES))}. It "
                "says how replicas share the table; values are the same."
            )
        if embedding_tensor.shape.rank != 2:
            raise ValueError(f"A host embedding is a table of two dimensions, not of shape {embedding_tensor.shape}.")
        self._name, self._tensor, self._spec = name, embedding_tensor, optimizer_spec
        self._anchors: dict[int, Any] = {}  # by graph

    def get_embedding_tensor(self) -> Any:
        """The variable with the table."""
        return self._tensor

    @contextmanager
    def register(self, session: Any = None) -> Iterator[HostEmbedding]:
        """While this lasts, programs can use the table."""
        if session is None:
            from tensorflow.python.ops.resource_variable_ops import BaseResourceVariable

            if not isinstance(self._tensor, BaseResourceVariable):
                raise ValueError("register needs a session in a graph of TensorFlow 1.")
            hold_table(self._name, to_torch(self._tensor.numpy()))
        else:
            hold_table(self._name, to_torch(session.run(self._tensor)))
        try:
            yield self
        finally:
            value = to_numpy(release_table(self._name), self._tensor.dtype)
            if session is None:
                self._tensor.assign(value)
            else:
                self._tensor.load(value, session)

    def __call__(self, iteration_count: int | None = None, replication_factor: int | None = None) -> Any:
        """As `register`, in the words of older releases."""
        return self.register()

    def lookup(self, indices: Any, clip_indices: bool = True) -> Any:
        """Rows of the table. Their gradients change it, if it has an optimizer with a rate other than 0."""
        from tensorflow.python.framework import ops
        from tensorflow.python.ops import clip_ops, custom_gradient

        places = ops.convert_to_tensor(indices)
        if clip_indices:
            places = clip_ops.clip_by_value(places, 0, int(self._tensor.shape[0]) - 1)
        if self._spec is None or not self._spec.get_learning_rate():
            return self._read(places)
        spec = self._spec

        @custom_gradient.custom_gradient  # type: ignore[untyped-decorator]
        def look_up(anchor: Any) -> Any:
            def backward(upstream: Any) -> Any:
                from tensorflow.python.ops import array_ops

                options = {
                    "table": self._name,
                    "rate": -spec.get_learning_rate(),
                    "factor": spec.get_accumulation_factor(),
                }
                add_device_op("IpuHostEmbeddingUpdate", [upstream, places], [], options, acts=True)
                return array_ops.zeros_like(anchor)

            return self._read(places), backward

        return look_up(self._find_anchor())

    def _read(self, places: Any) -> Any:
        width, kind = int(self._tensor.shape[1]), self._tensor.dtype.base_dtype
        options = {"table": self._name, "width": width, "dtype": kind.name}
        return add_device_op("IpuHostEmbeddingLookup", [places], [(kind, [*places.shape, width])], options)[0]

    def _find_anchor(self) -> Any:
        """A trainable number that stays as it is: TensorFlow only goes back to what depends on such a variable."""
        from tensorflow.python.framework import dtypes, ops
        from tensorflow.python.ops import init_ops, variable_scope

        graph = ops.get_default_graph()
        if id(graph) not in self._anchors:
            with variable_scope.variable_scope(variable_scope.get_variable_scope(), reuse=variable_scope.AUTO_REUSE):
                self._anchors[id(graph)] = variable_scope.get_variable(
                    f"{self._name}/anchor",
                    shape=[],
                    dtype=dtypes.float32,
                    initializer=init_ops.zeros_initializer(),
                    use_resource=True,
                )
        return self._anchors[id(graph)].read_value()


def create_host_embedding(
    name: str,
    shape: Any,
    dtype: Any,
    partition_strategy: str = "TOKEN",
    optimizer_spec: HostEmbeddingOptimizerSpec | None = None,
    initializer: Any = None,
) -> HostEmbedding:
    """A table in the memory of the host, with a variable of its own."""
    from tensorflow.python.framework import ops
    from tensorflow.python.ops import variable_scope

    with ops.device("cpu"):
        fixed = initializer is None or callable(initializer)
        table = variable_scope.get_variable(
            name,
            shape=shape if fixed else None,
            dtype=dtype,
            initializer=initializer,
            use_resource=True,
            trainable=False,
        )
    return HostEmbedding(name, table, partition_strategy, optimizer_spec)
