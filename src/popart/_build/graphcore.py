"""The methods of `builder.aiGraphcore`: a table of facts, one line each.

In: nothing. Out: an `OpMethod` for each op of Graphcore's own domain. A line reads: method, op, number of outputs ("1",
"2": a list of two, "n": asked for by num_outputs, "-": none), then parameters in order, with defaults. A parameter's
kind stands behind a colon: i whole number, f number, b truth value, s text, I F S lists of them, g a builder of a
graph, ? may be None (and is then not written). `args` says how many inputs there may be.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Mapping
from typing import Any

from popart._build.signatures import OpMethod
from popart._enumerations.tensors import TensorRemapType
from popart._enumerations.training import ReductionType, ScatterReduction

DOMAIN = "ai.graphcore"
_KINDS = {
    **{"i": "INT", "f": "FLOAT", "b": "INT", "s": "STRING", "I": "INTS", "F": "FLOATS", "S": "STRINGS"},
    **{"g": "GRAPH", "c": "CHARACTER", "r": "REDUCTION", "x": "OTHER"},
}
_TYPES = {"i": int, "f": float, "b": bool, "s": str, "I": list, "F": list, "S": list, "c": str}
_NAMES: dict[str, Any] = {
    "Mean": ReductionType.Mean,
    "Sum": ScatterReduction.Sum,
    "Reverse": int(TensorRemapType.FwdBwdReverse),
}

_TABLE = """
abort                  Abort                  -  args=[]:0-1
atan2                  Atan2                  1  args:2-2
batchnormalization     BatchNormalization     n  args:5-5 epsilon=1e-05:f momentum=0.9:f
bitwiseand             BitwiseAnd             1  args:2-2
bitwisenot             BitwiseNot             1  args:1-1
bitwiseor              BitwiseOr              1  args:2-2
bitwisexnor            BitwiseXnor            1  args:2-2
bitwisexor             BitwiseXor             1  args:2-2
bucketize              Bucketize              1  args:2-2 right=0:i
call                   Call                   n  args:0- callee:g
copyvarupdate          CopyVarUpdate          1  args:2-2
ctcbeamsearchdecoder   CtcBeamSearchDecoder   3  args:2-2 blank=0:i beam_width=100:i top_paths=1:i
ctcloss                Ctc                    2  args:4-4 reduction=Mean:r blank=0:i outDataType='UNDEFINED':s zeroInfinity=False:b
depthtospace           DepthToSpace           1  args:1-1 blocksize:i mode:s
detach                 Detach                 1  args:1-1
dynamicadd             DynamicAdd             1  args:3-3 axes:I sizes:I
dynamicslice           DynamicSlice           1  args:2-3 axes:I sizes:I noOverlap=0:i
dynamicupdate          DynamicUpdate          1  args:3-3 axes:I sizes:I noOverlap=0:i
dynamiczero            DynamicZero            1  args:2-2 axes:I sizes:I
expm1                  Expm1                  1  args:1-1
fmod                   Fmod                   1  args:2-2
gelu                   Gelu                   1  args:1-1
geluerf                GeluErf                1  args:1-1
groupedgather          GroupedGather          1  args:2-2 axis=0:i group_size=1:i
groupedscatterreduce   ScatterReduce          1  args:2-3 axis_size:i axis=-1:i reduction=Sum:r group_size=1:i enable_index_broadcast=1:i
groupnormalization     GroupNormalization     3  args:3-3 num_groups:i epsilon=1e-05:f
identityloss           IdentityLoss           1  args:1-1 reduction=Mean:r
incrementmod           IncrementMod           1  args:1-1 increment:f modulus:f
init                   Init                   1  shape:I data_type:i init_type:i batch_axis=-1:i
l1loss                 L1                     1  args:1-1 lambda_:f reduction=Mean:r
log1p                  Log1p                  1  args:1-1
lstm                   LSTM                   2  args:2-5 outputFullSequence=1:i
multiconv              MultiConv              n  args:0- dilations=[]:x inDilations=[]:x pads=[]:x outPads=[]:x strides=[]:x availableMemoryProportions=[]:F partialsTypes=[]:S planType=None:s? perConvReservedTiles=None:i? cycleBackOff=None:f? enableConvDithering=[]:I
nearbyint              NearbyInt              1  args:1-1
nllloss                Nll                    1  args:2-2 reduction=Mean:r ignoreIndex=None:i? inputIsLogProbability=False:b
nop                    Nop                    1  args:1-1
normalize_image        NormalizeImage         1  args:3-3 scale=1.0:f
packedDataBlock        PackedDataBlock        1  args:0- maxSequenceLengths:I resultSize:i callbackBatchSize:i callback:g
printtensor            PrintTensor            1  args:1-1 print_gradient=1:i debugContext='':x title='':s summariseThreshold=1000:i edgeItems=3:i maxLineWidth=75:i digits=8:i floatFormat=0:i separator=' ':c openBracket='[':c closeBracket=']':c
reducemedian           ReduceMedian           2  args:1-1 axes=None:I? keepdims=1:i
remainder              Remainder              1  args:2-2
replicatedallreduce    ReplicatedAllReduce    1  args:1-1 collectiveOperator=None:x commGroup=None:x
replicatedreducescatter ReplicatedReduceScatter 1 args:1-1 collectiveOperator=None:x commGroup=None:x
reshape                Reshape                1  args:1-1 shape:I
reverse                Reverse                1  args:1-1 dimensions:I
round                  Round                  1  args:1-1
scale                  Scale                  1  args:1-1 scale:f
scaledadd              ScaledAdd              1  args:2-4 scale0=1.0:f scale1=1.0:f
scatterreduce          ScatterReduce          1  args:2-3 axis_size:i axis=-1:i reduction=Sum:r enable_index_broadcast=1:i
sequenceslice          SequenceSlice          1  args:5-5 zeroUnused=0:i
shapeddropout          ShapedDropout          1  args:1-1 shape:I ratio=0.5:f
slice                  Slice                  1  args:1-1 ends:I starts:I axes=[]:I
sort                   Sort                   2  args:1-1 axis=-1:i descending=0:i stable=0:i
splinebasis            SplineBasis            2  args:3-3 degree:i
splineweighting        SplineWeighting        1  args:4-4
subsample              Subsample              1  args:1-1 strides:I
swish                  Swish                  1  args:1-1
tensorremap            TensorRemap            1  args:1-1 remap_type=Reverse:i
"""
_OTHER_DEBUG_NAMES = {"ctcbeamsearchdecoder": "debug_context", "tensorremap": "debugPrefix"}
FIRST_ONLY = frozenset({"ctcloss"})  # has a second output, for its gradient, and returns the first alone
COUNTED_BY_INPUTS = frozenset({"multiconv"})  # one output for each convolution, though nobody asks for a number


def _read_line(line: str) -> OpMethod:
    name, op, outputs, *fields = _split_quoted(line)
    parameters: list[inspect.Parameter] = []
    attributes: dict[str, str] = {}
    least, most, has_args, debug = 0, 0, False, _OTHER_DEBUG_NAMES.get(name, "debugContext")
    for field in fields:
        stem, _, kind = field.rpartition(":")
        parameter, _, text = stem.partition("=")
        default = inspect.Parameter.empty if not text else _NAMES.get(text, None)
        if text and text not in _NAMES:
            default = ast.literal_eval(text)
        if parameter == "args":
            low, _, high = kind.partition("-")
            least, most, has_args = int(low), int(high) if high else -1, True
            parameters.append(_make("args", default, list))
            if outputs == "n" and name not in COUNTED_BY_INPUTS:
                parameters.append(_make("num_outputs", inspect.Parameter.empty, int))
            continue
        parameters.append(_make(parameter, default, _TYPES.get(kind.rstrip("?"))))
        if parameter != debug:
            attributes[parameter] = _KINDS[kind.rstrip("?")]
    if debug not in [parameter.name for parameter in parameters]:
        parameters.append(_make(debug, "", str))
    several = outputs not in ("1", "-") and name not in FIRST_ONLY
    return OpMethod(
        name=name,
        op=op,
        domain=DOMAIN,
        version=1,
        attributes=attributes,
        least_inputs=least,
        most_inputs=None if most < 0 else most,
        has_args=has_args,
        outputs=None if outputs == "n" else int(outputs.replace("-", "0")),
        most_outputs=None,
        several=several,
        signature=inspect.Signature(parameters, return_annotation=list[str] if several else str),
        doc=f"Add {op} of Graphcore's own operators, and return the names of its outputs.",
    )


def _split_quoted(line: str) -> list[str]:
    """Like `split`, with blanks inside quotation marks kept."""
    parts, inside, current = [], False, ""
    for letter in line:
        inside ^= letter == "'"
        if letter == " " and not inside:
            parts += [current] if current else []
            current = ""
        else:
            current += letter
    return [*parts, current]


def _make(name: str, default: Any, kind: type | None) -> inspect.Parameter:
    annotation = inspect.Parameter.empty if kind is None else kind
    return inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default, annotation=annotation)


METHODS: Mapping[str, OpMethod] = {
    method.name: method for method in (_read_line(line) for line in _TABLE.strip().splitlines())
}
