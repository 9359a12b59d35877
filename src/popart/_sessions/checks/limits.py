"""What PopART refuses of single ops, beyond what ONNX says of them.

In: a node and its inputs, on the way to its rule. Out: nothing, or popart_exception in PopART's own words, so that a
program which would fail on an IPU fails here, and for the reason it would have there. `PopartTable` puts these checks
before the rules of translation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import onnx
import torch

from openipu.capture import is_on_ipu
from openipu.translate import ForeignNode, Results, Rule, Site, Table, collect
from openipu.translate.onnx import DOMAIN, FAMILIES, GRAPHCORE
from popart._build.contexts import SERIALISE_FACTOR, SERIALISE_MODE
from popart._exceptions import popart_exception
from popart._formats import BY_TORCH
from popart._sessions.checks import recurrent

Check = Callable[[Site], None]
_BROADCAST = ("Add", "Sub", "Mul", "Div", "Pow", "And", "Or", "Greater", "Less", "Equal")
_MIXED = ("Add", "Sub", "Mul", "Div")


class PopartTable(Table):
    """The rules of ONNX and of PopART's own ops, each behind what PopART refuses."""

    def __init__(self) -> None:
        super().__init__(collect(*FAMILIES, *GRAPHCORE))

    def need(self, node: ForeignNode, file: str) -> Rule:
        found = super().need(node, file)
        checks = CHECKS.get((node.domain, node.op), ())
        mixed = not node.domain and node.op in _MIXED
        if not checks and not mixed:
            return found

        def run(site: Site) -> Results:
            for check in checks:
                check(site)
            return found.handler(_narrow(site) if mixed else site)

        return replace(found, handler=run)


def _narrow(site: Site) -> Site:
    """A half tensor and a single float number make half numbers, as Poplar's operations do."""
    first, second = site.inputs[0], site.inputs[1]
    if first is None or second is None or {first.dtype, second.dtype} != {torch.float16, torch.float32}:
        return site
    wide = first if first.dtype is torch.float32 else second
    if wide.numel() != 1:
        return site
    return replace(site, inputs=tuple(None if one is None else one.to(torch.float16) for one in site.inputs))


def show(sizes: Sequence[int]) -> str:
    """A shape as PopART writes it."""
    return f"[{' '.join(map(str, sizes))}]"


def _identify(node: ForeignNode) -> str:
    domain = node.domain or "ai.onnx"
    version = node.version
    if not node.domain:
        version = onnx.defs.get_schema(node.op, version, "").since_version
    return f"{domain}.{node.op}:{version}"


def _name(node: ForeignNode) -> str:
    return f"Op({_identify(node)}, inputs=[{', '.join(node.inputs)}], outputs=[{', '.join(node.outputs)}])"


def _format(value: torch.Tensor) -> str:
    return BY_TORCH[value.dtype].name


def _shape(site: Site, place: int) -> list[int]:
    value = site.inputs[place] if place < len(site.inputs) else None
    return [] if value is None else list(value.shape)


def _check_product(site: Site) -> None:
    sides = ("lhs", "rhs")
    for place, side in enumerate(sides):
        if site.has(place) and not _shape(site, place):
            raise popart_exception(f"{_name(site.node)} doesn't support scalar tensor input as the {side} input")
    first, second = _shape(site, 0), _shape(site, 1)
    if first and second and first[-1] != second[-2 if len(second) > 1 else -1]:
        names = site.node.inputs
        raise popart_exception(
            f"{_name(site.node)} contracting dimensions unequal: lhs '{names[0]}' {show(first)}, rhs '{names[1]}' "
            f"{show(second)}"
        )


def _check_parts(site: Site) -> None:
    """A product that runs in parts has as many as its dimension can be cut into."""
    mode, factor = site.node.attributes.get(SERIALISE_MODE), int(site.node.attributes.get(SERIALISE_FACTOR, 0))
    first, second = _shape(site, 0), _shape(site, 1)
    sizes = {"input_channels": first[-2:-1], "reducing_dim": first[-1:], "output_channels": second[-1:]}.get(str(mode))
    if sizes and factor > 0 and sizes[0] % factor:
        words = str(mode).replace("_", " ")
        raise popart_exception(
            f"Invalid serialisation factor {factor} for {words} dim {sizes[0]}. {mode} dim should be a multiple of the "
            "serialisation factor"
        )


def _check_broadcast(site: Site) -> None:
    first, second = _shape(site, 0), _shape(site, 1)
    if any(one != other and 1 not in (one, other) for one, other in zip(first[::-1], second[::-1], strict=False)):
        if site.version < 7 and site.node.attributes.get("broadcast"):
            return
        raise popart_exception(
            f"np broadcasting failed on '{_name(site.node)}', frames {first} and {second} are not aligned"
        )
    one, other = site.inputs[0], site.inputs[1]
    halves = (torch.float16, torch.float32)
    if one is None or other is None or one.dtype is other.dtype or {one.dtype, other.dtype} != set(halves):
        return
    if (one if one.dtype is torch.float32 else other).numel() != 1:
        raise popart_exception(
            f"{_name(site.node)}: incompatible types {_format(one)} and {_format(other)} "
            f"(shapes {show(first)} and {show(second)})"
        )


