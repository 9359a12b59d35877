"""Images as TensorFlow lays them out: channels last or first, windows with paddings by name.

In: the attributes of an op. Out: views with channels first, and pads in numbers. On an IPU a layout is a view: nothing
is moved for it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from openipu.translate.kit.padding import find_same_pads
from openipu.translate.site import Site


@dataclass(frozen=True, slots=True)
class Windows:
    """Windows over the spatial dimensions; pads are all those in front, then all those behind."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[int, ...]

    @property
    def rank(self) -> int:
        return len(self.kernel)

    @property
    def before(self) -> tuple[int, ...]:
        return self.pads[: self.rank]

    @property
    def behind(self) -> tuple[int, ...]:
        return self.pads[self.rank :]

    @property
    def symmetric(self) -> bool:
        return self.before == self.behind

    @property
    def padded(self) -> bool:
        return any(self.pads)

    def pad_sizes(self) -> list[int]:
        """For `torch.nn.functional.pad`: the last dimension first, in front and behind."""
        found: list[int] = []
        for front, back in zip(reversed(self.before), reversed(self.behind), strict=True):
            found += [front, back]
        return found


def has_channels_last(site: Site) -> bool:
    return str(site.get("data_format", "NHWC")).endswith("C")


def channels_first(x: torch.Tensor, last: bool) -> torch.Tensor:
    return x.movedim(-1, 1) if last else x


def channels_as_given(x: torch.Tensor, last: bool) -> torch.Tensor:
    return x.movedim(1, -1) if last else x


def read_windows(site: Site, sizes: list[int], kernel: list[int], last: bool) -> Windows:
    """Windows over `sizes`, the spatial ones of the input."""
    rank = len(sizes)

    def spatial(name: str) -> list[int]:
        given = [int(number) for number in site.get(name, None) or [1] * (rank + 2)]
        return given[1:-1] if last else given[2:]

    strides, dilations = spatial("strides"), spatial("dilations")
    match site.get("padding", "VALID"):
        case "SAME":
            pads = find_same_pads(sizes, kernel, strides, dilations, lower=False)
        case "VALID":
            pads = [0] * (2 * rank)
        case "EXPLICIT":
            given = [int(number) for number in site.get("explicit_paddings")]
            inner = given[2:-2] if last else given[4:]
            pads = [*inner[0::2], *inner[1::2]]
        case other:
            site.fail(f"has the unknown padding {other!r}")
    return Windows(tuple(kernel), tuple(strides), tuple(dilations), tuple(pads))
