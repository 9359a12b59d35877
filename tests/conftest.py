"""For all tests: a cache of this test run's own, and no compiler that starts by itself."""

import os

import pytest


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory):
    directory = tmp_path_factory.mktemp("cache")
    directory.chmod(0o700)
    kept = {name: os.environ.get(name) for name in ("OPENIPU_CACHE_DIR", "OPENIPU_COMPILE_AFTER")}
    os.environ.update(OPENIPU_CACHE_DIR=str(directory), OPENIPU_COMPILE_AFTER="inf")
    yield
    for name, value in kept.items():
        if value is None:
            del os.environ[name]
        else:
            os.environ[name] = value
