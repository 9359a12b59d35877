"""Names of codelets that are templates.

In: a name as a program writes it. Out: one spelling: `Foo<unsigned int, true>` and `Foo<unsigned,true>` are one.
"""

from __future__ import annotations

_SPELLINGS = (
    ("unsignedint", "unsigned"),
    ("unsignedshortint", "unsignedshort"),
    ("unsignedcharint", "unsignedchar"),
    ("poplar::half", "half"),
)


def normalise_name(name: str) -> str:
    """The spelling under which a codelet is known."""
    if "<" not in name:
        return name
    squeezed = "".join(name.split())
    for long, short in _SPELLINGS:
        squeezed = squeezed.replace(long, short)
    return squeezed
