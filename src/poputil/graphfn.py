"""Programs that are written once and called with different tensors.

In: a signature, and a function that adds to a sequence. Out: something to call: arguments are copied to the function's
own tensors before, and results from them after. Inlined, the function is written anew for every call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from poplar import Graph, Tensor, poplar_error
from poplar import program as programs


class ArgType(Enum):
    InputArg = 0
    OutputArg = 1
    InOutArg = 2
    CreatedArg = 3


@dataclass(frozen=True, slots=True)
class ArgSig:
    """One argument: what is done with it, and a tensor like it."""

    type: ArgType
    similarTensor: Tensor | None = None
    debugName: str = ""


def input(similar: Tensor, name: str = "") -> ArgSig:
    return ArgSig(ArgType.InputArg, similar, name)


def inout(similar: Tensor, name: str = "") -> ArgSig:
    return ArgSig(ArgType.InOutArg, similar, name)


def output(similar: Tensor, name: str = "") -> ArgSig:
    return ArgSig(ArgType.OutputArg, similar, name)


def created(name: str = "") -> ArgSig:
    """The function makes it: the caller's entry becomes a new tensor."""
    return ArgSig(ArgType.CreatedArg, None, name)


Signature = list[ArgSig]
Tensors = list[Any]


class VoidFunction:
    """`body(arguments, sequence)`; call it with a list of tensors and a sequence."""

    def __init__(
        self,
        graph: Graph,
        sig: Sequence[ArgSig],
        body: Callable[[Tensors, programs.Sequence], None],
        inlined: bool = False,
    ) -> None:
        self._graph, self._sig, self._body, self._inlined = graph, list(sig), body, inlined
        if inlined:
            return
        self._own: Tensors = [
            None if one.similarTensor is None else graph.clone(one.similarTensor, one.debugName) for one in self._sig
        ]
        prog = programs.Sequence()
        body(self._own, prog)
        self._function = graph.addFunction(prog)

    def __call__(self, args: Tensors, seq: programs.Sequence) -> None:
        if len(args) != len(self._sig):
            raise poplar_error(f"A graph function takes {len(self._sig)} arguments, not {len(args)}.")
        if self._inlined:
            self._body(args, seq)
            return
        for one, given, own in zip(self._sig, args, self._own, strict=True):
            if one.type in (ArgType.InputArg, ArgType.InOutArg):
                seq.add(programs.Copy(given, own))
        seq.add(programs.Call(self._function))
        for place, (one, own) in enumerate(zip(self._sig, self._own, strict=True)):
            if one.type is ArgType.CreatedArg:
                args[place] = self._graph.clone(own, one.debugName)
            if one.type is not ArgType.InputArg:
                seq.add(programs.Copy(own, args[place]))


class ProgramFunction:
    """`body(arguments)` returns a program; so does a call."""

    def __init__(
        self, graph: Graph, sig: Sequence[ArgSig], body: Callable[[Tensors], programs.Program], inlined: bool = False
    ) -> None:
        self._held = VoidFunction(graph, sig, lambda args, prog: prog.add(body(args)), inlined)

    def __call__(self, args: Tensors) -> programs.Program:
        prog = programs.Sequence()
        self._held(args, prog)
        return prog


class TensorFunction:
    """`body(arguments, sequence)` returns a tensor; so does a call."""

    def __init__(
        self,
        graph: Graph,
        sig: Sequence[ArgSig],
        body: Callable[[Tensors, programs.Sequence], Tensor],
        inlined: bool = False,
    ) -> None:
        def fill(args: Tensors, prog: programs.Sequence) -> None:
            given = args[:-1]
            args[-1] = body(given, prog)
            args[:-1] = given

        self._held = VoidFunction(graph, [*sig, created()], fill, inlined)

    def __call__(self, args: Tensors, prog: programs.Sequence) -> Tensor:
        extended = [*args, None]
        self._held(extended, prog)
        args[:] = extended[:-1]
        found: Tensor = extended[-1]
        return found
