"""Tensors inside a program, by name, and the values that are read back from them.

In: a `Program` and the `Tap`s that a user asked for. Out: the names of all its tensors; after each call, one tensor a
tap, put together from micro-batches by the tap's own output mode.

Names: a parameter's or buffer's own; `input`, `input/1`, …; `loss`; `Gradient___<parameter>`;
`UpdatedVar___<parameter>`; for results of operators `<module path>/<operator>:<index>`, with `grad/` in front where
they belong to the backward pass. Optimizer state can be tapped as `State___<slot>:<parameter>`, too.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Iterator, Sequence

import torch
from torch import fx

from openipu.errors import OptionError
from openipu.graph import GraphOutput, InputKind, OutputKind, OutputMode, Phase, Program, RunOptions, Tap, note_of
from openipu.run.drafts.draft import Draft
from openipu.run.outputs import combine_micro_batches, is_kept

GRADIENT = "Gradient___"
UPDATED = "UpdatedVar___"
STATE = "State___"


def list_tensors(program: Program) -> dict[str, str]:
    """The name of every tensor that can be tapped -> its node in `micro`; new weights have none ("")."""
    named: dict[str, str] = {}
    inputs = 0
    for entry in program.micro.inputs:
        if entry.kind is InputKind.INPUT:
            named["input" if inputs == 0 else f"input/{inputs}"] = entry.node
            inputs += 1
        elif entry.kind in (InputKind.PARAMETER, InputKind.BUFFER):
            named[entry.name] = entry.node
    for name, node in _name_results(program):
        named.setdefault(name, node.name)
    returned = program.micro.module.graph.output_node().args[0]
    assert isinstance(returned, list | tuple)
    for result, node in zip(program.micro.outputs, returned, strict=True):
        assert isinstance(node, fx.Node)
        if result.kind is OutputKind.LOSS:
            named["loss"] = node.name
        elif result.kind is OutputKind.GRADIENT:
            named[GRADIENT + result.name] = node.name
    if program.update is not None:
        named |= {UPDATED + entry.name: "" for entry in program.update.outputs_of(OutputKind.PARAMETER)}
    return named


def _name_results(program: Program) -> Iterator[tuple[str, fx.Node]]:
    seen: Counter[str] = Counter()
    stems: dict[fx.Node, str] = {}
    for node in program.micro.module.graph.nodes:
        if node.op != "call_function":
            continue
        if node.target is operator.getitem and node.args[0] in stems:
            yield f"{stems[node.args[0]]}:{node.args[1]}", node
            continue
        note = note_of(node)
        kind = str(getattr(node.target, "overloadpacket", node.target)).rsplit(".", 1)[-1]
        parts = [part for part in note.module.split(".") if part]
        stem = "/".join([*(["grad"] if note.phase is Phase.BACKWARD else []), *parts, kind])
        count = seen[stem]
        seen[stem] += 1
        stems[node] = f"{stem}/{count}" if count else stem
        if isinstance(node.meta.get("val"), torch.Tensor):
            yield f"{stems[node]}:0", node


def add_taps(draft: Draft, program: Program, taps: Sequence[Tap]) -> None:
    """Let a draft of `micro` also return the tapped tensors, before any pass removes them."""
    if not taps:
        return
    known = list_tensors(program) | {STATE + slot.key: "" for slot in program.state_slots}
    nodes, outputs = draft.results, list(draft.outputs)
    by_name = {node.name: node for node in draft.graph.nodes}
    for tensor in dict.fromkeys(tap.tensor for tap in taps):
        if tensor not in known:
            raise OptionError(
                f"There is no tensor {tensor!r} in {program.name}. It has: {', '.join(list(known)[:20])}"
                f"{' and more' if len(known) > 20 else ''}."
            )
        if known[tensor]:
            node = by_name[known[tensor]]
            value = node.meta["val"]
            nodes.append(node)
            outputs.append(GraphOutput(OutputKind.TAP, tensor, tuple(value.shape), value.dtype))
    draft.replace_results(nodes, outputs)


class TapCollector:
    """Takes the tapped tensors of each micro-batch, and keeps what each tap's mode asks for."""

    def __init__(self, options: RunOptions) -> None:
        self._options = options
        self._kept: dict[str, list[torch.Tensor]] = {tap.name: [] for tap in options.taps}
        self.states = tuple({tap.tensor for tap in options.taps if tap.tensor.startswith(STATE)})
        self._updated = {tap.tensor.removeprefix(UPDATED) for tap in options.taps if tap.tensor.startswith(UPDATED)}

    @property
    def updated_parameters(self) -> set[str]:
        """Parameters whose new values are tapped."""
        return self._updated

    def add(self, tensor: str, value: torch.Tensor, iteration: int, step: int, replica: int) -> None:
        """Take one value of one tensor."""
        for tap in self._options.taps:
            if tap.tensor != tensor or not is_kept(tap.mode, tap.period, self._options, iteration, step):
                continue
            kept = self._kept[tap.name]
            if tap.mode is OutputMode.SUM and len(kept) > replica:
                kept[replica] = kept[replica] + value
            else:
                kept.append(value)

    def combine(self) -> dict[str, torch.Tensor]:
        """One tensor a tap; a period longer than the call leaves an empty one."""
        return {name: combine_micro_batches(kept) if kept else torch.empty(0) for name, kept in self._kept.items()}
