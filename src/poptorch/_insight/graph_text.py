"""A captured program as text: JSON for tools, and log lines for readers.

In: a `Program`. Out: the JSON of `_debugGetPopartIR` and of POPTORCH_EXPORT_PROTO_FILE, and lines at the level TRACE.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import torch

from openipu.files.saving import save_text
from openipu.graph import InputKind, Phase, Program, note_of
from openipu.plan import Plan, VariableKind
from poptorch._insight.op_names import name_op
from poptorch._logging import TRACE, logger

PROTO_VARIABLE = "POPTORCH_EXPORT_PROTO_FILE"
_SCALAR_TYPES = {
    torch.bool: "Bool",
    torch.float16: "Half",
    torch.float32: "Float",
    torch.float64: "Double",
    torch.int16: "Short",
    torch.int32: "Int",
    torch.int64: "Long",
    torch.int8: "Char",
    torch.uint8: "Byte",
}


def describe_program(program: Program, scoped: bool, plan: Plan | None = None) -> str:
    """JSON with one entry per op; `scoped` puts the module path in front of its name.

    A value that `recomputationCheckpoint` keeps has an entry named "Checkpoint" behind its op; with a plan, so has each
    one that the pipeline stashes, of the type "Stash". Stashes of inputs come first.
    """
    stashes = _list_stashes(plan, scoped)
    main = stashes.pop(None, [])
    for graph in filter(None, (program.micro, program.update)):
        for node in graph.module.graph.nodes:
            if node.op != "call_function":
                continue
            note = note_of(node)
            kind = name_op(node)
            path = _write_path(note.module, scoped)
            attributes = {
                "phase": note.phase.value,
                "ipu": note.ipu,
                "stage": note.stage,
                "line": str(note.line) if note.line else "",
                **{name: str(value) for name, value in note.attributes.items()},
            }
            inputs = [{"name": source.name} for source in node.all_input_nodes]
            entry = {"type": kind, "name": path + kind, "attributes": attributes}
            main.append({**entry, "inputs": inputs, "outputs": [{"name": node.name}]})
            if note.attributes.get("checkpoint") and note.phase is Phase.FORWARD:
                main.append(_add_behind("Identity", f"{path}Checkpoint", node.name, attributes))
            main += stashes.pop(node.name, [])
    return json.dumps({"maingraph": _join_convolutions(main)}, separators=(",", ":"))


def _write_path(module: str, scoped: bool) -> str:
    return f"{module.replace('.', '/')}/" if scoped and module else ""


def _add_behind(kind: str, name: str, source: str, attributes: dict[str, Any]) -> dict[str, Any]:
    """An entry that takes one value and hands it on."""
    inputs, outputs = [{"name": source}], [{"name": f"{source}/{name.rpartition('/')[2]}"}]
    return {"type": kind, "name": name, "attributes": attributes, "inputs": inputs, "outputs": outputs}


def _list_stashes(plan: Plan | None, scoped: bool) -> dict[str | None, list[dict[str, Any]]]:
    """What a pipeline keeps of the micro-batches on their way, by the op that made it; None: inputs, and copies."""
    found: dict[str | None, list[dict[str, Any]]] = {}
    for variable in () if plan is None else plan.variables:
        if variable.kind is not VariableKind.STASH:
            continue
        assert plan is not None
        maker = None if variable.op is None else plan.ops[variable.op]
        path = _write_path(maker.module, scoped) if maker is not None else ""
        stage = maker.stage if maker is not None else 0
        attributes = {"ipu": variable.ipu, "stage": stage, "stashSize": variable.shape[0]}
        source = variable.name.removesuffix(" stash")
        known = maker is not None and maker.name == source
        found.setdefault(source if known else None, []).append(_add_behind("Stash", f"{path}Stash", source, attributes))
    return found


def _join_convolutions(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Convolutions of one `poptorch.MultiConv` are one operator, where the first of them stands."""
    joined: list[dict[str, Any]] = []
    groups: dict[str, dict[str, Any]] = {}
    for entry in entries:
        group = entry["attributes"].get("multi_convolution") if entry["type"] == "Conv" else None
        if group is None:
            joined.append(entry)
        elif group in groups:
            groups[group]["inputs"] += entry["inputs"]
            groups[group]["outputs"] += entry["outputs"]
        else:
            groups[group] = {**entry, "type": "MultiConv", "name": entry["name"].removesuffix("Conv") + "MultiConv"}
            joined.append(groups[group])
    return joined


def export_program(program: Program) -> None:
    """Write the graph to the file of POPTORCH_EXPORT_PROTO_FILE, if there is one. It is JSON, not ONNX."""
    target = os.environ.get(PROTO_VARIABLE)
    if not target:
        return
    path = Path(target)
    save_text(path, describe_program(program, scoped=True))
    logger.warning("%s: there is no ONNX below, so %s holds the captured graph as JSON.", PROTO_VARIABLE, path)


def log_program(program: Program) -> None:
    """The weights of a program, each with its type and shape."""
    logger.debug("Graph of %s lowered to PopART names: %d ops", program.name, len(program.micro.module.graph.nodes))
    if not logger.isEnabledFor(TRACE):
        return
    for entry in program.micro.inputs:
        if entry.kind in (InputKind.PARAMETER, InputKind.BUFFER):
            strides = list(torch.empty(entry.shape, device="meta").stride())
            sizes = "".join(f"{size}, " for size in entry.shape)
            kind = _SCALAR_TYPES.get(entry.dtype, str(entry.dtype))
            described = f"{kind}({sizes}strides={strides}, requires_grad=0, device=ipu:0)"
            logger.log(TRACE, "%%%s : %s -> %s", entry.node, described, entry.name)
