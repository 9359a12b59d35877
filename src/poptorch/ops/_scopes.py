"""Context managers of `forward`: `NameScope`, `Attribute` and `MultiConv`."""

from __future__ import annotations

from contextlib import ExitStack
from types import TracebackType
from typing import Any

import torch

from openipu.capture import attach_attributes, group_convolutions, is_capturing, pop_name_scope, push_name_scope
from poptorch._logging import warn_once
from poptorch.enums import MultiConvPlanType


class NameScope:
    """Ops inside are listed under this name, in profiles and logs."""

    def __init__(self, name: str) -> None:
        assert isinstance(name, str), "Parameter to NameScope must be a string"
        self.name = name

    def __enter__(self) -> None:
        push_name_scope(self.name)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pop_name_scope()


class Attribute:
    """Ops inside carry attributes: `Attribute(__outline={"layer": "embedding"})`."""

    def __init__(self, **kwargs: dict[str, Any]) -> None:
        self._groups = kwargs
        self._entered: list[ExitStack] = []

    def __enter__(self) -> None:
        stack = ExitStack()
        stack.enter_context(attach_attributes(self._groups))
        self._entered.append(stack)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._entered.pop().__exit__(kind, error, trace)


class MultiConv:
    """Convolutions inside form one multi-convolution. Settings hold for all of them, or are lists with one for each.

    They are planned one after the other, each with its own share of memory; the other settings go into the graph.
    """

    def __init__(self) -> None:
        self._settings: dict[str, Any] = {}
        self._entered: list[ExitStack] = []

    def availableMemoryProportions(self, value: float | list[float] | tuple[float, ...] | None) -> MultiConv:
        """Share of tile memory for the temporary data of each convolution, between 0 and 1."""
        return self._set("available_memory_proportion", value, float, "available memory proportion")

    def partialsTypes(self, value: torch.dtype | list[torch.dtype] | tuple[torch.dtype, ...]) -> MultiConv:
        """`torch.float` or `torch.half` for partial results."""
        chosen = value if isinstance(value, list | tuple) else [value]
        if any(dtype not in (torch.float32, torch.float16) for dtype in chosen):
            raise ValueError("Invalid partials types. Expecting torch.float or torch.half")
        self._settings["partials_type"] = value
        return self

    def enableConvDithering(self, value: bool | list[bool] | tuple[bool, ...] | None) -> MultiConv:
        """Place each convolution at another first tile."""
        chosen = value if isinstance(value, list | tuple) else [value]
        if value is not None and not all(isinstance(item, bool) for item in chosen):
            raise ValueError("value must be bool or list of bools")
        self._settings["dithering"] = value
        return self

    def planType(self, value: MultiConvPlanType | None) -> MultiConv:
        """Side by side or one after the other."""
        if value is not None and not isinstance(value, MultiConvPlanType):
            raise AssertionError("Invalid plan type!")
        self._settings["plan_type"] = None if value is None else value.name
        return self

    def perConvReservedTiles(self, value: int) -> MultiConv:
        """Tiles to reserve for each convolution."""
        assert isinstance(value, int), "perConvReservedTiles takes an int"
        self._settings["reserved_tiles"] = value
        return self

    def cycleBackOff(self, value: float) -> MultiConv:
        """By how much a convolution may be slower than the longest one, as a share."""
        assert isinstance(value, float), "cycleBackOff takes a float"
        self._settings["cycle_back_off"] = value
        return self

    def _set(self, key: str, value: Any, kind: type, name: str) -> MultiConv:
        chosen = value if isinstance(value, list | tuple) else [value]
        if value is not None and (not chosen or not all(isinstance(item, kind) for item in chosen)):
            raise AssertionError(f"Invalid {name}!")
        self._settings[key] = value
        return self

    def _list_settings(self) -> dict[str, Any] | list[dict[str, Any]]:
        """One dictionary for all convolutions, or one for each where any setting is a list."""
        given = {key: value for key, value in self._settings.items() if value is not None}
        counts = {len(value) for value in given.values() if isinstance(value, list | tuple) and len(value) > 1}
        if not counts:
            return {key: value[0] if isinstance(value, list | tuple) else value for key, value in given.items()}
        if len(counts) > 1:
            raise ValueError(
                f"The settings of poptorch.MultiConv are for {sorted(counts)} convolutions: make them agree."
            )
        return [
            {
                key: value[index if len(value) > 1 else 0] if isinstance(value, list | tuple) else value
                for key, value in given.items()
            }
            for index in range(counts.pop())
        ]

    def __enter__(self) -> None:
        if is_capturing() and self._settings.keys() - {"available_memory_proportion"}:
            warn_once(
                "The convolutions of a poptorch.MultiConv are planned one after the other: of its settings only "
                "availableMemoryProportions changes the plan. Results do not depend on them."
            )
        stack = ExitStack()
        stack.enter_context(group_convolutions(self._list_settings()))
        self._entered.append(stack)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._entered.pop().__exit__(kind, error, trace)
