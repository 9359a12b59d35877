"""Connectionist temporal classification as layers."""

from __future__ import annotations

from typing import Any

import keras

import tensorflow as tf
from openipu_tensorflow.ipu.losses import ctc


class CTCLoss(keras.layers.Layer):  # type: ignore[misc]
    """The mean loss of the sequences of a batch, as a tensor of one element."""

    def __init__(self, blank_index: int = 0, from_logits: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.blank_index, self.from_logits = blank_index, from_logits

    def call(self, labels: Any, data: Any, label_length: Any, data_length: Any, **kwargs: Any) -> Any:
        lose = ctc.ctc_loss_v2 if self.from_logits else ctc.ctc_loss_with_log_probs
        each = lose(labels, data, label_length, data_length, self.blank_index)
        return tf.reshape(tf.reduce_mean(each), [1])

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "blank_index": self.blank_index, "from_logits": self.from_logits}


class CTCInferenceLayer(keras.layers.Layer):  # type: ignore[misc]
    """(logarithms of probabilities, lengths, labels) of the likeliest paths."""

    def __init__(
        self,
        blank_index: int = 0,
        beam_width: int = 100,
        top_paths: int = 1,
        from_logits: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.blank_index, self.beam_width = blank_index, beam_width
        self.top_paths, self.from_logits = top_paths, from_logits

    def call(self, data: Any, data_length: Any, **kwargs: Any) -> Any:
        search = ctc.ctc_beam_search_decoder if self.from_logits else ctc.ctc_beam_search_decoder_with_log_probs
        return search(tf.convert_to_tensor(data), data_length, self.beam_width, self.top_paths, self.blank_index)

    def get_config(self) -> dict[str, Any]:
        own = {
            "blank_index": self.blank_index,
            "beam_width": self.beam_width,
            "top_paths": self.top_paths,
            "from_logits": self.from_logits,
        }
        return {**super().get_config(), **own}


class CTCPredictionsLayer(CTCInferenceLayer):
    """The labels of the likeliest path [batch, time], with blanks behind its end."""

    def call(self, data: Any, data_length: Any, **kwargs: Any) -> Any:
        scores, lengths, labels = super().call(data, data_length)
        best = tf.argmax(scores, axis=1, output_type=tf.int32)
        chosen = tf.gather(labels, best, axis=1, batch_dims=1)
        sizes = tf.gather(lengths, best, axis=1, batch_dims=1)
        places = tf.range(tf.shape(chosen)[1])[None]
        return tf.where(places < sizes[:, None], chosen, tf.fill(tf.shape(chosen), self.blank_index))
