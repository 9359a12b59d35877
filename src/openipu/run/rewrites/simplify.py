"""Passes that make a captured graph quick to execute, without changing a result.

In: a `Draft`, a private copy of a captured graph. Out: the same draft, smaller. `PASSES` lists them in order.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable
from typing import Any

import torch
from torch import fx

from openipu.graph import OutputKind
from openipu.run import thresholds
from openipu.run.drafts.aliasing import find_owner, find_viewed, is_pure
from openipu.run.drafts.control import build_bodies
from openipu.run.drafts.draft import Draft
from openipu.run.drafts.passes import Pass, apply_passes, by_rules
from openipu.run.drafts.random_numbers import sample_from_seed
from openipu.run.drafts.replacement import replace_value
from openipu.run.drafts.rules import Constant, Match, Rule, Value, Writer, op
from openipu.run.rewrites.half.widen_products import widen_half_products

aten = torch.ops.aten

_FILLED_LIKE = frozenset({aten.new_zeros.default, aten.new_ones.default, aten.new_full.default})
_COSTLY = frozenset(
    {
        *(aten.max_pool2d_with_indices.default, aten.max_pool3d_with_indices.default, aten.constant_pad_nd.default),
        *(aten.convolution.default, aten.mm.default, aten.addmm.default, aten.bmm.default),
        *(aten._softmax.default, aten._log_softmax.default, aten.native_layer_norm.default),
    }
)


def _take_operand(match: Match, writer: Writer) -> Any:
    return match["x"]


def _has_same_shape(match: Match) -> bool:
    shape = _read_shape(match.root)
    return shape is not None and shape == _read_shape(match["x"])


def _read_shape(node: fx.Node) -> tuple[int, ...] | None:
    value = node.meta.get("val")
    return tuple(value.shape) if isinstance(value, torch.Tensor) else None


_X = Value("x")
_VIEW = op((aten.view.default, aten._unsafe_view.default, aten.expand.default), _X, Constant("shape"))
NO_OPERATIONS = (
    Rule(
        "the same value", op((aten.detach.default, aten.alias.default, aten.lift_fresh_copy.default), _X), _take_operand
    ),
    Rule("the same shape", _VIEW, _take_operand, _has_same_shape),
    Rule(
        "transposed twice",
        op(aten.t.default, op(aten.t.default, _X, name="first")),
        _take_operand,
        shared=frozenset({"first"}),
    ),
)


def shorten_conversions(draft: Draft) -> None:
    """Name nothing but the format of a conversion: autograd names where and how a value lies as well, which no
    conversion changes here. Passes that look for conversions then find these, too."""
    for node in draft.graph.find_nodes(op="call_function", target=aten._to_copy.default):
        if node.kwargs.get("dtype") is not None:
            node.kwargs = {name: value for name, value in node.kwargs.items() if not _is_usual(name, value)}


def _is_usual(name: str, value: Any) -> bool:
    if name == "device":
        return value is None or torch.device(value).type == "cpu"
    usual: dict[str, tuple[Any, ...]] = {
        "layout": (None, torch.strided),
        "pin_memory": (None, False),
        "non_blocking": (False,),
    }
    return value in usual.get(name, ())


def fold_constants(draft: Draft) -> None:
    """Compute once what depends on constants alone."""
    values: dict[fx.Node, Any] = {
        node: draft.bound[node.name] for node in draft.graph.find_nodes(op="placeholder") if node.name in draft.bound
    }
    folded: list[fx.Node] = []
    with torch.no_grad():
        for node in draft.graph.nodes:
            if _is_filled(node):
                value = node.target(torch.empty(0, dtype=node.args[0].meta["val"].dtype), *node.args[1:], **node.kwargs)
            elif is_pure(node) and all(source in values for source in node.all_input_nodes):
                args, kwargs = fx.map_arg((node.args, node.kwargs), values.__getitem__)
                value = node.target(*args, **kwargs)
            else:
                continue
            if isinstance(value, torch.Tensor) and value.nbytes > thresholds.FOLDED_CONSTANT_BYTES:
                continue
            values[node] = value
            folded.append(node)
    for node in folded:
        if any(user not in values for user in node.users):
            placeholder = draft.add_placeholder(f"folded_{node.name}", values[node])
            placeholder.meta = dict(node.meta)
            replace_value(draft.graph, node, placeholder)


def _is_filled(node: fx.Node) -> bool:
    """A few equal numbers, made after the format of a tensor whose values are not read."""
    if node.target not in _FILLED_LIKE or node.kwargs.get("device") is not None or len(node.all_input_nodes) != 1:
        return False
    return bool(node.meta["val"].numel() <= thresholds.FILLED_CONSTANT_ELEMENTS)


def share_views(draft: Draft) -> None:
    """Make each view of a value once."""
    seen: dict[Any, fx.Node] = {}
    for node in list(draft.graph.nodes):
        if find_viewed(node) is None or not is_pure(node):
            continue
        key = (node.target, repr(node.args), repr(node.kwargs))
        if key in seen:
            replace_value(draft.graph, node, seen[key])
        else:
            seen[key] = node


def share_equal_values(draft: Draft, targets: Collection[Any] | None = None) -> None:
    """Compute each value once. For graphs that a compiler reads: here, a value that lives longer costs memory. With
    `targets`, of these operators alone."""
    seen: dict[Hashable, fx.Node] = {}
    for node in list(draft.graph.nodes):
        if not is_pure(node) or (targets is not None and node.target not in targets):
            continue
        key = (node.target, _freeze(node.args), _freeze(node.kwargs))
        if key in seen:
            replace_value(draft.graph, node, seen[key])
        else:
            seen[key] = node


def share_costly_values(draft: Draft) -> None:
    """Compute once what takes long: graphs with gradients of their own compute some of forward again."""
    share_equal_values(draft, _COSTLY)


def _freeze(value: Any) -> Hashable:
    if isinstance(value, list | tuple):
        return tuple(_freeze(item) for item in value)
    if isinstance(value, dict):
        return tuple((key, _freeze(item)) for key, item in value.items())
    if isinstance(value, float):
        return ("float", value.hex())  # -0.0 is not 0.0
    return (type(value).__name__, value) if isinstance(value, int | bool) else value


def remove_dead_code(draft: Draft) -> None:
    """Take out what no result needs."""
    for node in reversed(list(draft.graph.nodes)):
        # A random operator stays even when unused: eager PyTorch would have advanced the stream too.
        if not node.users and is_pure(node):
            draft.graph.erase_node(node)


def own_outputs(draft: Draft) -> None:
    """Copy results that lie in the memory of a placeholder, and what the user gets also where two results share memory.

    The copies are made at once, because weights may be written before the graph returns.
    """
    nodes = draft.results
    taken: set[fx.Node] = set()
    for index, entry in enumerate(draft.outputs):
        owner = find_owner(nodes[index])
        returned = entry.kind in (OutputKind.OUTPUT, OutputKind.INPUT)
        tapped = entry.kind is OutputKind.TAP  # and so other results need not give way to it
        if tapped or owner.op == "placeholder" or (returned and (owner in taken or _is_spread(nodes[index]))):
            position = nodes[index] if nodes[index].op != "placeholder" else find_last_placeholder(draft.graph)
            with draft.graph.inserting_after(position):
                clone = draft.graph.call_function(aten.clone.default, (nodes[index],))
            clone.meta = dict(nodes[index].meta)
            nodes[index] = clone
        elif returned:
            taken.add(owner)
    draft.replace_results(nodes, draft.outputs)


def find_last_placeholder(graph: fx.Graph) -> fx.Node:
    """The last placeholder: values of the graph's own may follow it."""
    found: fx.Node = [node for node in graph.nodes if node.op == "placeholder"][-1]
    return found


