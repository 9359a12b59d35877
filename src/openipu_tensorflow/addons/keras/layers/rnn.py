"""`LSTM` and `GRU`: Keras' layers by the original's arguments, with time first inside."""

from __future__ import annotations

from typing import Any

import keras

import tensorflow as tf
from openipu_tensorflow.addons.keras.layers.refusing import refuse
from openipu_tensorflow.addons.recurrence import check_options, name_activation, run_gru, run_lstm
from openipu_tensorflow.ipu.ops import rand_ops

_UNSUPPORTED = (
    *("kernel_regularizer", "recurrent_regularizer", "bias_regularizer", "activity_regularizer"),
    *("kernel_constraint", "recurrent_constraint", "bias_constraint"),
)


class _Recurrent(keras.layers.Layer):  # type: ignore[misc]
    """Weights as Keras has them: kernel, recurrent_kernel, biases, with gates side by side."""

    _gates = 4
    _states = 2
    _title = "LSTM"

    def __init__(
        self,
        units: int,
        activation: Any = "tanh",
        recurrent_activation: Any = "sigmoid",
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        recurrent_initializer: Any = "orthogonal",
        bias_initializer: Any = "zeros",
        dropout: float = 0.0,
        dropout_seed: Any = None,
        recurrent_dropout: float = 0.0,
        implementation: int = 2,
        return_sequences: bool = False,
        return_state: bool = False,
        go_backwards: bool = False,
        stateful: bool = False,
        unroll: bool = False,
        seed: int | None = None,
        partials_dtype: Any = tf.float32,
        time_major: bool = False,
        options: dict[str, Any] | None = None,
        options_bwd: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """`implementation`, `seed`, `partials_dtype` and `options` say how PopLibs computes or first fills it: values
        are the same, but for the first ones, which the initializers say."""
        refuse(self._title, {name: kwargs.pop(name, None) for name in _UNSUPPORTED})
        refuse(
            self._title,
            {
                "use_bias": use_bias,
                "recurrent_dropout": recurrent_dropout,
                "go_backwards": go_backwards,
                "unroll": unroll,
            },
            {"use_bias": True, "recurrent_dropout": 0.0},
        )
        if not 0 <= dropout <= 1:
            raise ValueError(f"dropout must be between 0 and 1, not {dropout!r}.")
        super().__init__(**kwargs)
        self.units = units
        self.activation, self.recurrent_activation = name_activation(activation), name_activation(recurrent_activation)
        self._initializers = [
            keras.initializers.get(one) for one in (kernel_initializer, recurrent_initializer, bias_initializer)
        ]
        self.dropout, self.dropout_seed = dropout, dropout_seed
        self.return_sequences, self.return_state = return_sequences, return_state
        self.stateful, self.time_major = stateful, time_major
        self._settings = {
            "seed": seed,
            "partials_dtype": tf.as_dtype(partials_dtype).name,
            "options": check_options(options),
            "options_bwd": check_options(options_bwd),
        }
        self.states: list[Any] = []

    @property
    def _bias_shape(self) -> tuple[int, ...]:
        return (self._gates * self.units,)

    def build(self, input_shape: Any) -> None:
        """Weights for inputs [batch, time, features], or [time, batch, features] with `time_major`."""
        shape = tuple(input_shape)
        if len(shape) != 3:
            raise ValueError(f"inputs tensor must be 3D, and have shape {shape}")
        width = self._gates * self.units
        kernel, recurrent, bias = self._initializers
        self.kernel = self.add_weight(name="kernel", shape=(shape[-1], width), initializer=kernel)
        self.recurrent_kernel = self.add_weight(
            name="recurrent_kernel", shape=(self.units, width), initializer=recurrent
        )
        self.biases = self.add_weight(name="biases", shape=self._bias_shape, initializer=self._choose_bias(bias))
        if self.stateful:
            batch = shape[1] if self.time_major else shape[0]
            if batch is None:
                raise ValueError("A stateful layer needs the batch size: give its input a fixed batch_size.")
            self.states = [
                self.add_weight(name=f"state_{n}", shape=(batch, self.units), initializer="zeros", trainable=False)
                for n in range(self._states)
            ]

    def _choose_bias(self, initializer: Any) -> Any:
        return initializer

    def reset_states(self) -> None:
        """Zeros for the states of a stateful layer."""
        for state in self.states:
            state.assign(tf.zeros(state.shape, state.dtype))

    def call(self, inputs: Any, mask: Any = None, training: bool | None = None, initial_state: Any = None) -> Any:
        """The last output, or all of them with `return_sequences`; then, with `return_state`, the last states."""
        self._refuse_mask(mask)
        value = tf.convert_to_tensor(inputs)
        value = value if self.time_major else tf.transpose(value, [1, 0, 2])
        if self.dropout and training is not False:
            mask = [1, *value.shape[1:]]  # the same elements in every step
            value = rand_ops.dropout(value, rate=self.dropout, seed=self.dropout_seed, noise_shape=mask)
        outputs, last = self._run(value, self._find_first(value, initial_state))
        for state, new in zip(self.states, last, strict=False):
            state.assign(new)
        shown = outputs if self.time_major else tf.transpose(outputs, [1, 0, 2])
        result = shown if self.return_sequences else last[0]
        return [result, *last] if self.return_state else result

    def compute_output_spec(
        self, inputs: Any, mask: Any = None, training: bool | None = None, initial_state: Any = None
    ) -> Any:
        """Shapes of what `call` gives: while a model is put together, its batch size may not be known."""
        self._refuse_mask(mask)
        state = (inputs.shape[1 if self.time_major else 0], self.units)
        shown = (*inputs.shape[:2], self.units) if self.return_sequences else state
        shapes = [shown, *[state] * (self._states if self.return_state else 0)]
        found = [keras.KerasTensor(shape, dtype=self.compute_dtype) for shape in shapes]
        return found if self.return_state else found[0]

    def _refuse_mask(self, mask: Any) -> None:
        if mask is not None:
            raise ValueError(f"IPU custom {self._title} layer does not support mask.")

    def _find_first(self, value: Any, given: Any) -> list[Any]:
        if given is not None:
            listed = list(given) if isinstance(given, list | tuple) else [given]
            return [tf.convert_to_tensor(one, dtype=value.dtype) for one in listed]
        if self.states:
            return [tf.convert_to_tensor(state) for state in self.states]
        return [tf.zeros([value.shape[1], self.units], value.dtype) for _ in range(self._states)]

    def _list_weights(self) -> tuple[Any, Any, Any]:
        weights = [tf.convert_to_tensor(one) for one in (self.kernel, self.recurrent_kernel, self.biases)]
        return weights[0], weights[1], weights[2]

    def _run(self, value: Any, first: list[Any]) -> tuple[Any, list[Any]]:
        raise NotImplementedError

    def get_config(self) -> dict[str, Any]:
        kernel, recurrent, bias = (keras.initializers.serialize(one) for one in self._initializers)
        own = {
            "units": self.units,
            "activation": self.activation,
            "recurrent_activation": self.recurrent_activation,
            "kernel_initializer": kernel,
            "recurrent_initializer": recurrent,
            "bias_initializer": bias,
            "dropout": self.dropout,
            "dropout_seed": self.dropout_seed,
            "return_sequences": self.return_sequences,
            "return_state": self.return_state,
            "stateful": self.stateful,
            "time_major": self.time_major,
        }
        return {**super().get_config(), **own, **self._settings}


class PopnnLSTM(_Recurrent):
    """A long short-term memory layer."""

    def __init__(self, units: int, *args: Any, unit_forget_bias: bool = True, **kwargs: Any) -> None:
        super().__init__(units, *args, **kwargs)
        self.unit_forget_bias = unit_forget_bias

    def _choose_bias(self, initializer: Any) -> Any:
        if not self.unit_forget_bias:
            return initializer

        def fill(shape: Any, dtype: Any = None) -> Any:
            """Ones for the forget gate, which is the second."""
            ones = tf.ones([self.units], dtype or "float32")
            parts = [initializer([size], dtype=dtype) for size in (self.units, 2 * self.units)]
            return tf.concat([parts[0], ones, parts[1]], axis=0)

        return fill

    def _run(self, value: Any, first: list[Any]) -> tuple[Any, list[Any]]:
        kernel, recurrent, bias = self._list_weights()
        outputs, h, c = run_lstm(
            value, kernel, recurrent, bias, (first[0], first[1]), self.activation, self.recurrent_activation
        )
        return outputs, [h, c]

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "unit_forget_bias": self.unit_forget_bias}


class PopnnGRU(_Recurrent):
    """A layer of gated recurrent units."""

    _gates = 3
    _states = 1
    _title = "GRU"

    def __init__(self, units: int, *args: Any, reset_after: bool = False, **kwargs: Any) -> None:
        self.reset_after = reset_after
        super().__init__(units, *args, **kwargs)
        self.reset_after = reset_after

    @property
    def _bias_shape(self) -> tuple[int, ...]:
        width = self._gates * self.units
        return (2, width) if self.reset_after else (width,)

    def _run(self, value: Any, first: list[Any]) -> tuple[Any, list[Any]]:
        kernel, recurrent, bias = self._list_weights()
        outputs, last = run_gru(
            value, kernel, recurrent, bias, first[0], self.activation, self.recurrent_activation, self.reset_after
        )
        return outputs, [last]

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "reset_after": self.reset_after}


LSTM, GRU = PopnnLSTM, PopnnGRU
