"""Damage to zips: to what members hold, to their names, number and sizes, or to the bytes of the zip itself."""

from __future__ import annotations

import io
import struct
import warnings
import zipfile
from pathlib import Path
from random import Random

from fuzz.mutations.documents import mutate_json
from fuzz.mutations.raw import mutate_bytes

_NAMES = (
    "../../evil",
    "/tmp/evil",
    "a/b",
    "",
    "metadata.json",
    "program.json",
    "tensors.bin",
    "a\\b",
    "model.pickle",
    "x" * 300,
)
_STAMP = (1980, 1, 1, 0, 0, 0)


def mutate_zip(content: bytes, random: Random, scratch: Path) -> bytes:
    """One change of a member or of the directory."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as found:
            members = [(info.filename, found.read(info)) for info in found.infolist()]
    except Exception:
        return mutate_bytes(content, random, scratch)
    compression = zipfile.ZIP_DEFLATED
    place = random.randrange(len(members)) if members else 0
    match random.choice(
        ("inside", "inside", "inside", "inside", "bytes", "name", "drop", "double", "bomb", "many", "field", "way")
    ):
        case "inside" if members:
            name, held = members[place]
            mutate = mutate_json if name.endswith(".json") else mutate_bytes
            members[place] = (name, mutate(held, random, scratch))
        case "name" if members:
            members[place] = (random.choice(_NAMES) or "x", members[place][1])
        case "drop" if members:
            del members[place]
        case "double" if members:
            members.append((members[place][0], random.choice(members)[1]))
        case "bomb":
            members.append(
                (random.choice(("tensors.bin", "bomb", "program.bin")), bytes(random.choice((1, 40, 120)) << 20))
            )
        case "many":
            members += [(f"m{number}", b"") for number in range(random.choice((40, 3000)))]
        case "field":
            return _change_field(_pack(members, compression), random)
        case "way":
            compression = random.choice((zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA, zipfile.ZIP_STORED))
        case _:
            return mutate_bytes(content, random, scratch)
    return _pack(members, compression)


def _pack(members: list[tuple[str, bytes]], compression: int) -> bytes:
    buffer = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(buffer, "w") as made:
        warnings.simplefilter("ignore")  # of names that are there already
        for name, held in members:
            info = zipfile.ZipInfo(name, _STAMP)
            info.compress_type = compression
            made.writestr(info, held)
    return buffer.getvalue()


def _change_field(content: bytes, random: Random) -> bytes:
    """A number in the directory of the zip: flags, way of compression, sizes, place, or the count of members."""
    made = bytearray(content)
    entries = [place for place in range(len(made) - 46) if made[place : place + 4] == b"PK\x01\x02"]
    if entries and random.random() < 0.8:
        place = random.choice(entries) + random.choice((8, 10, 16, 20, 24, 28, 30, 42))
    else:
        place = made.rindex(b"PK\x05\x06") + random.choice((8, 10, 12, 16))
    struct.pack_into("<H", made, place, random.choice((0, 1, 8, 12, 14, 255, 65535)))
    if random.random() < 0.5:
        struct.pack_into("<H", made, place + 2, random.choice((0, 1, 255, 65535)))
    return bytes(made)
