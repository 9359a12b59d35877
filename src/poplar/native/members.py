"""Which vertices a codelet file defines, and how their members are called.

In: preprocessed C++. Out: `VertexSource` for each class that descends from a vertex, and each explicit instantiation.
Only names are read here: what kind, type and place a member has, the compiler itself says (`registration.py`). Text of
system headers is passed over by the line markers. What cannot be read is left for the compiler to complain about.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

BASES = ("Vertex", "MultiVertex", "SupervisorVertex")

_TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|[A-Za-z_]\w*|\d[\w.\']*|::|->|\[\[|\]\]|\S')
_MARKER = re.compile(r'# \d+ "(?:\\.|[^"\\])*"([ \d]*)$')
_RAW_STRING = re.compile(r'R"([^\s()\\]{0,16})\(.*?\)\1"', re.DOTALL)
_PAIRS = {"(": ")", "{": "}", "[": "]", "[[": "]]"}
_NOT_MEMBERS = ("using", "typedef", "static", "friend", "template", "static_assert", "enum", "union", "operator")
_ACCESS = ("public", "private", "protected")


@dataclass(frozen=True)
class VertexSource:
    """A vertex as it is called in a program, with the names of its members in the order of their definition."""

    name: str
    members: tuple[str, ...]


@dataclass
class _Class:
    name: str  # with its namespaces
    template: bool
    bases: tuple[str, ...]
    members: list[str] = field(default_factory=list)


@dataclass
class _Found:
    classes: list[_Class] = field(default_factory=list)
    instances: list[tuple[str, str]] = field(default_factory=list)  # namespace, `Name<float>`


def find_vertices(preprocessed: str) -> tuple[VertexSource, ...]:
    """Every vertex of the text that is not in a system header."""
    found = _Found()
    _Reader(list(_tokenise(preprocessed)), found).read_scope("")
    return tuple(_select(found))


def strip_targets(preprocessed: str) -> str:
    """Without the attributes that only the compiler for tiles knows."""
    return re.sub(r"__attribute__\s*\(\(\s*(?:target\s*\([^()]*\)|colwise|rowwise)\s*\)\)", "", preprocessed)


def _tokenise(text: str) -> Iterator[str]:
    own = []
    skipping = False
    for line in _RAW_STRING.sub('""', text).splitlines():
        if line.startswith("# "):
            marker = _MARKER.match(line)
            if marker is not None:
                skipping = "3" in marker.group(1).split()
            continue
        if not skipping and not line.startswith("#"):
            own.append(line)
    return (match.group() for match in _TOKEN.finditer("\n".join(own)))


class _Reader:
    """Walks over namespaces and classes; everything else is stepped over in balanced pieces."""

    def __init__(self, tokens: list[str], found: _Found) -> None:
        self._tokens = tokens
        self._at = 0
        self._found = found

    def read_scope(self, space: str) -> None:
        """Declarations up to the closing brace, or to the end."""
        while self._at < len(self._tokens):
            token = self._peek()
            if token == "}":
                self._at += 1
                return
            if token == "namespace" or (token == "inline" and self._peek(1) == "namespace"):
                self._read_namespace(space)
            elif token == "extern" and self._peek(1).startswith('"') and self._peek(2) == "{":
                self._at += 3
                self.read_scope(space)
            elif token == "template":
                self._read_template(space)
            elif token in ("class", "struct"):
                self._read_class(space, template=False)
            else:
                self._step_over()

    def _peek(self, ahead: int = 0) -> str:
        place = self._at + ahead
        return self._tokens[place] if place < len(self._tokens) else ""

    def _read_namespace(self, space: str) -> None:
        while self._peek() not in ("{", ";", "=", ""):
            token = self._peek()
            if token == "[[":
                self._skip_pair()
                continue
            if token not in ("namespace", "inline", "::") and token.isidentifier():
                space = f"{space}{token}::"
            self._at += 1
        if self._peek() == "{":
            self._at += 1
            self.read_scope(space)
        else:
            self._step_over()

    def _read_template(self, space: str) -> None:
        self._at += 1
        if self._peek() == "<":
            specialised = self._peek(1) == ">"
            self._skip_angles()
            if self._peek() == "template":
                self._read_template(space)
            elif self._peek() in ("class", "struct"):
                self._read_class(space, template=not specialised)
            else:
                self._step_over()
            return
        if self._peek() in ("class", "struct"):
            self._at += 1
            start = self._at
            while self._peek() not in (";", "{", ""):
                self._at += 1
            self._found.instances.append((space, join_tokens(self._tokens[start : self._at])))
        self._step_over()

    def _read_class(self, space: str, *, template: bool) -> None:
        """From `class` to what follows its body."""
        self._at += 1
        name = self._read_class_name()
        bases: list[str] = []
        if self._peek() == "final":
            self._at += 1
        if self._peek() == ":":
            self._at += 1
            bases = self._read_bases()
        if self._peek() != "{":
            self._step_over()
            return
        described = _Class(f"{space}{name}", template and "<" not in name, tuple(bases))
        self._at += 1
        self._read_body(described)
        if (name and "<" not in described.name) or not template:
            self._found.classes.append(described)
        self._step_over()  # `;`, or variables of the class

    def _read_class_name(self) -> str:
        name = ""
        while self._peek() not in (":", "{", ";", "final", ""):
            token = self._peek()
            if token == "[[":
                self._skip_pair()
            elif token in ("__attribute__", "alignas"):
                self._at += 1
                self._skip_pair()
            elif token == "<":
                start = self._at
                self._skip_angles()
                name += join_tokens(self._tokens[start : self._at])
            elif token.isidentifier() or token == "::":
                name = name + token if token == "::" or name.endswith("::") else token
                self._at += 1
            else:
                return name
        return name

    def _read_bases(self) -> list[str]:
        """The last name of each base, without what is in angle brackets."""
        bases, last = [], ""
        while self._peek() not in ("{", ";", ""):
            token = self._peek()
            if token == "<":
                self._skip_angles()
                continue
            if token == ",":
                bases.append(last)
            elif token.isidentifier() and token not in (*_ACCESS, "virtual"):
                last = token
            self._at += 1
        return [*bases, last]

    def _read_body(self, owner: _Class) -> None:
        while self._at < len(self._tokens) and self._peek() != "}":
            token = self._peek()
            if token in _ACCESS and self._peek(1) == ":":
                self._at += 2
            elif token in ("class", "struct"):
                self._read_inner_class(owner)
            elif token in _NOT_MEMBERS:
                self._step_over()
            else:
                self._read_member(owner)
        self._at += 1

    def _read_inner_class(self, owner: _Class) -> None:
        """A class in a class, and the members of that type that may follow; or `struct Known member;`."""
        ahead = self._at
        while ahead < len(self._tokens) and self._tokens[ahead] not in ("{", ";", "("):
            ahead += 1
        self._at += 1
        if self._tokens[ahead : ahead + 1] == ["{"]:
            self._at = ahead
            self._skip_pair()
            if self._peek() == ";":
                self._at += 1
                return
        self._read_member(owner)

    def _read_member(self, owner: _Class) -> None:
        names: list[str] = []
        last = ""
        while self._at < len(self._tokens):
            token = self._peek()
            if token in ("__attribute__", "alignas", "decltype"):
                self._at += 1
                self._skip_pair()
            elif token == "[[":
                self._skip_pair()
            elif token == "<":
                self._skip_angles()
            elif token == "(":  # a function
                self._step_over()
                return
            elif token in (",", ";", "=", "{", "[", ":"):
                names.append(last)
                self._skip_initialiser()
                if self._peek() != ",":
                    break
                self._at += 1
            elif token == "}":
                return
            else:
                last = token if token.isidentifier() else last
                if token == "operator":
                    self._step_over()
                    return
                self._at += 1
        owner.members += [name for name in names if name and name not in ("const", "volatile", "mutable")]
        if self._peek() == ";":
            self._at += 1

    def _skip_initialiser(self) -> None:
        """Up to the comma or semicolon after a member."""
        while self._peek() not in (",", ";", "}", ""):
            if self._peek() in _PAIRS:
                self._skip_pair()
            elif self._peek() == "<":
                self._at += 1  # a comparison
            else:
                self._at += 1

    def _step_over(self) -> None:
        """One declaration: up to its semicolon, or the brace that ends its body."""
        while self._at < len(self._tokens):
            token = self._peek()
            if token == ";":
                self._at += 1
                return
            if token == "}":
                return
            if token in _PAIRS:
                self._skip_pair()
                if token == "{" and self._peek() not in (";", ",", "=", "{"):
                    return
            else:
                self._at += 1

    def _skip_pair(self) -> None:
        depth = 0
        while self._at < len(self._tokens):
            token = self._peek()
            self._at += 1
            if token in _PAIRS:
                depth += 1
            elif token in _PAIRS.values():
                depth -= 1
                if depth == 0:
                    return

    def _skip_angles(self) -> None:
        depth = 0
        while self._at < len(self._tokens):
            token = self._peek()
            if token in ("(", "{", "["):
                self._skip_pair()
                continue
            if token in (";", "}"):
                return
            self._at += 1
            depth += (token == "<") - (token == ">")
            if depth == 0:
                return


def join_tokens(tokens: list[str]) -> str:
    """Text with blanks only where words would run together."""
    text = ""
    for token in tokens:
        between = (
            " " if text and (text[-1].isalnum() or text[-1] == "_") and (token[0].isalnum() or token[0] == "_") else ""
        )
        text += between + token
    return text


def _select(found: _Found) -> Iterator[VertexSource]:
    by_name: dict[str, _Class] = {}
    for entry in found.classes:
        by_name.setdefault(_last_name(entry.name), entry)

    def descends(entry: _Class, seen: frozenset[str] = frozenset()) -> bool:
        return any(
            base in BASES or (base in by_name and base not in seen and descends(by_name[base], seen | {base}))
            for base in entry.bases
        )

    def collect(entry: _Class, seen: frozenset[str] = frozenset()) -> list[str]:
        inherited = [
            name
            for base in entry.bases
            if base in by_name and base not in seen
            for name in collect(by_name[base], seen | {base})
        ]
        return [*inherited, *entry.members]

    for entry in found.classes:
        if not entry.template and descends(entry):
            yield VertexSource(entry.name, tuple(dict.fromkeys(collect(entry))))
    for space, instance in found.instances:
        name = _last_name(instance.partition("<")[0])
        template = by_name.get(name)
        if template is not None and descends(template):
            full = template.name + instance[instance.index("<") :] if "<" in instance else f"{space}{instance}"
            yield VertexSource(full, tuple(dict.fromkeys(collect(template))))


def _last_name(name: str) -> str:
    return name.partition("<")[0].rpartition("::")[2]
