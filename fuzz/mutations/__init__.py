"""Ways to damage a file, by the kind of its content: {ending of a seed: function}.

In: bytes, a random generator, a directory for scratch files. Out: other bytes. The same generator makes the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

from fuzz.mutations.databases import mutate_database
from fuzz.mutations.documents import mutate_json
from fuzz.mutations.raw import mutate_bytes
from fuzz.mutations.texts import mutate_text
from fuzz.mutations.zips import mutate_zip

Mutation = Callable[[bytes, Random, Path], bytes]

MUTATE: dict[str, Mutation] = {
    ".bin": mutate_bytes,
    ".txt": mutate_text,
    ".toml": mutate_text,
    ".csv": mutate_text,
    ".json": mutate_json,
    ".zip": mutate_zip,
    ".db": mutate_database,
}
