"""Damage that knows nothing of the content: flipped bits, lost ends, repeated and foreign pieces, wild numbers."""

from __future__ import annotations

from pathlib import Path
from random import Random

_WILD = [0, 1, -1, 127, 128, 255, 256, 32767, 65535, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**63, 2**64 - 1]


def mutate_bytes(content: bytes, random: Random, _: Path) -> bytes:
    """One change somewhere."""
    if not content:
        return random.randbytes(random.randrange(100))
    made = bytearray(content)
    place = random.randrange(len(made))
    length = min(len(made) - place, random.choice((1, 2, 4, 8, 100, 4096)))
    match random.choice(("flip", "flip", "set", "cut", "drop", "insert", "repeat", "wild", "fill")):
        case "flip":
            for _ in range(random.choice((1, 1, 4, 32))):
                made[random.randrange(len(made))] ^= 1 << random.randrange(8)
        case "set":
            made[place] = random.randrange(256)
        case "cut":
            del made[place:]
        case "drop":
            del made[place : place + length]
        case "insert":
            made[place:place] = random.randbytes(length)
        case "repeat":
            made[place:place] = made[place : place + length] * random.choice((1, 2, 100))
        case "wild":
            size = random.choice((1, 2, 4, 8))
            number = random.choice(_WILD) % (1 << 8 * size)
            made[place : place + size] = number.to_bytes(size, random.choice(("little", "big")))
        case "fill":
            made[place : place + length] = bytes([random.choice((0, 255))]) * length
    return bytes(made)
