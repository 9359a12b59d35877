"""Paddle's new form (PIR) as a `PaddleProgram`: names of the legacy form throughout.

In: the content of a `.json` file, or what Paddle serialises of a program in memory. Out: a `PaddleProgram`, which
everything behind this handles as it does a legacy one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from openipu.errors import TranslationError
from openipu.translate.paddle.optimizers import OPTIMIZERS
from openipu.translate.paddle.pir_reading import PirOp, PirValue, read_pir_ops
from openipu.translate.paddle.pir_roles import find_roles
from openipu.translate.paddle.pir_table import ADAPTERS, Adapter
from openipu.translate.paddle.program import PaddleBlock, PaddleOp, PaddleProgram, PaddleVariable

_CONSTANTS = ("full", "full_int_array")
_PLACELESS = ("place", "struct_name", "op_callstack", "stop_gradient", "persistable")


@dataclass(frozen=True, eq=False)
class PirProgram:
    """A program, and the names of its values by their numbers: a list of tensors has several, what is missing none."""

    program: PaddleProgram
    names: Mapping[int, tuple[str, ...]]


def read_pir(content: bytes, file: str = "") -> PirProgram:
    """A program in the new form."""
    adapting = _Adapting(file)
    for op in read_pir_ops(content, file):
        adapting.read(op)
    roles = find_roles(adapting.ops, OPTIMIZERS)
    spelled = {**{name: f"{name}@GRAD" for name in roles.gradients}, **adapting.outputs}
    ops = tuple(_mark(op, role, spelled) for op, role in zip(adapting.ops, roles.roles, strict=True))
    variables = {spelled.get(name, name): entry for name, entry in adapting.variables.items()}
    variables = {name: replace(entry, name=name) for name, entry in variables.items()}
    names = {number: tuple(spelled.get(name, name) for name in found) for number, found in adapting.names.items()}
    return PirProgram(PaddleProgram((PaddleBlock(variables, ops),), file), names)


@dataclass(eq=False)
class _Adapting:
    """Follows values by number."""

    file: str
    names: dict[int, tuple[str, ...]] = field(default_factory=dict)
    constants: dict[str, Any] = field(default_factory=dict)
    variables: dict[str, PaddleVariable] = field(default_factory=dict)
    ops: list[PaddleOp] = field(default_factory=list)
    outputs: dict[str, str] = field(default_factory=dict)  # names that fetches give to values without one

    def _fail(self, op: PirOp, problem: str) -> TranslationError:
        where = f"op {len(self.ops)} ({op.dialect}.{op.name})"
        return TranslationError(f"{self.file or 'The program'}: {where} {problem}.")

    def read(self, op: PirOp) -> None:
        kind = f"{op.dialect}.{op.name}"
        if kind == "builtin.parameter":
            self._declare(op, str(op.attributes["parameter_name"]), is_parameter=True)
        elif kind == "pd_op.data":
            self._read_data(op)
        elif kind == "builtin.combine":
            self._name(op.results[0], tuple(name for number in op.inputs for name in self._look_up(op, number)))
        elif kind == "builtin.split":
            self._take_apart(op)
        elif kind in ("pd_op.fetch", "builtin.shadow_output"):
            self._read_fetch(op)
        elif kind == "pd_op.shadow_feed":
            self._name(op.results[0], self._look_up(op, op.inputs[0]))
        elif op.dialect == "pd_op" and not op.has_body:
            self._translate(op)
        else:
            raise self._fail(op, "is control flow, or of a dialect that is not read")

    def _look_up(self, op: PirOp, number: int) -> tuple[str, ...]:
        if number not in self.names:
            raise self._fail(op, f"reads the value {number}, which nothing before it makes: the program is damaged")
        return self.names[number]

    def _name(self, value: PirValue, names: tuple[str, ...]) -> None:
        if value.number:
            self.names[value.number] = names

    def _declare(self, op: PirOp, name: str, *, is_parameter: bool = False) -> None:
        if len(op.results) != 1 or op.results[0].is_list or not op.results[0].number:
            raise self._fail(op, "does not make one tensor: the program is damaged")
        result = op.results[0]
        kept = is_parameter or result.persistable
        self._name(result, (name,))
        self.variables[name] = PaddleVariable(
            name, result.dtypes[0], result.shapes[0], kept, is_parameter, result.stop_gradient
        )

    def _read_data(self, op: PirOp) -> None:
        name = op.attributes.get("name")
        if not isinstance(name, str) or not name:
            raise self._fail(op, "has no name: the program is damaged")
        self._declare(op, name)
        if not op.results[0].persistable:
            column = sum(entry.type == "feed" for entry in self.ops)
            self._add("feed", {"X": ("feed",)}, {"Out": (name,)}, {"col": column})

    def _read_fetch(self, op: PirOp) -> None:
        column = op.attributes.get("col", sum(entry.type == "fetch" for entry in self.ops))
        source = self._look_up(op, op.inputs[0])
        self._add("fetch", {"X": source}, {"Out": ("fetch",)}, {"col": column})
        if op.results:
            self._name(op.results[0], source)
        given = op.attributes.get("name", op.attributes.get("output_name"))
        if isinstance(given, str) and given and source[0].startswith("%") and given not in self.variables:
            self.outputs.setdefault(source[0], given)

    def _take_apart(self, op: PirOp) -> None:
        parts = self._look_up(op, op.inputs[0])
        if len(parts) != len(op.results):
            raise self._fail(op, f"takes {len(parts)} tensors apart into {len(op.results)}: the program is damaged")
        for result, name in zip(op.results, parts, strict=True):
            self._name(result, (name,))
            if result.number and result.stop_gradient:
                self.variables[name] = replace(self.variables[name], stop_gradient=True)

    def _add(
        self,
        kind: str,
        inputs: Mapping[str, tuple[str, ...]],
        outputs: Mapping[str, tuple[str, ...]],
        attributes: Mapping[str, Any],
    ) -> None:
        self.ops.append(PaddleOp(kind, inputs, outputs, attributes, len(self.ops)))

    def _translate(self, op: PirOp) -> None:
        adapter = ADAPTERS.get(op.name) or ADAPTERS.get(op.name.removesuffix("_"))
        if adapter is None:  # a gradient, or an op that has no rule: known by its name when it is needed
            slots = {f"input{place}": self._look_up(op, number) for place, number in enumerate(op.inputs) if number}
            made = {f"Out{place}": self._make(value) for place, value in enumerate(op.results) if value.number}
            self._add(op.name, slots, made, _keep(op.attributes))
            return
        attributes = {adapter.renamed.get(key, key): value for key, value in _keep(op.attributes).items()}
        attributes |= adapter.fixed
        inputs = self._read_inputs(op, adapter, attributes)
        outputs = self._make_outputs(op, adapter, inputs)
        if op.name == "full_int_array":
            attributes["shape"] = [len(attributes.get("values") or [])]
        if isinstance(op.attributes.get("struct_name"), str):
            attributes["op_namescope"] = op.attributes["struct_name"]
        self._add(adapter.type, inputs, outputs, attributes)
        if op.name in _CONSTANTS and outputs:
            self.constants[outputs["Out"][0]] = op.attributes.get("value")

    def _read_inputs(self, op: PirOp, adapter: Adapter, attributes: dict[str, Any]) -> dict[str, tuple[str, ...]]:
        if len(op.inputs) > len(adapter.inputs):
            raise self._fail(op, f"has {len(op.inputs)} inputs, and {len(adapter.inputs)} are known")
        inputs: dict[str, tuple[str, ...]] = {}
        for place, number in enumerate(op.inputs):
            if number == 0:
                continue
            names, slot = self._look_up(op, number), adapter.inputs[place]
            if not slot.startswith("@"):
                if names:
                    inputs[slot] = names
                continue
            attribute, _, slot = slot[1:].partition(":")
            if len(names) == 1 and names[0] in self.constants:
                attributes[attribute] = self.constants[names[0]]
            elif slot:
                inputs[slot] = names
            else:
                raise self._fail(op, f"has a computed {attribute}, and on an IPU it is known when it is compiled")
        return inputs

    def _make_outputs(
        self, op: PirOp, adapter: Adapter, inputs: Mapping[str, tuple[str, ...]]
    ) -> dict[str, tuple[str, ...]]:
        outputs: dict[str, tuple[str, ...]] = {}
        in_place = op.name.endswith("_") and op.name not in ADAPTERS
        for result, spelled in zip(op.results, adapter.outputs, strict=False):
            slot, _, source = spelled.partition("=")
            source = source or ("X" if in_place and not outputs else "")
            if not result.number:
                continue
            if source in inputs and not result.is_list:
                self._name(result, inputs[source])
                outputs[slot] = inputs[source]
            else:
                outputs[slot] = self._make(result)
        for result in op.results[len(adapter.outputs) :]:
            if result.number:
                self._make(result)
        return outputs

    def _make(self, value: PirValue) -> tuple[str, ...]:
        plain = f"%{value.number}"  # as Paddle prints values without names
        names = tuple(f"{plain}.{place}" for place in range(len(value.dtypes))) if value.is_list else (plain,)
        self._name(value, names)
        for name, dtype, shape in zip(names, value.dtypes, value.shapes, strict=True):
            self.variables[name] = PaddleVariable(name, dtype, shape, stop_gradient=value.stop_gradient)
        return names


def _keep(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in attributes.items() if key not in _PLACELESS}


def _mark(op: PaddleOp, role: int, spelled: Mapping[str, str]) -> PaddleOp:
    """An op with its role and final names; unchanged gradients are called so, as in the legacy form."""

    def spell(slots: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        return {slot: tuple(spelled.get(name, name) for name in names) for slot, names in slots.items()}

    attributes = {**op.attributes, "op_role": role} if role else op.attributes
    return replace(op, inputs=spell(op.inputs), outputs=spell(op.outputs), attributes=attributes)
