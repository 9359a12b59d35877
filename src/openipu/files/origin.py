"""How errors speak of what is being read.

In: a name, the error class of its kind, and advice. Out: errors that say which file, what is wrong, what to do next.
"""

from __future__ import annotations

from dataclasses import dataclass

from openipu.errors import OpenIpuError

_LONGEST = 300  # letters of a file's own content that a message repeats


def shorten(value: object, longest: int = 100) -> str:
    """What a message shows of a value that somebody else chose."""
    text = repr(value)
    return text if len(text) <= longest else f"{text[:longest]}…"


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a text or a file is from."""

    name: str  # as messages call it: a path, an environment variable, "the pod file …"
    error: type[OpenIpuError]
    advice: str  # a sentence

    def fail(self, problem: object) -> OpenIpuError:
        """The error to raise. `problem` goes on after the name: "is not JSON"."""
        said = "".join(letter if letter.isprintable() else " " for letter in str(problem))
        said = said if len(said) <= _LONGEST else f"{said[:_LONGEST]}…"
        return self.error(f"{self.name} {said.rstrip('.')}. {self.advice}")

    def within(self, part: str) -> Origin:
        """A part of this: "table ops", "member program.json"."""
        return Origin(f"{self.name}, {part},", self.error, self.advice)
