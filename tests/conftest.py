"""For all tests: a cache and a virtual pod of this test run's own, and no compiler that starts by itself."""

import os

import pytest


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
