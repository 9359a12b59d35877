"""`openipu cxx-flags`: what a compiler, make or CMake needs to build C++ programs written for Poplar.

In: which of it is wanted. Out: one line, or lines for a shell. The library is built when it is first asked for.
"""

from __future__ import annotations

import argparse
import importlib
import shlex
from pathlib import Path
from typing import Any

_EPILOG = """\
examples
  g++ -std=c++17 main.cpp $(openipu cxx-flags) -o main
  g++ -c part.cpp $(openipu cxx-flags --cflags)
  eval "$(openipu cxx-flags --environment)" && make        # Makefiles of the original, as they are
  cmake -DCMAKE_PREFIX_PATH=$(openipu cxx-flags --prefix) …  # find_package(poplar), targets poplar, popops, …
"""


def add_parser(
    subparsers: argparse._SubParsersAction[argparse.ArgumentParser], shared: argparse.ArgumentParser
) -> None:
    parser = subparsers.add_parser(
        "cxx-flags",
        parents=[shared],
        allow_abbrev=False,
        help="print what C++ programs written for Poplar are built with",
        description="Print flags, environment or folder that C++ programs written for Poplar are built with.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--cflags", action="store_true", help="only what compiling needs")
    choice.add_argument("--libs", action="store_true", help="only what linking needs")
    choice.add_argument("--environment", action="store_true", help="variables for a shell; then -lpoplar is enough")
    choice.add_argument("--prefix", action="store_true", help="the folder, for CMake")
    parser.set_defaults(execute=execute)


def execute(arguments: argparse.Namespace) -> int:
    from openipu.errors import OptionError

    prefixes: Any = importlib.import_module("poplar.native.prefix")
    try:
        prefix: Path = prefixes.find_prefix()
    except RuntimeError as error:  # the front end's own errors: no compiler, or one that refuses
        raise OptionError(str(error)) from error
    compiling = f"-isystem {shlex.quote(str(prefix / 'include'))}"
    linking = f"-L{shlex.quote(str(prefix / 'lib'))} -lpoplar"
    if arguments.environment:
        for name, path in (
            ("CPLUS_INCLUDE_PATH", prefix / "include"),
            ("LIBRARY_PATH", prefix / "lib"),
            ("CMAKE_PREFIX_PATH", prefix),
        ):
            print(f"export {name}={shlex.quote(str(path))}${{{name}:+:${name}}}")
    elif arguments.prefix:
        print(prefix)
    elif arguments.cflags:
        print(compiling)
    elif arguments.libs:
        print(linking)
    else:
        print(f"{compiling} {linking}")
    return 0
