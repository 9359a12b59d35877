"""What trackers wrote, read back: by TensorBoard's own reader, and W&B's records by its package's own messages."""

from __future__ import annotations

import json
import struct
from pathlib import Path


def read_tensorboard(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """Steps and values of each scalar."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found: dict[str, list[tuple[int, float]]] = {}
    for place in {file.parent for file in folder.rglob("events.out.tfevents.*")}:
        events = EventAccumulator(str(place))
        events.Reload()
        for tag in events.Tags()["scalars"]:
            found.setdefault(tag, []).extend((event.step, event.value) for event in events.Scalars(tag))
    return found


def read_wandb(folder: Path) -> dict[str, list[float]]:
    """Values of each key, in order, from the file of an offline run."""
    from wandb.proto.wandb_internal_pb2 import Record

    (file,) = folder.glob("*.wandb")
    found: dict[str, list[float]] = {}
    for data in _list_records(file.read_bytes()):
        record = Record()
        record.ParseFromString(data)
        for item in record.history.item:
            name = item.key or "/".join(item.nested_key)
            found.setdefault(name, []).append(json.loads(item.value_json))
    return found


def _list_records(content: bytes) -> list[bytes]:
    """LevelDB's log format after a head of seven bytes: blocks of 32 KiB with whole records and parts of records."""
    block, at, records, parts = 32 * 1024, 7, [], b""
    while at + 7 <= len(content):
        if block - at % block < 7:
            at += block - at % block
            continue
        _, size, kind = struct.unpack_from("<IHB", content, at)
        parts += content[at + 7 : at + 7 + size]
        at += 7 + size
        if kind in (1, 4):  # whole, or the last part
            records.append(parts)
            parts = b""
    return records
