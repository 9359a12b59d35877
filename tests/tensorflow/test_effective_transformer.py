"""`EffectiveTransformer` of the addons against the maths, sequence by sequence."""

from __future__ import annotations

import keras
import numpy as np
import pytest
from ipu_tensorflow_addons.keras.layers import EffectiveTransformer
from tensorflow.python import ipu

RANDOM = np.random.default_rng(5)
FROM, TO = np.array([[4], [1], [3]], np.int32), np.array([[2], [5], [5]], np.int32)


def make_sequences(lengths, size):
    inside = np.arange(size)[None] < lengths
    return (RANDOM.normal(size=(len(lengths), size)) * inside).astype(np.float32)


def test_each_sequence_attends_to_its_own_numbers_and_padding_is_zeros():
    source, target = make_sequences(FROM, 4), make_sequences(TO, 5)
    mask = np.array([[True, True], [False, True], [True, True]])
    layer = EffectiveTransformer(
        6, 3, use_scale=True, num_attention_heads=2, attention_head_size=3, embedding_bias_initializer="ones"
    )
    output, context = layer([source, FROM, target, TO, mask], training=False)
    (query_kernel, query_bias), (key_kernel, key_bias), (value_kernel, value_bias) = (
        [np.asarray(weight) for weight in embedding.weights] for embedding in layer._embeddings
    )
    for place, (count, reach) in enumerate(zip(FROM[:, 0], TO[:, 0], strict=True)):
        query, key, value = np.zeros((4, 2, 3)), np.zeros((5, 2, 3)), np.zeros((5, 2, 3))
        query[:count] = (source[place, :count, None] @ query_kernel + query_bias).reshape(-1, 2, 3)
        key[:reach] = (target[place, :reach, None] @ key_kernel + key_bias).reshape(-1, 2, 3)
        value[:reach] = (target[place, :reach, None] @ value_kernel + value_bias).reshape(-1, 2, 3)
        for head in range(2):
            scores = np.exp(query[:, head] @ key[:, head].T)
            wanted = mask[place, head] * (scores / scores.sum(axis=1, keepdims=True)) @ value[:, head]
            np.testing.assert_allclose(context[place, :, head], wanted, rtol=1e-5, atol=1e-6)
    plain = np.reshape(context, (3, -1)) @ np.asarray(layer._output_layer.kernel)
    centred = plain - plain.mean(axis=1, keepdims=True)
    normed = centred / np.sqrt(plain.var(axis=1, keepdims=True) + layer._norm.epsilon)
    np.testing.assert_allclose(output, normed, rtol=1e-4, atol=1e-5)


def make_model(weights=None):
    inputs = [
        keras.Input(batch_shape=(3, size), dtype=kind)
        for size, kind in ((4, "float32"), (1, "int32"), (5, "float32"), (1, "int32"))
    ]
    output, _ = EffectiveTransformer(6, 3, num_attention_heads=2, attention_head_size=3)(inputs)
    model = keras.Model(inputs, output)
    model.compile(keras.optimizers.SGD(0.01), "mse")
    if weights is not None:
        model.set_weights(weights)
    return model


def test_it_trains_in_a_model_on_an_ipu_as_in_stock_keras():
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()
    data = [make_sequences(FROM, 4), FROM, make_sequences(TO, 5), TO]
    wanted = RANDOM.normal(size=(3, 6)).astype(np.float32)
    stock = make_model()
    start = stock.get_weights()
    expected = stock.fit(data, wanted, batch_size=3, epochs=4, shuffle=False, verbose=0).history["loss"]
    with ipu.ipu_strategy.IPUStrategy().scope():
        model = make_model(start)
        losses = model.fit(data, wanted, batch_size=3, epochs=4, shuffle=False, verbose=0).history["loss"]
    assert losses[-1] != losses[0]
    np.testing.assert_allclose(losses, expected, rtol=1e-4)
    for name, before, mine, theirs in zip(
        [weight.path for weight in model.weights], start, model.get_weights(), stock.get_weights(), strict=True
    ):
        np.testing.assert_allclose(mine, theirs, rtol=1e-3, atol=1e-5, err_msg=name)
        assert not np.array_equal(mine, before), name


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({0: np.zeros((3, 4, 1), np.float32)}, "must be equal rank"),
        ({0: np.zeros((4, 4), np.float32), 1: np.ones((4, 1), np.int32)}, "an equal number of sequences"),
        ({1: np.ones((4, 1), np.int32), 3: np.ones((4, 1), np.int32)}, "lengths equal to the number of sequences"),
        ({2: np.zeros((3, 5), np.int32)}, "must be equal types"),
        ({4: np.ones((3, 2), bool)}, "q_mask must have shape"),
    ],
)
def test_inputs_that_do_not_belong_together_are_refused(change, message):
    inputs = {0: make_sequences(FROM, 4), 1: FROM, 2: make_sequences(TO, 5), 3: TO, **change}
    with pytest.raises(ValueError, match=message):
        EffectiveTransformer(6, 3)(list(inputs.values()))


def test_more_sequences_a_turn_than_there_is_room_for_are_refused():
    with pytest.raises(ValueError, match="max_batch_size must be greater than sequences_per_iter"):
        EffectiveTransformer(6, 3, sequences_per_iter=4)


def test_it_comes_back_from_its_configuration():
    config = EffectiveTransformer(6, 3, qkv_activation="relu", output_dropout_prob=0.1).get_config()
    assert EffectiveTransformer.from_config(config).get_config() == config
