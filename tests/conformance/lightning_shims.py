"""A pytest plugin: what today's pytest changed under the public lightning-Graphcore test suite.

The suite marks items as skipped or expected to fail that failed on its authors' machines. Here every item counts as it
ends, so those marks are taken off. None of this touches what is tested.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest


def pytest_configure(config: pytest.Config) -> None:
    original = pytest.warns

    @contextmanager
    def record_all() -> Iterator[list[warnings.WarningMessage]]:
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            yield found

    def warns(expected: Any = Warning, *args: Any, **kwargs: Any) -> Any:
        """Before pytest 7, `warns(None)` recorded every warning and asked for none."""
        return record_all() if expected is None else original(expected, *args, **kwargs)

    pytest.warns = warns


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        item.own_markers[:] = [mark for mark in item.own_markers if mark.name not in ("skip", "xfail")]
