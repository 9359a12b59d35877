"""The pages of TensorFlow's options and names are the code's."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


def load_generator(name):
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    generator = importlib.util.module_from_spec(spec)
    sys.modules[name] = generator
    spec.loader.exec_module(generator)
    return generator


@pytest.fixture(scope="module")
def names():
    return load_generator("generate_tensorflow_api")


def test_the_tables_of_options_and_flags_are_up_to_date():
    page = (DOCS / "tensorflow1.md").read_text(encoding="utf-8")
    assert load_generator("generate_tensorflow").build_page(page) == page, "run python docs/generate_tensorflow.py"


def test_the_page_of_names_is_up_to_date(names):
    page = (DOCS / "tensorflow_api.md").read_text(encoding="utf-8")
    assert names.build_page() == page, "run python docs/generate_tensorflow_api.py"


def test_names_are_told_apart_by_what_the_code_does_with_them(names):
    entries = names.list_entries()
    compiled = entries["tensorflow.python.ipu.ipu_compiler"]["compile"]
    assert (compiled.state, compiled.signature) == ("has", "(computation, inputs=None)")
    assert entries["tensorflow.python.ipu.ops.custom_ops"]["cpu_user_operation"].state == "refused"
    assert entries["tensorflow.python.ipu.config"]["IPUConfig"].state == "has"  # from another module
    assert entries["keras.Model"]["set_pipelining_options"].state == "has"
    assert entries["popdist.tensorflow"]["set_ipu_config"].state == "has"


def test_a_name_that_is_nowhere_is_lacking(names):
    source = names.find_source("tensorflow.python.ipu.config")
    assert names.find_name(source, "NoSuchName") is None
    assert names.find_source("tensorflow.python.ipu.no_such_module") is None
