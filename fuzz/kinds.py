"""Every kind of file that others may hand us: {kind: its seeds, and what reads it}.

A new format is one row. `seeds` writes whole files into a directory, with endings that say how they are damaged;
`read` does with a path what a user's command would, to the end: a profile is not only read, but shown. Modules that
`FUZZ_MODULES` names add rows of their own to `KINDS`.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fuzz import readers, seeds


@dataclass(frozen=True, slots=True)
class Kind:
    """One row of the table."""

    seeds: Callable[[Path], None]
    read: Callable[[Path], None]
    suffix: str = ""  # of the file's name, where a reader looks at it
    torch: bool = False  # reading needs PyTorch, which takes seconds to import


_PADDLE_JSON = Path(__file__).parents[1] / "tests" / "translate" / "paddle_transformer.json"


def _write_paddle_json(directory: Path) -> None:
    """A transformer in Paddle's new form."""
    (directory / "transformer.bin").write_bytes(_PADDLE_JSON.read_bytes())


KINDS: dict[str, Kind] = {
    "profile": Kind(seeds.write_profiles, readers.show_profile, ".pop"),
    "trace": Kind(seeds.write_traces, readers.show_trace, ".pvti"),
    "system": Kind(seeds.write_systems, readers.read_system, ".toml"),
    "pod": Kind(seeds.write_pods, readers.read_pod, ".toml"),
    "fabric": Kind(seeds.write_fabrics, readers.read_fabric, ".conf"),
    "hosts": Kind(seeds.write_hosts, readers.read_hosts),
    "poprun": Kind(seeds.write_poprun_options, readers.read_poprun_options, ".json"),
    "trace-options": Kind(seeds.write_trace_options, readers.read_trace_variable),
    "engine-options": Kind(seeds.write_engine_options, readers.read_engine_variable),
    "attachment": Kind(seeds.write_attachments, readers.read_attachment, ".attached"),
    "figures": Kind(seeds.write_figures, readers.read_figures, ".csv", torch=True),
    "golden": Kind(seeds.write_golden_plans, readers.read_golden_plan, ".json", torch=True),
    "ipu-config": Kind(seeds.write_ipu_configs, readers.read_ipu_config, ".json", torch=True),
    "options": Kind(seeds.write_options, readers.read_options, torch=True),
    "onnx": Kind(seeds.write_onnx_models, readers.plan_onnx_model, ".onnx", torch=True),
    "paddle": Kind(seeds.write_paddle_models, readers.plan_onnx_model, ".pdmodel", torch=True),
    "paddle-new-form": Kind(_write_paddle_json, readers.plan_onnx_model, ".json", torch=True),
    "paddle-weights": Kind(seeds.write_paddle_weights, readers.read_paddle_weights, ".pdiparams", torch=True),
    "executable": Kind(seeds.write_executables, readers.read_executable, ".poptorch", torch=True),
    "poplar-executable": Kind(seeds.write_poplar_executables, readers.run_poplar_executable, ".npz", torch=True),
}

for _module in filter(None, os.environ.get("FUZZ_MODULES", "").split(",")):
    importlib.import_module(_module)
