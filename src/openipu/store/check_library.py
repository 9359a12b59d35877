"""Load a library and compare what it exports: `python -I check_library.py LIBRARY SYMBOL=BYTES …`.

In: the functions that it must have, and the sizes of their structs. Out: exit code 0, or what is wrong in one line.
It runs in a process of its own, which a broken library may end. Nothing outside of the standard library is imported.
"""

from __future__ import annotations

import ctypes
import sys


def explain_unusable(path: str, sizes: dict[str, int]) -> str | None:
    """Why a library cannot be used."""
    try:
        library = ctypes.CDLL(path)
        for symbol, expected in sizes.items():
            library[symbol]  # is there
            measure = library[f"{symbol}_argument_bytes"]
            measure.restype = ctypes.c_int64
            if (found := int(measure())) != expected:
                return f"{symbol} reads {found} bytes, not {expected}"
    except (OSError, AttributeError) as error:
        return str(error)
    return None


def main() -> int:
    path, *described = sys.argv[1:]
    pairs = (text.partition("=") for text in described)
    reason = explain_unusable(path, {symbol: int(size) for symbol, _, size in pairs})
    if reason is not None:
        print(f"the library cannot be used: {reason}", file=sys.stderr)
    return 0 if reason is None else 3


if __name__ == "__main__":
    sys.exit(main())
