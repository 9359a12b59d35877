"""Convolutions with few channels, by a C++ kernel.

In: a draft of an inference program. Out: the `Geometry` of such convolutions; or, once there are kernels for them, a
rule that calls these. oneDNN computes sixteen channels at a time, so that 10 are as slow as 16. The kernel
(`kernels/cpp/direct_convolution.cpp`) computes eight neighbouring pixels at a time, whatever the number of channels,
and batch norm, largest values of 2 x 2 pixels and relu on the way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from operator import getitem
from typing import Any

import torch
from torch import fx

from openipu.graph import GraphInput
from openipu.run import thresholds
from openipu.run.drafts.draft import Draft
from openipu.run.drafts.rules import Match, Rule, Search, Writer, find_only_user, matched
from openipu.run.kernels import Kernel, KernelLibrary, OperandError, Run, address_of
from openipu.run.kernels.catalog import CONVOLVE_DIRECTLY, DIRECT_CONVOLUTION, DirectConvolutionArguments
from openipu.run.memory.device_memory import DeviceMemory
from openipu.run.rewrites.images.convolution_patterns import (
    Convolution,
    list_held,
    read_convolution,
    read_weights,
    take_norm,
)

aten = torch.ops.aten

PIXELS = 8  # that are computed together
_CHANNELS = 16  # that oneDNN computes together
_MOST_RESULTS = {True: 20, False: 12}  # vectors that stay in registers: with AVX-512, there are 32


@dataclass(frozen=True)
class Geometry:
    """Everything that the code depends on, but for the number of images."""

    channels: int
    height: int
    width: int
    results: int
    kernel: tuple[int, int]
    pads: tuple[int, int]
    pool: bool  # the largest of 2 x 2
    relu: bool

    @property
    def kernel_record(self) -> Kernel:
        """The kernel for this geometry."""
        results, rows = self.blocks
        return DIRECT_CONVOLUTION.specialize(
            CHANNELS=self.channels,
            HEIGHT=self.height,
            WIDTH=self.width,
            RESULTS=self.results,
            KERNEL_ROWS=self.kernel[0],
            KERNEL_COLUMNS=self.kernel[1],
            PAD_ROWS=self.pads[0],
            PAD_COLUMNS=self.pads[1],
            RESULTS_TOGETHER=results,
            ROWS_TOGETHER=rows,
            POOLS=int(self.pool),
            RECTIFIES=int(self.relu),
        )

    @property
    def computed(self) -> tuple[int, int]:
        """Rows and columns that are needed of the convolution."""
        rows = self.height + 2 * self.pads[0] - self.kernel[0] + 1
        columns = self.width + 2 * self.pads[1] - self.kernel[1] + 1
        return (rows // 2 * 2, columns // 2 * 2) if self.pool else (rows, columns)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Of the result for one image."""
        rows, columns = self.computed
        return (self.results, rows // 2, columns // 2) if self.pool else (self.results, rows, columns)

    @property
    def blocks(self) -> tuple[int, int]:
        """Channels of the result, and rows, that are computed together: those that leave the fewest over."""
        rows = self.computed[0]
        # Where all of them are stored, not the largest of each four, compilers keep no more than 12 in registers.
        wide = self.pool and torch.backends.cpu.get_cpu_capability() == "AVX512"
        most = _MOST_RESULTS[wide]
        channels = min((4, 5, 6), key=lambda count: (_round_up(self.results, count), -count))
        heights = [count for count in (2, 4) if channels * count <= most]
        return channels, min(heights, key=lambda count: (_round_up(rows, count), -count))

    @property
    def is_worth_compiling(self) -> bool:
        """Whether more of each vector is in use than with oneDNN."""
        rows, columns = self.computed
        image_bytes = 4 * self.channels * (self.height + 2 * self.pads[0]) * (self.width + 2 * self.pads[1])
        if rows < 1 or columns < 1 or image_bytes > thresholds.DIRECT_CONVOLUTION_IMAGE_BYTES:
            return False
        own = columns / _round_up(columns, PIXELS) * self.results / _round_up(self.results, self.blocks[0])
        more = thresholds.DIRECT_CONVOLUTION_POOLED_USE if self.pool else thresholds.DIRECT_CONVOLUTION_USE
        return own >= more * self.results / _round_up(self.results, _CHANNELS)


def _round_up(count: int, step: int) -> int:
    return -(-count // step) * step


class DirectConvolution:
    """The convolution with a copy of its weights in the order of the kernel, which follows newly loaded ones."""

    def __init__(self, memory: DeviceMemory, plan: Convolution, geometry: Geometry, run: Run) -> None:
        self._memory, self._plan, self._geometry, self._run = memory, plan, geometry, run
        self._packed: tuple[torch.Tensor, torch.Tensor] | None = None  # until they are asked for
        self._shape = (plan.shape[0], *geometry.shape)
        memory.follow(self, plan.names)

    def refresh(self) -> None:
        """Forget the old weights."""
        self._packed = None

    def apply(self, x: torch.Tensor) -> torch.Tensor:
        """The results for these images."""
        if self._packed is None:
            self._packed = self._pack()
        weight, bias = self._packed
        geometry, count = self._geometry, self._shape[0]
        source, found = x.contiguous(), torch.empty(self._shape, dtype=torch.float32)
        filled = _round_up(geometry.results, geometry.blocks[0])
        try:
            arguments = DirectConvolutionArguments(
                images=address_of(source, count * geometry.channels * geometry.height * geometry.width),
                weight=address_of(weight, filled * geometry.channels * prod(geometry.kernel)),
                bias=address_of(bias, filled),
                results=address_of(found, found.numel()),
                count=count,
                threads=torch.get_num_threads(),
            )
        except OperandError:
            return self._convolve_plainly(x)
        self._run(arguments)
        return found

    def _convolve_plainly(self, x: torch.Tensor) -> torch.Tensor:
        """The same by operators."""
        weight, bias = read_weights(self._memory, self._plan)
        found = torch.conv2d(x, weight, bias, 1, self._geometry.pads)
        found = torch.max_pool2d(found, 2) if self._geometry.pool else found
        return torch.relu_(found) if self._geometry.relu else found

    def _pack(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Blocks of channels, one number for each of them side by side; zeros fill the last block up."""
        weight, bias = read_weights(self._memory, self._plan)
        block = self._geometry.blocks[0]
        results = _round_up(len(weight), block)
        filled = torch.zeros(results, weight[0].numel(), dtype=torch.float32)
        filled[: len(weight)] = weight.flatten(1)
        offsets = torch.zeros(results, dtype=torch.float32)
        if bias is not None:
            offsets[: len(weight)] = bias
        return filled.view(-1, block, filled.shape[1]).transpose(1, 2).contiguous(), offsets


def list_geometries(draft: Draft) -> tuple[Geometry, ...]:
    """Of the convolutions that are worth a kernel, each once; none if most of the work is in other convolutions."""
    held = list_held(draft)
    geometries: list[Geometry] = []
    own = work = 0
    for node in draft.graph.nodes:
        if (plan := read_convolution(node, held)) is not None:
            work += plan.multiplications
            if (found := _find_direct(node, held)) is not None:
                own += plan.multiplications
                geometries.append(found[1])
    return tuple(dict.fromkeys(geometries)) if 2 * own >= work else ()


def make_rules(draft: Draft, memory: DeviceMemory, library: KernelLibrary) -> tuple[Rule, ...]:
    """Let kernels compute the convolutions that they are compiled for."""
    held = list_held(draft)

    def find(node: fx.Node) -> Match | None:
        found = _find_direct(node, held)
        run = None if found is None else library.find_run(found[1].kernel_record, CONVOLVE_DIRECTLY)
        if found is None or run is None:
            return None
        plan, geometry = found
        return matched(plan.last, *plan.nodes[:-1], plan=plan, geometry=geometry, run=run)

    def convolve(match: Match, writer: Writer) -> fx.Node:
        kernel = DirectConvolution(memory, match["plan"], match["geometry"], match["run"])
        return writer.call(kernel.apply, match["plan"].source)

    return (Rule("direct convolution", Search((aten.convolution.default,), find), convolve),)


def _find_direct(node: fx.Node, held: Mapping[str, GraphInput]) -> tuple[Convolution, Geometry] | None:
    """A convolution that is worth a kernel, with what follows."""
    plan = read_convolution(node, held)
    if plan is None or plan.groups != 1 or plan.strides != [1, 1] or plan.dilations != [1, 1]:
        return None
    plan, pool, relu = _extend(plan, held)
    _, channels, height, width = plan.source.meta["val"].shape
    results, _, rows, columns = plan.weight.shape
    pads = plan.pads[0], plan.pads[1]
    geometry = Geometry(channels, height, width, results, (rows, columns), pads, pool, relu)
    return (plan, geometry) if geometry.is_worth_compiling else None


def _extend(plan: Convolution, held: Mapping[str, GraphInput]) -> tuple[Convolution, bool, bool]:
    """With norm, pool and relu behind it, as long as nobody else reads the value between. The last two change places
    without a change of results."""
    plan = take_norm(plan, held)
    pool = relu = False
    while (user := find_only_user(plan.last)) is not None:
        values = find_only_user(user)
        if not relu and user.target is aten.relu.default:
            plan, relu = replace(plan, nodes=(*plan.nodes, user)), True
        elif not pool and values is not None and _pools_pairs(user) and values.target is getitem and not values.args[1]:
            plan, pool = replace(plan, nodes=(*plan.nodes, user, values)), True
        else:
            break
    return plan, pool, relu


def _pools_pairs(node: fx.Node) -> bool:
    """The largest of 2 x 2 pixels that do not overlap, and nothing over the edge."""
    if node.target is not aten.max_pool2d_with_indices.default or node.kwargs:
        return False
    arguments: list[Any] = [*node.args[1:], *([], [0], [1], False)[len(node.args) - 2 :]]
    kernel, stride, pads, dilation, rounds_up = arguments
    twos = ([2], [2, 2])
    return (
        list(kernel) in twos
        and (not stride or list(stride) in twos)
        and not any(pads)
        and set(dilation) == {1}
        and not rounds_up
    )
