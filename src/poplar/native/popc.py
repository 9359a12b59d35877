"""`popc`: compile codelets into a bundle for `addCodelets`.

In: a C++ file, and the flags that build files of the original use. Out: a `.gp` file. The source is compiled at once,
so that mistakes show here and the engine finds it in the cache.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from openipu.errors import OpenIpuError
from poplar._errors import poplar_error
from poplar.native.bundle import BUNDLE_SUFFIX, write_bundle
from poplar.native.library import CodeletSource, compile_codelets, preprocess, read_source

_COMPILER_FLAGS = ("-I", "-D", "-U", "-isystem", "-include", "-std", "-W", "-f", "-m")


def main(arguments: list[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        prog="popc",
        description="Compile C++ codelets for this machine's processor into a bundle that Graph.addCodelets takes.",
        epilog="Flags for the compiler (-I, -D, -U, -isystem, -include, -std=…, -W…, -f…) are passed on; -O… and -g "
        "have no effect, because the cache holds one build of a source.",
    )
    parser.add_argument("sources", nargs="*", metavar="file.cpp", type=Path)
    parser.add_argument("-o", dest="output", type=Path, help="where to write the bundle (default: a.gp)")
    parser.add_argument("--target", "-target", default="cpu", help="accepted: code is always made for this machine")
    parser.add_argument("-M", dest="only_dependencies", action="store_true", help=argparse.SUPPRESS)
    given, passed = _split(sys.argv[1:] if arguments is None else arguments)
    options = parser.parse_args(given)
    if not options.sources:
        parser.error("name a C++ file of codelets")
    output = options.output or Path(f"a{BUNDLE_SUFFIX}")
    try:
        text = _join(options.sources, tuple(passed))
        compile_codelets(text)
        write_bundle(output, text)
    except (poplar_error, OpenIpuError) as error:
        print(f"popc: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"popc: {output} cannot be written: {error.strerror}.", file=sys.stderr)
        return 1
    return 0


def _join(paths: list[Path], flags: tuple[str, ...]) -> CodeletSource:
    """Several files are one bundle: each is included in one text."""
    if len(paths) == 1:
        source = read_source(paths[0], flags)
    else:
        for path in paths:
            read_source(path)
        includes = "".join(f'#include "{path.resolve()}"\n' for path in paths)
        source = CodeletSource(includes, ", ".join(map(str, paths)), Path.cwd(), flags)
    return replace(source, text=preprocess(source), preprocessed=True, flags=(), folder=None)


def _split(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Our own arguments, and the compiler's."""
    own: list[str] = []
    passed: list[str] = []
    rest = iter(arguments)
    for argument in rest:
        if argument.startswith(("-O", "-g")):
            continue
        if argument.startswith(_COMPILER_FLAGS) and not argument.startswith("-M"):
            passed.append(argument)
            if argument in ("-I", "-D", "-U", "-isystem", "-include"):
                passed.append(next(rest, ""))
        else:
            own.append(argument)
    return own, passed


if __name__ == "__main__":
    sys.exit(main())
