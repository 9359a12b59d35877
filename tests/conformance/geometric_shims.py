"""What the public tests of PopTorch Geometric need and a plain pytest lacks; a plugin, `-p geometric_shims`.

In: the checkout's test modules, written for PyTorch Geometric 2.4. Out: `keys` of a graph as the property that it was,
generated molecules in the place of QM9, and a `benchmark` that only calls.
"""

from __future__ import annotations

import sys
import tempfile
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from applications.graphs import write_qm9
from torch_geometric.data.data import BaseData

MOLECULES = 56_000  # the tests take number 55,967


class Keys(list[str]):
    """A list that can be called, as the method of newer releases is."""

    def __call__(self, *_args: Any, **_kwargs: Any) -> list[str]:
        return list(self)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--external-datasets-dir", default="", dest="external_datasets_dir")


def pytest_configure(config: pytest.Config) -> None:
    method = BaseData.keys
    BaseData.keys = property(lambda graph: Keys(method(graph)))
    for name in ("nbconvert", "nbconvert.preprocessors"):  # imported for notebooks, which are not run
        sys.modules[name] = types.ModuleType(name)
    sys.modules["nbconvert.preprocessors"].ExecutePreprocessor = None  # type: ignore[attr-defined]
    config.addinivalue_line("markers", "ipuHardwareRequired: of the original's own machines")
    place = tempfile.TemporaryDirectory(prefix="geometric-")
    config.add_cleanup(place.cleanup)
    config.option.external_datasets_dir = place.name
    write_qm9(Path(place.name) / "qm9", molecules=MOLECULES, most=6)


@pytest.fixture
def benchmark() -> Callable[..., Any]:
    return lambda function, *args: function(*args)
