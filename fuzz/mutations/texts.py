"""Damage to texts of lines and words: TOML, CSV, lists of hosts."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random

from fuzz.mutations.raw import mutate_bytes

_WORD = re.compile(r"[\w.+-]+|\"[^\"\n]*\"")
_WORDS = (
    "inf",
    "-inf",
    "nan",
    "1e400",
    "-1",
    "0",
    "0.5",
    "true",
    '""',
    "[]",
    "{}",
    "[[1], [2]]",
    "9" * 30,
    "9" * 5000,
    "1e-320",
    '"' + "x" * 5000 + '"',
    "[" * 2000,
    "{a = " * 300,
    "1979-05-27",
    "0x7fffffffffffffff",
    "../../../etc/passwd",
    "/dev/zero",
    "'",
    '"',
    "\x00",
    "\x1b[2J",
    "\ud7ff",
    "a." * 3000 + "b",
    "a." * 150 + "b",
    "-oProxyCommand=x",
    "[0-999999999]",
    "²",
    "-",
)


def mutate_text(content: bytes, random: Random, scratch: Path) -> bytes:
    """One word, one line, or a few bytes."""
    text = content.decode("utf-8", errors="replace")
    lines = text.splitlines(keepends=True)
    words = list(_WORD.finditer(text))
    match random.choice(("word", "word", "word", "exchange", "drop", "repeat", "many", "bytes")):
        case "word" if words:
            word = random.choice(words)
            text = text[: word.start()] + random.choice(_WORDS) + text[word.end() :]
        case "exchange" if words:
            one, other = random.choice(words), random.choice(words)
            text = text[: one.start()] + other[0] + text[one.end() :]
        case "drop" if lines:
            del lines[random.randrange(len(lines))]
            text = "".join(lines)
        case "repeat" if lines:
            lines.insert(random.randrange(len(lines)), random.choice(lines))
            text = "".join(lines)
        case "many" if lines:
            text += random.choice(lines) * random.choice((10, 1000))
        case _:
            return mutate_bytes(content, random, scratch)
    return text.encode("utf-8", errors="replace")
