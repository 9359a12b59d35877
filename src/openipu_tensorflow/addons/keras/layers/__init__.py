"""`ipu_tensorflow_addons.keras.layers`: layers of Keras under the names and with the arguments of the original."""

from openipu_tensorflow.addons.keras.layers.assume_equal_across_replicas import AssumeEqualAcrossReplicas
from openipu_tensorflow.addons.keras.layers.ctc import CTCInferenceLayer, CTCLoss, CTCPredictionsLayer
from openipu_tensorflow.addons.keras.layers.dense import Dense, SerialDense
from openipu_tensorflow.addons.keras.layers.dropout import Dropout
from openipu_tensorflow.addons.keras.layers.effective_transformer import EffectiveTransformer
from openipu_tensorflow.addons.keras.layers.embedding_lookup import Embedding
from openipu_tensorflow.addons.keras.layers.f8_convert import ConvertFromF8, ConvertToF8
from openipu_tensorflow.addons.keras.layers.normalization import (
    GroupNorm,
    GroupNormalization,
    InstanceNorm,
    InstanceNormalization,
    LayerNorm,
    LayerNormalization,
)
from openipu_tensorflow.addons.keras.layers.recomputation import RecomputationCheckpoint
from openipu_tensorflow.addons.keras.layers.rnn import GRU, LSTM, PopnnGRU, PopnnLSTM

__all__ = [
    "GRU",
    "LSTM",
    "AssumeEqualAcrossReplicas",
    "CTCInferenceLayer",
    "CTCLoss",
    "CTCPredictionsLayer",
    "ConvertFromF8",
    "ConvertToF8",
    "Dense",
    "Dropout",
    "EffectiveTransformer",
    "Embedding",
    "GroupNorm",
    "GroupNormalization",
    "InstanceNorm",
    "InstanceNormalization",
    "LayerNorm",
    "LayerNormalization",
    "PopnnGRU",
    "PopnnLSTM",
    "RecomputationCheckpoint",
    "SerialDense",
]
