"""`ipu_tensorflow_addons.v1.layers.rnn_ops`: recurrent layers with time first, for graphs of TensorFlow 1.

Weights are one kernel [features + units, gates * units], gates in Keras' order, and biases [gates, units].
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import tensorflow as tf
from openipu_tensorflow.addons.recurrence import check_options, name_activation, run_gru, run_lstm

v1 = tf.compat.v1


class LSTMStateTuple(NamedTuple):
    """The states of an LSTM, as TensorFlow 1 has them."""

    c: Any
    h: Any


class _PopnnRNN:
    """What all of them have."""

    _gates = 4
    _kind = "popnn_lstm"

    def __init__(
        self,
        num_units: int,
        dtype: Any = tf.float32,
        partials_dtype: Any = tf.float32,
        seed: int | None = None,
        weights_initializer: Any = None,
        bias_initializer: Any = None,
        activation: Any = "tanh",
        recurrent_activation: Any = "sigmoid",
        return_state: bool = True,
        name: str | None = None,
        options: Mapping[str, Any] | None = None,
        options_bwd: Mapping[str, Any] | None = None,
    ) -> None:
        """`partials_dtype` and `options` say how PopLibs computes it: the plan prices the products by the options of
        the program instead."""
        self.dtype = tf.as_dtype(dtype)
        if self.dtype not in (tf.float16, tf.float32):
            raise ValueError(f"Only support float16, float32, provided {dtype}")
        self.num_units = num_units
        self._partials_dtype, self._seed, self._name = partials_dtype, seed, name
        self._weights_initializer, self._bias_initializer = weights_initializer, bias_initializer
        self._activation = name_activation(activation)
        self._recurrent_activation = name_activation(recurrent_activation)
        self._return_state = return_state
        self._options, self._options_bwd = check_options(options), check_options(options_bwd)
        self._input_size = 0
        self.built = False
        self.kernel: Any = None
        self.biases: Any = None

    @property
    def num_layers(self) -> int:
        return 1

    @property
    def input_size(self) -> int:
        if not self._input_size:
            raise ValueError("'input_size' is unknown since layer has not been built.")
        return self._input_size

    @property
    def saveable(self) -> bool:
        return False

    @property
    def canonical_weight_shape(self) -> list[int]:
        """The shape of the kernel."""
        if not self._input_size:
            raise RuntimeError(f"{type(self).__name__}.canonical_weight_shape invoked before input shape is known")
        return [self._input_size + self.num_units, self._gates * self.num_units]

    @property
    def canonical_bias_shapes(self) -> list[int]:
        """The shape of the biases."""
        return [self._gates, self.num_units]

    @property
    def variables(self) -> list[Any]:
        return [self.kernel, self.biases] if self.built else []

    trainable_variables = trainable_weights = weights = variables

    def build(self, input_shape: Any) -> None:
        """Make the variables. A second call changes nothing."""
        if self.built:
            return
        shape = tf.TensorShape(input_shape)
        if shape.rank != 3:
            raise ValueError(f"Expecting input_shape with 3 dims, got {shape.rank}")
        if shape[-1] is None:
            raise ValueError("The last dimension of the inputs to `_PopnnRNN` should be defined. Found `None`.")
        self._input_size = int(shape[-1])
        with v1.variable_scope(self._name, self._kind, use_resource=True):
            self._add_variables()
        self.built = True

    def _add_variables(self) -> None:
        self.kernel = v1.get_variable(
            "kernel",
            dtype=self.dtype,
            shape=self.canonical_weight_shape,
            initializer=self._weights_initializer or v1.glorot_uniform_initializer(self._seed, dtype=self.dtype),
        )
        self.biases = v1.get_variable(
            "biases",
            dtype=self.dtype,
            shape=self.canonical_bias_shapes,
            initializer=self._bias_initializer or v1.zeros_initializer(dtype=self.dtype),
        )

    def __call__(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        value = tf.convert_to_tensor(inputs, dtype=self.dtype)
        self.build(value.shape if kwargs.get("time_major", True) else [value.shape[1], value.shape[0], value.shape[2]])
        return self.call(value, *args, **kwargs)

    def call(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    def _split_kernel(self) -> tuple[Any, Any]:
        return self.kernel[: self._input_size], self.kernel[self._input_size :]

    def _convert(self, value: Any, batch: int) -> Any:
        if value is None:
            return tf.zeros([batch, self.num_units], self.dtype)
        return tf.convert_to_tensor(value, dtype=self.dtype)


class PopnnLSTM(_PopnnRNN):
    """A long short-term memory layer."""

    def call(self, inputs: Any, initial_state: Any = None, training: bool = True) -> Any:
        """Outputs [time, batch, units], and with `return_state` the last `LSTMStateTuple`."""
        return self._run(inputs, None, initial_state)

    def state_shape(self, batch_size: int) -> tuple[list[int], list[int]]:
        return [batch_size, self.num_units], [batch_size, self.num_units]

    def _run(self, inputs: Any, lengths: Any, initial_state: Any) -> Any:
        if initial_state is not None and not (isinstance(initial_state, tuple) and len(initial_state) == 2):
            raise ValueError(f"Invalid initial_state type: `{type(initial_state)}`, expecting `LSTMStateTuple`.")
        c, h = initial_state or (None, None)
        batch = int(inputs.shape[1])
        outputs, last_h, last_c = run_lstm(
            inputs,
            *self._split_kernel(),
            tf.reshape(self.biases, [-1]),
            (self._convert(h, batch), self._convert(c, batch)),
            self._activation,
            self._recurrent_activation,
            lengths,
        )
        return (outputs, LSTMStateTuple(last_c, last_h)) if self._return_state else outputs


class PopnnDynamicLSTM(PopnnLSTM):
    """A long short-term memory layer over sequences with lengths of their own."""

    def call(self, inputs: Any, seq_len: Any, initial_state: Any = None, training: bool = True) -> Any:  # type: ignore[override]
        return self._run(inputs, seq_len, initial_state)


class PopnnGRU(_PopnnRNN):
    """A layer of gated recurrent units."""

    _gates = 3
    _kind = "popnn_gru"

    def __init__(self, num_units: int, *args: Any, reset_after: bool = False, **kwargs: Any) -> None:
        super().__init__(num_units, *args, **kwargs)
        self._reset_after = reset_after

    @property
    def canonical_bias_shapes(self) -> list[int]:
        return [self._gates, 2, self.num_units] if self._reset_after else [self._gates, self.num_units]

    def call(self, inputs: Any, initial_state: Any = None, training: bool = True) -> Any:
        """Outputs [time, batch, units], and with `return_state` the last state."""
        return self._run(inputs, self.biases, initial_state)

    def state_shape(self, batch_size: int) -> list[int]:
        return [batch_size, self.num_units]

    def _run(self, inputs: Any, biases: Any, initial_state: Any, lengths: Any = None, attention: Any = None) -> Any:
        bias = tf.reshape(biases, [-1])
        if self._reset_after:
            bias = tf.reshape(tf.transpose(biases, [1, 0, 2]), [2, -1])
        outputs, last = run_gru(
            inputs,
            *self._split_kernel(),
            bias,
            self._convert(initial_state, int(inputs.shape[1])),
            self._activation,
            self._recurrent_activation,
            self._reset_after,
            lengths,
            attention,
        )
        return (outputs, last) if self._return_state else outputs


class PopnnDynamicGRU(PopnnGRU):
    """A layer of gated recurrent units over sequences with lengths of their own."""

    _kind = "popnn_dynamic_gru"

    @property
    def canonical_bias_shapes(self) -> list[int]:
        return [self._gates, self.num_units]

    def call(  # type: ignore[override]
        self, inputs: Any, seq_len: Any, initial_state: Any = None, training: bool = True, time_major: bool = True
    ) -> Any:
        value = inputs if time_major else tf.transpose(inputs, [1, 0, 2])
        biases = tf.stack([self.biases, self.biases], axis=1) if self._reset_after else self.biases
        return self._run(value, biases, initial_state, seq_len)


class PopnnAUGRU(PopnnGRU):
    """Gated recurrent units whose update gate attention scales down. Biases of the gates begin with 1."""

    _kind = "popnn_augru"

    def _add_variables(self) -> None:
        super()._add_variables()
        shape, zeros = [2, self.num_units], v1.zeros_initializer()
        self._gate_bias = v1.get_variable("bias_r_u", shape, self.dtype, v1.ones_initializer())
        self._candidate_bias = v1.get_variable("bias_c", [1, self.num_units], self.dtype, zeros)

    @property
    def canonical_bias_shapes(self) -> list[int]:
        return [self._gates, self.num_units]

    def call(  # type: ignore[override]
        self,
        inputs: Any,
        seq_len: Any,
        attention_score: Any,
        initial_state: Any = None,
        training: bool = True,
        time_major: bool = True,
    ) -> Any:
        value = inputs if time_major else tf.transpose(inputs, [1, 0, 2])
        scores = attention_score if time_major else tf.transpose(attention_score, [1, 0])
        biases = tf.concat([self._gate_bias, self._candidate_bias], axis=0)
        biases = tf.stack([biases, biases], axis=1) if self._reset_after else biases
        return self._run(value, biases, initial_state, seq_len, scores)
