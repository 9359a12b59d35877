"""TensorLists: what loops collect. They exist while a graph is written out, and not in the program."""

from __future__ import annotations

from typing import Any

import torch

from openipu.capture import is_on_ipu, lift, on_host
from openipu.translate.rules import Results, rule
from openipu.translate.site import Site

Tensor = torch.Tensor


class TensorList:
    """Tensors by index. It stands among the values of a graph, so it answers what is asked of those."""

    is_meta = True  # never folded
    requires_grad = False
    shape = torch.Size([])

    def __init__(self, items: list[Tensor | None], dtype: torch.dtype, sizes: list[int] | None) -> None:
        self.items = items
        self.dtype = dtype
        self.sizes = sizes  # of an element, where they are known

    def replace(self, items: list[Tensor | None]) -> TensorList:
        return TensorList(items, self.dtype, self.sizes)

    def read(self, site: Site, place: int) -> Tensor:
        if not 0 <= place < len(self.items):
            site.fail(f"reads element {place} of a list of {len(self.items)}")
        found = self.items[place]
        return self._make_zeros(site) if found is None else found

    def _make_zeros(self, site: Site) -> Tensor:
        sizes = self.sizes
        if sizes is None or any(size < 0 for size in sizes):
            known = next((item for item in self.items if item is not None), None)
            if known is None:
                site.fail("reads an element that was never written, of unknown shape")
            sizes = list(known.shape)
        with on_host():
            return torch.zeros(sizes, dtype=self.dtype)

    def stack(self, site: Site, sizes: list[int] | None) -> Tensor:
        if self.sizes is None or any(size < 0 for size in self.sizes):
            self.sizes = sizes if sizes and all(size >= 0 for size in sizes) else self.sizes
        if not self.items:
            if self.sizes is None:
                site.fail("stacks a list without elements, of unknown shape")
            with on_host():
                return torch.zeros([0, *self.sizes], dtype=self.dtype)
        return _join([self.read(site, place) for place in range(len(self.items))])


def _join(values: list[Tensor]) -> Tensor:
    if any(is_on_ipu(value) for value in values):
        return torch.stack([lift(value) for value in values])
    with on_host():
        return torch.stack(values)


def _list(site: Site, place: int = 0) -> TensorList:
    found: Any = site.inputs[place]
    if not isinstance(found, TensorList):
        site.fail("needs a list of tensors that this graph itself has made")
    return found


def _whole(site: Site, place: int, what: str) -> int:
    return site.numbers(place, what)[0]


def _read_sizes(site: Site, place: int) -> list[int] | None:
    found = site.find_value(place)
    if found is None or found.dim() == 0:
        return None
    return [int(size) for size in found.tolist()]


def _results(*values: Any) -> Results:
    return list(values)


@rule("ZerosLike")
def zeros_like(site: Site) -> Results:
    held: Any = site.inputs[0]
    if not isinstance(held, TensorList):
        return torch.zeros_like(site.input(0))
    with on_host():
        items = [None if item is None else torch.zeros(item.shape, dtype=item.dtype) for item in held.items]
    return _results(held.replace(items))


@rule("AddN", "AccumulateNV2")
def add_all(site: Site) -> Results:
    first: Any = site.inputs[0]
    if not isinstance(first, TensorList):
        total = site.input(0)
        for place in range(1, site.count):
            total = total + site.input(place)
        return total
    lists = [_list(site, place) for place in range(site.count)]
    return _results(
        lists[0].replace([_add([held.items[place] for held in lists]) for place in range(len(lists[0].items))])
    )


def _add(values: list[Tensor | None]) -> Tensor | None:
    """The sum of elements of several lists; one that was never written counts as zeros."""
    present = [value for value in values if value is not None]
    if not present:
        return None
    mixed = any(is_on_ipu(value) for value in present)
    total = lift(present[0]) if mixed else present[0]
    for value in present[1:]:
        total = total + (lift(value) if mixed else value)
    return total


@rule("TensorListReserve")
def reserve(site: Site) -> Results:
    count = _whole(site, 1, "number of elements")
    site.check_steps(count)
    return _results(TensorList([None] * count, site.get("element_dtype"), _read_sizes(site, 0)))


@rule("EmptyTensorList")
def make_empty(site: Site) -> Results:
    return _results(TensorList([], site.get("element_dtype"), _read_sizes(site, 0)))


@rule("TensorListFromTensor")
def unstack(site: Site) -> Results:
    value = site.inputs[0]
    assert value is not None
    site.check_steps(value.shape[0])
    return _results(TensorList(list(value.unbind(0)), value.dtype, list(value.shape[1:])))


@rule("TensorListStack")
def stack(site: Site) -> Results:
    return _results(_list(site).stack(site, _read_sizes(site, 1)))


@rule("TensorListGetItem")
def get_item(site: Site) -> Results:
    held = _list(site)
    if held.sizes is None:
        held.sizes = _read_sizes(site, 2)
    return _results(held.read(site, _whole(site, 1, "index")))


@rule("TensorListSetItem")
def set_item(site: Site) -> Results:
    held, place = _list(site), _whole(site, 1, "index")
    items = list(held.items)
    if place >= len(items) and site.get("resize_if_index_out_of_bounds", False):
        items += [None] * (place + 1 - len(items))
    if not 0 <= place < len(items):
        site.fail(f"writes element {place} of a list of {len(items)}")
    items[place] = site.inputs[2]
    return _results(held.replace(items))


@rule("TensorListPushBack")
def push(site: Site) -> Results:
    held = _list(site)
    return _results(held.replace([*held.items, site.inputs[1]]))


@rule("TensorListPopBack")
def pop(site: Site) -> Results:
    held = _list(site)
    if held.sizes is None:
        held.sizes = _read_sizes(site, 1)
    return _results(held.replace(held.items[:-1]), held.read(site, len(held.items) - 1))


@rule("TensorListLength")
def length(site: Site) -> Results:
    with on_host():
        return _results(torch.tensor(len(_list(site).items), dtype=torch.int32))


@rule("TensorListElementShape")
def element_shape(site: Site) -> Results:
    held = _list(site)
    known = next((item for item in held.items if item is not None), None)
    sizes = list(known.shape) if known is not None else held.sizes
    with on_host():
        return _results(torch.tensor(-1 if sizes is None else sizes, dtype=site.get("shape_type", torch.int32)))


@rule("TensorListResize")
def resize(site: Site) -> Results:
    held, count = _list(site), _whole(site, 1, "number of elements")
    site.check_steps(count)
    return _results(held.replace([*held.items[:count], *([None] * (count - len(held.items)))]))


@rule("TensorListGather")
def gather(site: Site) -> Results:
    held = _list(site)
    return _results(_join([held.read(site, place) for place in site.numbers(1, "indices")]))


@rule("TensorListConcatV2", "TensorListConcat")
def concatenate(site: Site) -> Results:
    held = _list(site)
    values = [held.read(site, place) for place in range(len(held.items))]
    mixed = any(is_on_ipu(value) for value in values)
    sizes = [value.shape[0] for value in values]
    joined = torch.cat([lift(value) if mixed else value for value in values])
    with on_host():
        return _results(joined, torch.tensor(sizes, dtype=torch.int64))
