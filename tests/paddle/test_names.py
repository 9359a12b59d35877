"""Each name of Paddle's IPU wheel that the page of names lists is there, once IPUs are switched on."""

from __future__ import annotations

import functools
import importlib.util
from pathlib import Path

import pytest

import paddle
from openipu_paddle import names

DOCS = Path(__file__).parents[2] / "docs"


def load_generator():
    spec = importlib.util.spec_from_file_location("generate_paddle", DOCS / "generate_paddle.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


GENERATOR = load_generator()
ORIGINAL = GENERATOR.load_names()


def find(name):
    return functools.reduce(getattr, name.split(".")[1:], paddle)


@pytest.mark.parametrize("name", sorted({*names.FUNCTIONS, *ORIGINAL["functions"]}))
def test_a_listed_function_can_be_called(name):
    assert callable(find(name))


@pytest.mark.parametrize("name", GENERATOR.CLASSES)
def test_a_listed_class_has_every_member_of_the_original(name):
    assert [member for member in ORIGINAL[name] if not hasattr(find(name), member)] == []


@pytest.mark.parametrize("name", sorted({*names.FUNCTIONS} - names.PADDLES_OWN))
def test_what_the_page_calls_replaced_is_ours_and_the_rest_is_paddles(name):
    if name == "paddle.optimizer.lr.LRScheduler.step":  # while a strategy's patches are registered
        assert find(name).__module__.startswith("paddle")
    elif name != "paddle.static.ipu_shard_guard":  # in programs of the new form
        found = find(name)
        code = getattr(found, "__code__", None)
        assert "openipu_paddle" in (code.co_filename if code else found.__module__)


@pytest.mark.parametrize("name", sorted(names.PADDLES_OWN))
def test_what_is_not_replaced_is_paddles(name):
    assert find(name).__module__.startswith("paddle")