def _is_spread(node: fx.Node) -> bool:
    current: fx.Node | None = node
    while current is not None:
        if current.target is aten.expand.default:
            return True
        current = find_viewed(current)
    return False


# The order matters: what folding and sharing leave unused is removed last. Their setting is whether a draft is the body
# of a loop, which keeps the generator: it has no seed of its own for each pass.
PASSES: tuple[Pass[bool], ...] = (
    Pass(
        "remove no-operations",
        by_rules(NO_OPERATIONS),
        gains=("bert_inference", "tiny_training"),
    ),
    Pass("shorten conversions", lambda draft, body: shorten_conversions(draft), needed=True),
    Pass("sample from the seed", lambda draft, body: sample_from_seed(draft), lambda body: not body, needed=True),
    Pass("widen half products", lambda draft, body: widen_half_products(draft), needed=True),
    Pass(
        "fold constants",
        lambda draft, body: fold_constants(draft),
        gains=("gpt2_inference", "gptj_inference"),
    ),
    Pass(
        "share views",
        lambda draft, body: share_views(draft),
        gains=("tiny_bert_inference", "t5_inference"),
    ),
    Pass(
        "share costly values",
        lambda draft, body: share_costly_values(draft),
        gains=("keras_pool_training", "checkpoint_images_training"),
    ),
    Pass(
        "remove dead code",
        lambda draft, body: remove_dead_code(draft),
        gains=("gpt2_inference", "bert_exact_training"),
    ),
)


def simplify(draft: Draft, *, body: bool = False, without: Collection[str] = ()) -> None:
    """Run all passes in order, and generate the bodies of loops; `without` are passes to leave out."""
    simplify_graph(draft, body=body, without=without)

    def finish(inner: Draft) -> None:
        simplify(inner, body=True, without=without)
        own_outputs(inner)

    build_bodies(draft, finish)
    draft.graph.lint()


def simplify_graph(draft: Draft, *, body: bool = False, without: Collection[str] = ()) -> None:
    """Run the passes alone."""
    apply_passes(PASSES, draft, body, without)
