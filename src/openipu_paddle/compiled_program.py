"""`paddle.static.IpuCompiledProgram`, and how `Executor.run` finds what it compiled.

In: a Paddle program, feeds, fetches. Out: a program that stands for the compiled one: Paddle's executor hands it over.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from openipu.errors import InputError
from openipu.translate.paddle import PaddleProgram
from openipu_paddle.backend import IpuBackend
from openipu_paddle.compiling import prepare
from openipu_paddle.reading import find_name, flatten, is_pir, name_of, read_program
from openipu_paddle.running import IpuProgram
from openipu_paddle.strategy import IpuStrategy

COMPILED = "_openipu_program"  # attribute of a program that stands for a compiled one


class IpuCompiledProgram:
    """Compiles a program for IPUs."""

    def __init__(self, program: Any = None, scope: Any = None, ipu_strategy: IpuStrategy | None = None) -> None:
        import paddle

        self._program = paddle.static.default_main_program() if program is None else program
        if not hasattr(self._program, "global_block"):
            raise TypeError(f"The type of program is wrong, expected Program, but got {type(program)}")
        self._scope = paddle.static.global_scope() if scope is None else scope
        self._ipu_strategy = IpuStrategy() if ipu_strategy is None else ipu_strategy
        self._custom_op_names = set(self._ipu_strategy.custom_op_names)
        self._backend = IpuBackend.get_instance()

    def compile(self, feed_list: Sequence[Any], fetch_list: Sequence[Any]) -> Any:
        """Compile for these feeds and fetches: names, or variables of the program."""
        self._backend.set_scope(self._scope)
        self._backend.set_ipu_strategy(self._ipu_strategy._ipu_strategy)
        read = read_program(self._program)
        feeds = [name_of(entry) for entry in flatten(feed_list)]
        fetches = [find_name(entry, read.names) for entry in flatten(fetch_list)]
        compiled = self._compile(read.program, feeds, fetches)
        return self._stand_in(compiled, read.names)

    def _compile(self, program: PaddleProgram, feeds: list[str], fetches: list[str]) -> IpuProgram:
        unique = list(dict.fromkeys(fetches))
        prepared = prepare(program, feeds, unique, self._ipu_strategy, "paddle_program")
        compiled = IpuProgram(prepared, self._ipu_strategy, self._scope)
        self._backend.current = compiled
        self._ipu_strategy.need_compile = False
        return compiled

    def _stand_in(self, compiled: IpuProgram, names: Mapping[str, str]) -> Any:
        """What `compile` returns: the original program's forward part is still to be seen in `org_program`."""
        import paddle

        stand_in = paddle.static.Program() if not is_pir(self._program) else _PirStandIn()
        setattr(stand_in, COMPILED, compiled)
        stand_in._openipu_names = dict(names)
        scheduler = getattr(self._program, "lr_scheduler", None)
        if scheduler is not None:
            stand_in.lr_scheduler = scheduler
        stand_in.org_program = self._program
        return stand_in


class _PirStandIn:
    """A program of the new form has no attributes of a user's own."""

    lr_scheduler: Any = None
    org_program: Any = None
    _openipu_names: Mapping[str, str]

    def global_block(self) -> Any:
        return self.org_program.global_block()


def extend_run(original: Callable[..., Any]) -> Callable[..., Any]:
    """`Executor.run` that knows compiled programs."""

    @functools.wraps(original)
    def run(
        executor: Any,
        program: Any = None,
        feed: Any = None,
        fetch_list: Any = None,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        compiled = getattr(program, COMPILED, None)
        if compiled is None:
            return original(executor, program, feed, fetch_list, *args, **kwargs)
        # feed_var_name, fetch_var_name, scope, return_numpy: as Paddle has them
        return_numpy = kwargs.get("return_numpy", args[3] if len(args) > 3 else True)
        return run_compiled(compiled, program, feed, fetch_list, return_numpy=return_numpy)

    return run


def run_compiled(
    compiled: IpuProgram, program: Any, feed: Any, fetch_list: Any, *, return_numpy: bool = True
) -> list[Any]:
    """One run of a compiled program, with the learning rate that its scheduler has now."""
    if isinstance(feed, list | tuple):
        if len(feed) != 1:
            raise InputError(f"An IPU program takes one dictionary of feeds, not {len(feed)}.")
        feed = feed[0]
    _follow_schedule(compiled, program)
    wanted = flatten(fetch_list)
    names = [find_name(entry, program._openipu_names) for entry in wanted]
    unknown = [name for name in names if name not in compiled.prepared.fetches]
    if unknown:
        raise InputError(
            f"{unknown[0]!r} is not fetched by the compiled program. Name it in the fetch_list of compile(): it has "
            f"{', '.join(compiled.prepared.fetches) or 'none'}."
        )
    arrays = compiled.run(feed or {}, names)
    return list(arrays) if return_numpy else [_to_tensor(array) for array in arrays]


def _follow_schedule(compiled: IpuProgram, program: Any) -> None:
    scheduler = getattr(program, "lr_scheduler", None)
    if scheduler is None:
        return
    import torch

    from openipu_paddle.scopes import write_variable

    name = getattr(scheduler, "_var_name", None)
    if name:
        write_variable(compiled.scope, name, torch.tensor([float(scheduler())]))


def _to_tensor(array: np.ndarray[Any, Any]) -> Any:
    import paddle

    tensor = (
        paddle.base.core.DenseTensor() if hasattr(paddle.base.core, "DenseTensor") else paddle.base.core.LoDTensor()
    )
    tensor.set(array, paddle.CPUPlace())
    return tensor
