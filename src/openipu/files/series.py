"""Compressed bytes inside a file.

In: a zlib stream and the largest size to accept. Out: its content. The stream is not read further than that.
"""

from __future__ import annotations

import zlib

from openipu.files.origin import Origin


def inflate(content: bytes, origin: Origin, largest: int) -> bytes:
    """What zlib packed, if it is whole and no larger than that."""
    stream = zlib.decompressobj()
    try:
        found = stream.decompress(content, largest + 1)
    except zlib.error as error:
        raise origin.fail(f"is damaged: {error}") from error
    if len(found) > largest:
        raise origin.fail(f"is damaged: it unpacks to more than {largest:,} bytes")
    if not stream.eof or stream.unused_data:
        raise origin.fail("is damaged: packed data end too early or too late")
    return found