def _check_ratio(site: Site) -> None:
    ratio = float(site.node.attributes.get("ratio", 0.5))
    if not 0 <= ratio < 1:
        raise popart_exception(
            f"{_name(site.node)}: ratio value {ratio:g} is not valid. Please use a value in the interval [0,1)"
        )


def _check_dropped_shape(site: Site) -> None:
    wanted = [int(size) for size in site.node.attributes.get("shape", ())]
    given = _shape(site, 0)
    fits = len(wanted) <= len(given)
    fits = fits and all(one in (1, size) for one, size in zip(wanted[::-1], given[::-1], strict=False))
    if not fits:
        raise popart_exception(
            f"ShapedDropout: incompatible input tensor and dropout shape. Input {show(given)}, dropout {show(wanted)}."
        )


def _check_expand(site: Site) -> None:
    value = site.find_value(1)
    if value is None:
        return
    wanted, given = [int(size) for size in value.flatten().tolist()], _shape(site, 0)
    if any(one != other and 1 not in (one, other) for one, other in zip(wanted[::-1], given[::-1], strict=False)):
        raise popart_exception(
            f"{_name(site.node)}: {show(given)} cannot be spread over {show(wanted)}, corresponding dimensions must "
            "have the same value or one of them must be 1"
        )


def _check_reshape(site: Site) -> None:
    value = site.find_value(1)
    if value is not None and int((value == -1).sum()) > 1:
        raise popart_exception(
            f"{_name(site.node)}: shape input to ReshapeOp can only use -1 to specify one unknown dimension"
        )


def _check_slice(site: Site) -> None:
    for place, word in enumerate(("starts", "ends", "axes", "steps"), start=1):
        if site.has(place) and site.find_value(place) is None:
            raise popart_exception(
                f"Need the value of the {_identify(site.node)} input '{word}' to determine the output shape, but was "
                "unable because [Tensor::getDataViaGraphTraversal] Could not work out tensor data for "
                f"{site.node.inputs[place]}."
            )


def _check_subsample(site: Site) -> None:
    for index, stride in enumerate(site.node.attributes.get("strides", ())):
        if int(stride) == 0:
            raise popart_exception(f"Strides invalid. 0 stride at index {index} of {_name(site.node)}")


def _check_mean(site: Site) -> None:
    kinds = {(value.dtype, tuple(value.shape)) for value in site.inputs if value is not None}
    if site.version < 8 and len(kinds) > 1:
        raise popart_exception(
            f"Inputs to {_identify(site.node)} do not all the same type & shape: operator set {site.version} does not "
            "broadcast them."
        )


def _check_tile(site: Site) -> None:
    if site.version < 6:
        return
    value = site.find_value(1)
    if value is None:
        raise popart_exception(f"{_name(site.node)}: its input 'repeats' must be of type Constant")
    repeats = [int(number) for number in value.flatten().tolist()]
    if len(repeats) != len(_shape(site, 0)):
        raise popart_exception(
            f"{_name(site.node)}: its input 'repeats' should have one element for each dimension of the data tensor"
        )
    if any(number < 0 for number in repeats):
        raise popart_exception(
            f"{_name(site.node)} has invalid 'repeats' {show(repeats)}. Values must be non-negative in each shape "
            "dimension"
        )


def _check_average(site: Site) -> None:
    if site.node.attributes.get("count_include_pad"):
        raise popart_exception(f"`count_include_pad` is not supported: {_name(site.node)}")


def _check_bounds(site: Site) -> None:
    """Bounds are known when the program is compiled: constants, or weights of the model."""
    known = _name_only(site.node)
    for place, word in ((1, "min"), (2, "max")):
        value = site.inputs[place] if site.has(place) else None
        if value is not None and is_on_ipu(value) and not isinstance(value, torch.nn.Parameter):
            raise popart_exception(
                f"Op {known}({_identify(site.node)}), inputs=[{site.node.inputs[0]}] currently only supports constant "
                f"min/max parameters. Input '{word}' ({site.node.inputs[place]}) has no data."
            )


def _name_only(node: ForeignNode) -> str:
    """The name that somebody gave a node; one without is known by its output."""
    return "" if node.name in node.outputs else node.name


def _check_dilations(site: Site) -> None:
    if any(int(size) != 1 for size in site.node.attributes.get("dilations") or ()):
        raise popart_exception(f"{_name(site.node)}: Dilations of value other than 1 are currently not supported.")


def _check_labels(site: Site) -> None:
    x, labels = site.inputs[0], site.inputs[1]
    if x is not None and labels is not None and list(labels.shape) != list(x.shape[:-1]):
        raise popart_exception(
            f"The label tensor ({_format(labels)}   {show(list(labels.shape))}) must have shape "
            f"{show(list(x.shape[:-1]))} to match all but the final dimension of the probabilities tensor "
            f"({_format(x)}   {show(list(x.shape))})"
        )


