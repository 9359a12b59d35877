"""A pytest plugin: what today's PyTorch and pytest changed under the public PopTorch test suite.

The suite was written for torch 2.0 and pytest 6. Each shim restores one old behaviour for the tests alone; none touches
what is tested.
"""

from __future__ import annotations

import functools
import os

import pytest
import torch

os.environ.setdefault("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")  # the tests load their own checkpoints, also in children


def _load_whole_objects() -> None:
    """torch 2.6 made `weights_only=True` the default; the suite saves whole modules."""
    original = torch.load

    @functools.wraps(original)
    def load(*args, **kwargs):
        kwargs.setdefault("weights_only", False)
        return original(*args, **kwargs)

    torch.load = load


def _accept_data_source() -> None:
    """torch 2.13's Sampler takes no argument; samplers of the suite pass `None` to it."""

    def initialise(self, data_source=None):
        object.__init__(self)

    torch.utils.data.Sampler.__init__ = initialise


def pytest_configure(config: pytest.Config) -> None:
    _load_whole_objects()
    _accept_data_source()
    config.addinivalue_line("markers", "mlirSupportRequired: a mark of older suites")
