"""For all tests: a cache and a virtual pod of this test run's own, no compiler that starts by itself, the same seeds.

Folders of tests and examples are called `tensorflow`. Where one of them is on the path, because a test has put its
parent there, TensorBoard would take it for TensorFlow: it is told that there is none.

What is marked `thorough` repeats a neighbour with more seeds, shapes or classes: `make test-all` runs it.
"""

import importlib.util
import os
import random
import sys
from types import ModuleType

import numpy as np
import pytest

THOROUGH_VARIABLE = "OPENIPU_THOROUGH"

_installed = importlib.util.find_spec("tensorflow")
if _installed is None or _installed.origin is None:
    sys.modules["tensorboard.compat.notf"] = ModuleType("tensorboard.compat.notf")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if os.environ.get(THOROUGH_VARIABLE, "0") != "0":
        return
    left_out = [item for item in items if item.get_closest_marker("thorough")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("thorough")]


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory):
    directory = tmp_path_factory.mktemp("cache")
    directory.chmod(0o700)
    state = str(tmp_path_factory.mktemp("state"))
    own = {"OPENIPU_CACHE_DIR": str(directory), "OPENIPU_STATE_DIR": state, "OPENIPU_COMPILE_AFTER": "inf"}
    kept = {name: os.environ.get(name) for name in own}
    os.environ.update(own)
    yield
    for name, value in kept.items():
        if value is None:
            del os.environ[name]
        else:
            os.environ[name] = value


@pytest.fixture(autouse=True)
def _same_seeds():
    """Each test draws the same numbers in every run, alone or after others, so that a failure can be repeated."""
    random.seed(0)
    np.random.seed(0)
    loaded = sys.modules
    if "torch" in loaded:
        loaded["torch"].manual_seed(0)
    if "keras" in loaded:
        loaded["keras"].utils.set_random_seed(0)
    if "paddle" in loaded:
        loaded["paddle"].seed(0)
