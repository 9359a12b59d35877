"""The C++ text that makes vertices known to the runner.

In: the vertices of a file, by name. Out: a table of them with kinds, types and places of their fields, which templates
of `poplar/Codelet.hpp` fill in: the compiler knows what the reader of the source does not.
"""

from __future__ import annotations

from collections.abc import Sequence

from poplar.native.members import VertexSource

LIST_FUNCTION = "openipu_list_vertices"

# A vertex is not constructed to be measured: some cannot be.
_PLACE = "reinterpret_cast<std::size_t>(&reinterpret_cast<V{0} *>(4096)->{1}) - 4096"


def write_registration(vertices: Sequence[VertexSource]) -> str:
    """Text to stand after the preprocessed codelets, in the same translation unit."""
    lines = ['# 1 "table of vertices"', "namespace openipu { namespace table {"]
    entries = []
    for index, vertex in enumerate(vertices):
        fields = [
            f'describe<decltype(V{index}::{member})>("{member}", {_PLACE.format(index, member)})'
            for member in vertex.members
        ]
        lines += [
            f"using V{index} = ::{vertex.name};",
            f"static const FieldEntry fields{index}[] = {{ {', '.join([*fields, 'FieldEntry()'])} }};",
        ]
        entries.append(
            f'{{ "{_escape(vertex.name)}", nameBase<V{index}>(), sizeof(V{index}), alignof(V{index}), '
            f"fields{index}, {len(fields)}, findCompute<V{index}>(0) }}"
        )
    lines += [
        f"static const VertexEntry all[] = {{ {', '.join([*entries, 'VertexEntry()'])} }};",
        "} }",
        f'extern "C" const openipu::VertexEntry *{LIST_FUNCTION}() {{ return openipu::table::all; }}',
    ]
    return "\n".join(lines) + "\n"


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
