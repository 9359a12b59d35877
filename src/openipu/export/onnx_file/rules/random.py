"""Ops that draw random numbers. ONNX names distributions, not streams: values differ from run to run.

In: sites. Out: ONNX's random ops, of known shapes.
"""

from __future__ import annotations

from openipu.export.onnx_file.site import Rules, Site
from openipu.export.onnx_file.writer import Value, code_of


def _uniform(site: Site, low: float = 0.0, high: float = 1.0) -> Value:
    return site.emit("RandomUniformLike", site.fill(0), low=low, high=high)


def _normal(site: Site, mean: float = 0.0, scale: float = 1.0) -> Value:
    return site.emit("RandomNormalLike", site.fill(0), mean=mean, scale=scale)


def _bernoulli(site: Site) -> Value:
    below = site.like("Less", _uniform(site), site.number(site.p, site.dtype))
    return _as_number(site, below)


def _bernoulli_tensor(site: Site) -> Value:
    return _as_number(site, site.like("Less", _uniform(site), site.cast(site.source, site.dtype)))


def _as_number(site: Site, truth: Value) -> Value:
    return site.make("Cast", [truth], site.shape, site.dtype, to=code_of(site.dtype))


RULES: Rules = {
    "aten.bernoulli.p": _bernoulli,
    "aten.bernoulli.default": _bernoulli_tensor,
    "aten.rand": _uniform,
    "aten.rand_like": _uniform,
    "aten.randn": _normal,
    "aten.randn_like": _normal,
    "aten.uniform": lambda site: _uniform(site, float(site.arguments["from"]), float(site.to)),
    "aten.normal_functional": lambda site: _normal(site, float(site.mean), float(site.std)),
}
