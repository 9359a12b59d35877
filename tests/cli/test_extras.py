"""The command that installs an extra: it fits the way in which openipu itself was installed."""

from __future__ import annotations

import json

import pytest

from openipu.extras import explain_missing, suggest_install


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Let openipu be installed from somewhere: a `direct_url.json`, as pip writes it, or None for an index."""

    def pretend(origin):
        info = tmp_path / "site" / "openipu-0.1.0.dist-info"
        info.mkdir(parents=True, exist_ok=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: openipu\nVersion: 0.1.0\n")
        if origin is not None:
            (info / "direct_url.json").write_text(json.dumps(origin))
        monkeypatch.syspath_prepend(str(tmp_path / "site"))

    return pretend


def test_a_checkout_is_installed_again_with_the_extra(install, tmp_path):
    install({"url": tmp_path.as_uri(), "dir_info": {"editable": True}})
    assert suggest_install("hf") == f"pip install -e '{tmp_path}[hf]'"
    install({"url": tmp_path.as_uri(), "dir_info": {}})
    assert suggest_install("lightning") == f"pip install '{tmp_path}[lightning]'"


def test_a_path_with_spaces_is_one_word(install, tmp_path):
    folder = tmp_path / "my checkout"
    folder.mkdir()
    install({"url": folder.as_uri(), "dir_info": {}})
    assert suggest_install("hf") == f"pip install '{folder}[hf]'"


def test_a_repository_and_an_index_are_named_as_such(install):
    install(None)
    assert suggest_install("hf") == "pip install 'openipu[hf]'"
    install({"url": "https://example.org/openipu.git", "vcs_info": {"vcs": "git", "commit_id": "0"}})
    assert suggest_install("hf") == "pip install 'openipu[hf] @ git+https://example.org/openipu.git'"


def test_a_wheel_that_is_gone_leads_to_a_checkout(install, tmp_path):
    wheel = tmp_path / "openipu-0.1.0-py3-none-any.whl"
    wheel.touch()
    install({"url": wheel.as_uri(), "archive_info": {}})
    assert suggest_install("hf") == f"pip install '{wheel}[hf]'"
    wheel.unlink()
    assert suggest_install("hf") == "pip install '.[hf]' in a checkout of openipu"


def test_a_missing_package_is_one_sentence(install):
    install(None)
    error = explain_missing(ModuleNotFoundError(name="transformers.models"), "the trainer", "hf")
    assert str(error) == "the trainer needs transformers, which is not installed: pip install 'openipu[hf]'"
    assert error.name == "transformers.models"
