"""A pod of each test's own, and commands called as a shell would."""

import importlib
import json

import pytest


@pytest.fixture(autouse=True)
def state(monkeypatch, tmp_path):
    monkeypatch.setenv("OPENIPU_STATE_DIR", str(tmp_path / "state"))
    for name in ("OPENIPU_POD", "OPENIPU_SYSTEM", "IPUOF_CONFIG_PATH", "IPUOF_VIPU_API_PARTITION_ID"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def call(capsys):
    """`call("info", "-l")` -> exit code, standard output, standard error."""

    def run(tool, *words):
        module = importlib.import_module(f"openipu.gc_tools.{tool}")
        try:
            code = module.main(list(words))
        except SystemExit as end:  # argparse's own way out
            code = end.code
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.fixture
def call_json(call):
    def run(tool, *words):
        code, out, _ = call(tool, *words, "--json")
        return code, json.loads(out)

    return run