def _check_reverse(site: Site) -> None:
    rank = len(_shape(site, 0))
    dimensions = [int(one) for one in site.node.attributes.get("dimensions", ())]
    for one in dimensions:
        if one < 0:
            raise popart_exception(
                f"{_name(site.node)}: invalid dimension '{one}'. Only positive dimensions are supported"
            )
        if one >= rank:
            raise popart_exception(f"{_name(site.node)}: invalid dimension '{one}' for input tensor of rank {rank}")
        if dimensions.count(one) > 1:
            raise popart_exception(f"{_name(site.node)}: Dimension {one} appears multiple times")


def _check_permutation(site: Site) -> None:
    order, given = list(site.node.attributes.get("perm") or ()), _shape(site, 0)
    if order and len(order) != len(given):
        raise popart_exception(
            f"Rank of permutation tensor {show(order)}, rank {len(order)} must be equal to rank of input tensor, shape "
            f"{show(given)}, rank {len(given)}."
        )


def _check_resize(site: Site) -> None:
    scales, sizes = (site.inputs[place] if site.has(place) else None for place in (2, 3))
    if scales is not None and sizes is not None and scales.numel() and sizes.numel():
        raise popart_exception(
            "Resize op has inputs for `sizes` and `scales`. Only one of these tensors should be present. If `sizes` is "
            "needed, please pass an empty string as the name of `scales` in the input list ( resize([X, roi, '', "
            "sizes]) ). If the proto is not generated from the PopART Builder, please confirm that only one of the two "
            "tensors shall have data."
        )


def _check_scatter(site: Site) -> None:
    given, places = _shape(site, 0), _shape(site, 1)
    attributes = site.node.attributes
    axis, size = int(attributes.get("axis", -1)), attributes.get("axis_size")
    if int(attributes.get("group_size", 0)) > 1:
        return
    if not -len(given) <= axis < len(given):
        raise popart_exception(
            f"{_name(site.node)}: axis = {axis} is outside the acceptable range [{-len(given)}, {len(given) - 1}]"
        )
    if size is not None and int(size) < 1:
        raise popart_exception(f"{_name(site.node)}: axis_size = {size} is not valid: must be greater than zero")
    if not attributes.get("enable_index_broadcast", 1):
        return  # indices say by their own shape which part of the data they are for
    if len(places) not in (1, len(given)):
        raise popart_exception(f"{_name(site.node)}: Invalid rank for indices input. Got {len(places)}.")
    if len(places) == 1 or places == given:
        return
    others = [one for place, one in enumerate(places) if place != axis % len(given)]
    if any(one not in (1, other) for one, other in zip(places, given, strict=True)):
        raise popart_exception(
            f"{_name(site.node)}: Failed to expand 'indices' shape {show(places)} to that of the data {show(given)}"
        )
    if any(one != 1 for one in others):
        raise popart_exception(
            f"{_name(site.node)}: Partial broadcasting of indices is not currently supported ({show(places)} over "
            f"{show(given)})"
        )


def _check_batch_norm(site: Site) -> None:
    given = _shape(site, 0)
    if len(given) < 3 and site.training:
        raise popart_exception(f"batch norm requires a rank > 2, and {_name(site.node)} has an input of {show(given)}")
    if len(given) < 2:
        return
    wanted = given[1:] if site.version < 9 and not site.node.attributes.get("spatial", 1) else given[1:2]
    for place, word in enumerate(("scale", "B", "mean", "var"), start=1):
        if site.has(place) and _shape(site, place) != wanted:
            raise popart_exception(
                f"{_name(site.node)}: expected shape of input {word} to be {show(wanted)}, and it is "
                f"{show(_shape(site, place))}"
            )


CHECKS: Mapping[tuple[str, str], tuple[Check, ...]] = {
    **{("", op): (_check_broadcast,) for op in _BROADCAST},
    ("", "MatMul"): (_check_product, _check_parts),
    ("", "Dropout"): (_check_ratio,),
    (DOMAIN, "ShapedDropout"): (_check_ratio, _check_dropped_shape),
    ("", "Expand"): (_check_expand,),
    ("", "Reshape"): (_check_reshape,),
    ("", "Slice"): (_check_slice,),
    (DOMAIN, "Subsample"): (_check_subsample,),
    ("", "Mean"): (_check_mean,),
    ("", "Tile"): (_check_tile,),
    ("", "AveragePool"): (_check_average,),
    ("", "Clip"): (_check_bounds,),
    ("", "MaxPool"): (_check_dilations,),
    (DOMAIN, "Nll"): (_check_labels,),
    (DOMAIN, "Reverse"): (_check_reverse,),
    ("", "Transpose"): (_check_permutation,),
    ("", "Resize"): (_check_resize,),
    (DOMAIN, "ScatterReduce"): (_check_scatter,),
    ("", "BatchNormalization"): (_check_batch_norm,),
    ("", "RNN"): (recurrent.check_plain,),
    ("", "LSTM"): (recurrent.check_activations,),
    ("", "GRU"): (recurrent.check_activations,),
}
POPART_TABLE = PopartTable()
