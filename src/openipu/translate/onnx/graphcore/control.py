"""Calls of graphs, assignments, prints, aborts, collectives, decoding: what is more than arithmetic."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import torch

from openipu.capture import call_in_graph, is_capturing
from openipu.errors import AbortError
from openipu.graph import FunctionCall
from openipu.host.beam_search import search_beams
from openipu.host.tensor_text import FloatFormat, TextStyle, format_tensor
from openipu.translate.foreign import ForeignGraph
from openipu.translate.onnx.graphcore.domain import DOMAIN
from openipu.translate.rules import Results, rule
from openipu.translate.site import Site

_GRADIENT = "Gradient___"
_ON_ITS_OWN = 8  # the collective operator that leaves each replica alone


@rule("Call", domain=DOMAIN)
def call(site: Site) -> Results:
    body = site.get("callee")
    if not isinstance(body, ForeignGraph):
        site.fail("has no graph as its callee")
    if site.count != len(body.inputs):
        site.fail(f"has {site.count} inputs, and the graph {body.name!r} that it calls has {len(body.inputs)}")
    return site.run_body(body, [site.input(place) for place in range(site.count)])


@rule("CopyVarUpdate", domain=DOMAIN, folds=False, writes=(0,))
def assign(site: Site) -> torch.Tensor:
    value = site.input(1).expand(site.input(0).shape)
    if not site.write(0, value):
        site.fail(f"assigns to {site.node.inputs[0]!r}, which is not an initializer of the graph")
    return value


@rule("PrintTensor", domain=DOMAIN, folds=False)
def print_tensor(site: Site) -> Results:
    x, title = site.input(0), site.get("title", "")
    style = TextStyle(
        summarise_threshold=site.get("summariseThreshold", 1000),
        edge_items=site.get("edgeItems", 3),
        max_line_width=site.get("maxLineWidth", 75),
        digits=site.get("digits", 8),
        float_format=list(FloatFormat)[site.get("floatFormat", 0)],
        separator=chr(site.get("separator", ord(" "))),
        open_bracket=chr(site.get("openBracket", ord("["))),
        close_bracket=chr(site.get("closeBracket", ord("]"))),
    )
    shown = title or site.node.inputs[0]
    later = f"{title}_gradient" if title else _GRADIENT + site.node.inputs[0]

    def differentiate(inputs: Sequence[torch.Tensor], gradients: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
        return _print(later, style, gradients[0]) if site.get("print_gradient", 1) else list(gradients)

    if not is_capturing():
        return _write(shown, style, x)
    call = _make_print(shown, style)
    return call_in_graph(call, [x], [x], differentiate if x.requires_grad else None)


def _print(title: str, style: TextStyle, x: torch.Tensor) -> Sequence[torch.Tensor]:
    return call_in_graph(_make_print(title, style), [x], [x])


def _make_print(title: str, style: TextStyle) -> FunctionCall:
    return FunctionCall("print_tensor", lambda x: _write(title, style, x), {"title": title}, acts=True)


def _write(title: str, style: TextStyle, x: torch.Tensor) -> list[torch.Tensor]:
    sys.stderr.write(format_tensor(x, style, title) + "\n")
    sys.stderr.flush()
    return [x.clone()]


@rule("Abort", domain=DOMAIN, folds=False)
def abort(site: Site) -> Results:
    """End the run; with an input only if that is true."""
    inputs = [site.input(0)] if site.has(0) else [torch.ones((), dtype=torch.bool)]
    if inputs[0].numel() != 1:
        site.fail(f"asks a tensor of {inputs[0].numel()} elements whether to end the run: it takes one")
    title = site.node.title

    def end(condition: torch.Tensor) -> list[torch.Tensor]:
        if bool(condition.reshape(())):
            raise AbortError(f"The program ended itself at {title}.")
        return [torch.zeros((), dtype=torch.bool)]

    if not is_capturing():
        return end(inputs[0])
    call = FunctionCall("abort", end, {"node": title}, acts=True)
    return call_in_graph(call, inputs, [torch.empty((), dtype=torch.bool, device="meta")])


@rule("ReplicatedAllReduce", domain=DOMAIN)
def reduce_over_replicas(site: Site) -> torch.Tensor:
    _need_one_replica(site)
    return site.input(0)


@rule("ReplicatedReduceScatter", domain=DOMAIN)
def share_over_replicas(site: Site) -> torch.Tensor:
    """Each replica keeps an equal share of the flat tensor: with one, all of it."""
    _need_one_replica(site)
    return site.input(0).reshape(-1)


def _need_one_replica(site: Site) -> None:
    if site.replicas > 1 and site.get("__collectiveOperator", 0) != _ON_ITS_OWN:
        site.fail(
            f"exchanges data between {site.replicas} replicas while they run. Replicas run one after the other here, "
            "so that only gradients and results can be reduced over them: use one replica, or leave the reduction to "
            "the optimizer and to the options of the session"
        )


@rule("CtcBeamSearchDecoder", domain=DOMAIN, folds=False)
def decode(site: Site) -> Results:
    """The likeliest label sequences: logarithms of their probabilities, lengths and labels."""
    logarithms, lengths = site.input(0), site.input(1)
    blank, width, paths = site.get("blank", 0), site.get("beam_width", 100), site.get("top_paths", 1)
    if logarithms.dim() != 3 or list(lengths.shape) != [logarithms.shape[1]]:
        site.fail("needs logarithms of probabilities [time, batch, classes] and one length for each of the batch")
    steps, samples, classes = logarithms.shape
    if not 0 <= blank < classes or not 1 <= paths <= width:
        site.fail(f"has blank={blank}, beam_width={width} and top_paths={paths}, which do not fit {classes} classes")

    def search(values: torch.Tensor, sizes: torch.Tensor) -> list[torch.Tensor]:
        scores, counts, labels = search_beams(values, sizes, blank, width, paths)
        return [scores.to(values.dtype), counts.to(torch.uint32), labels.to(torch.uint32)]

    if not is_capturing():
        return search(logarithms, lengths)
    results = [
        torch.empty((samples, paths), dtype=logarithms.dtype, device="meta"),
        torch.empty((samples, paths), dtype=torch.uint32, device="meta"),
        torch.empty((samples, paths, steps), dtype=torch.uint32, device="meta"),
    ]
    return call_in_graph(FunctionCall("ctc_beam_search_decoder", search), [logarithms, lengths], results)
