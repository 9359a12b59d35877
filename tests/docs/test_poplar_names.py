"""The page of Poplar's and PopLibs' names says what the code has."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def generator():
    spec = importlib.util.spec_from_file_location("generate_poplar", DOCS / "generate_poplar.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")
def test_the_page_of_names_is_up_to_date(generator):
    page = (DOCS / "poplar_names.md").read_text(encoding="utf-8")
    assert generator.build_page(generator.read_headers()) == page, "run python docs/generate_poplar.py"


def test_a_name_counts_in_its_header_and_its_namespace_alone(generator):
    headers = {
        "popsparse/MatMul.hpp": "namespace dynamic { void multiply(); }",
        "popsparse/codelets.hpp": "void addCodelets();",
    }
    assert generator.is_declared(headers, "popsparse/MatMul.hpp", "dynamic.multiply")
    assert not generator.is_declared(headers, "popsparse/MatMul.hpp", "static_.multiply")
    assert not generator.is_declared(headers, "popsparse/codelets.hpp", "multiply")
    assert not generator.is_declared(headers, "popsparse/Embedding.hpp", "multiply")
