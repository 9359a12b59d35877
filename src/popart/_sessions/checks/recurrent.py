"""What PopART refuses of recurrent layers.

In: a node and its inputs. Out: nothing, or popart_exception.
"""

from __future__ import annotations

from openipu.translate import Site
from popart._exceptions import popart_exception

_KNOWN = ("sigmoid", "tanh", "relu")


def check_activations(site: Site) -> None:
    """Poplar's layers have three activations."""
    for one in site.node.attributes.get("activations") or ():
        if str(one).lower() not in _KNOWN:
            raise popart_exception(
                f"{site.node.title}: activation {one} is not supported. Choose one of Sigmoid, Tanh and Relu."
            )


def check_plain(site: Site) -> None:
    """A plain recurrent layer runs forward, with one activation."""
    attributes, what = site.node.attributes, site.node.title
    for name in ("activation_alpha", "activation_beta"):
        if attributes.get(name):
            raise popart_exception(f"{what}: the attribute {name} is not supported.")
    if "clip" in attributes:
        raise popart_exception(f"{what}: the attribute clip is not supported.")
    direction = str(attributes.get("direction", "forward"))
    if direction != "forward":
        raise popart_exception(f"{what}: direction is {direction}, and RNN only supports forward.")
    activations = attributes.get("activations", ("Tanh",))
    if len(activations) != 1:
        raise popart_exception(f"{what} has {len(activations)} activations, and RNN only supports 1 activation.")
    check_activations(site)
    hidden, weights = attributes.get("hidden_size"), site.inputs[2] if site.has(2) else None
    if hidden is not None and weights is not None and int(hidden) != weights.shape[-1]:
        raise popart_exception(f"{what}: hidden_size {hidden} does not match that of its weights, {weights.shape[-1]}.")
