"""Every rule against `tf.raw_ops`, on the cases that are recorded for other environments as well."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import tensorflow as tf
from openipu.translate.interpret import Interpreter
from openipu.translate.tensorflow.table import TABLE
from openipu_tensorflow.graphs.formats import to_torch

sys.path.insert(0, str(Path(__file__).parents[1] / "translate"))
from record_tensorflow import list_arrays, read, trace
from tensorflow_cases import CASES, TITLES


@pytest.mark.parametrize("number", range(len(CASES)), ids=TITLES)
def test_a_rule_computes_what_tensorflow_does(number):
    case = CASES[number]
    function = trace(case)
    arrays = list_arrays(case)
    expected = [value.numpy() for value in function(*(tf.constant(array) for array in arrays))]
    graph = read(function, case)
    given = {name: to_torch(array) for name, array in zip(graph.inputs, arrays, strict=True)}
    found = Interpreter(TABLE).run(graph, given)
    for name, value in zip(graph.outputs, expected, strict=True):
        result = found[name]
        assert tuple(result.shape) == value.shape
        assert isinstance(result, torch.Tensor)
        np.testing.assert_allclose(result.numpy(), value, rtol=1e-5, atol=2e-5 if value.dtype.kind == "f" else 0)
