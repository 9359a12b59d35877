"""`paddle.utils.cpp_extension.load` for IPU programs: the ops that a library brings, without its code for IPUs.

In: C++ sources as scripts name them. Out: the module that Paddle builds from those which need no PopART. What an op
computes on an IPU is said in Python, by `openipu.register_custom_op`.
"""

from __future__ import annotations

import functools
import re
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from openipu.errors import OptionError
from openipu.translate.paddle import CustomName
from openipu_paddle.strategy import IpuStrategy

_SDK_HEADER = re.compile(rb'^\s*#\s*include\s*[<"](popart|poplar|poplibs|pop[a-z]+|poprithms)/', re.MULTILINE)
_SDK_LIBRARY = re.compile(r"-l(pop[a-z_]*|gcl)")
_LARGEST_SOURCE = 1 << 24


def install(paddle: Any) -> None:
    """Extend the function where scripts import it from."""
    module = paddle.utils.cpp_extension
    module.load = extend_load(module.load)


def extend_load(original: Callable[..., Any]) -> Callable[..., Any]:
    """`load` without what only an SDK could compile."""

    @functools.wraps(original)
    def load(name: str, sources: Sequence[str], *args: Any, extra_ldflags: Any = None, **kwargs: Any) -> Any:
        kept = [source for source in sources if not _needs_sdk(Path(source))]
        left = [source for source in sources if source not in kept]
        if left and not kept:
            raise OptionError(
                f"{left[0]} is for PopART, which is not here, and {name} has no other source that would declare its "
                "op to Paddle: add one with PD_BUILD_OP, and say what it computes with openipu.register_custom_op."
            )
        if left:
            warnings.warn(
                f"{', '.join(left)} is for PopART and is not compiled. Say what the op computes with "
                "openipu.register_custom_op, in Python.",
                stacklevel=2,
            )
        flags = None if extra_ldflags is None else [flag for flag in extra_ldflags if not _SDK_LIBRARY.fullmatch(flag)]
        return original(name, kept, *args, extra_ldflags=flags, **kwargs)

    return load


def _needs_sdk(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return _SDK_HEADER.search(file.read(_LARGEST_SOURCE)) is not None
    except OSError:
        return False  # Paddle says what is wrong with it


def read_custom_names(strategy: IpuStrategy) -> dict[str, CustomName]:
    """What `add_custom_op` said, by the types of Paddle's ops."""
    found = {}
    for entry in strategy._ipu_strategy.custom_ops:
        name = str(entry["paddle_op"])
        called = str(entry.get("popart_op") or name), str(entry.get("domain", "custom.ops"))
        found[name] = CustomName(*called, int(entry.get("version", 1)))
    return found
