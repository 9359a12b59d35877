"""The IPUs of a pod, one by one, with the attributes that operators' tools and monitors read.

In: a pod and who holds what. Out: `Ipu`s and, for each, a dictionary of strings. There is no chip below, so what only a
sensor could tell, such as power and temperature, is "N/A".
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from openipu import __version__
from openipu.pod.attachment import Attachment
from openipu.pod.pod import Pod

MODELLED = "IPUModel"  # what `target` says of a device that is not one
UNKNOWN = "N/A"

_BOARD_TYPES = {"gc2": "C2", "gc200": "M2000", "bow": "BOW-2000", "c600": "C600"}


@dataclass(frozen=True, slots=True)
class Ipu:
    """One IPU of a partition."""

    id: int  # in the partition, as programs count
    number: int  # in the pod
    board: int
    index: int  # on its board; boards count down
    partition: str

    @property
    def host(self) -> str:
        return f"ipum{self.board}"

    @property
    def serial(self) -> str:
        return f"virtual.{self.board:04d}"


def list_ipus(pod: Pod, attachments: list[Attachment], *, all_partitions: bool = False) -> list[Ipu]:
    """The IPUs of a partition, or of all of them. The open pod grows, board by board, with what is attached."""
    per_board = pod.description.system.ipus_per_board
    found = []
    for partition in pod.description.partitions if all_partitions else (pod.partition,):
        count = partition.ipus
        if pod.open:
            used = max((one.first + one.ipus for one in attachments), default=0)
            count = max(count, -(-used // per_board) * per_board)
        for own in range(count):
            number = partition.first + own
            board, place = divmod(number, per_board)
            found.append(Ipu(own, number, board, per_board - 1 - place, partition.name))
    return found


def find_holder(ipu: Ipu, attachments: list[Attachment]) -> Attachment | None:
    """Who holds an IPU; in the open pod, the first of those who do."""
    for one in attachments:
        if one.partition == ipu.partition and ipu.id in one.numbers:
            return one
    return None


def name_board(pod: Pod) -> str:
    target = pod.description.system.target.name
    return _BOARD_TYPES.get(target, target)


def describe_attributes(pod: Pod, ipu: Ipu, holder: Attachment | None) -> dict[str, str]:
    """All attributes of one IPU, by the names that monitors know. Those of a process are there only while one is."""
    system = pod.description.system
    target = system.target
    attributes = {
        "id": str(ipu.id),
        "target": MODELLED,
        "average board temp": UNKNOWN,
        "average die temp": UNKNOWN,
        "board ipu index": str(ipu.index),
        "board serial number": ipu.serial,
        "board type": name_board(pod),
        "clock": f"{target.clock_hz / 1e6:.0f}MHz",
        "driver version": f"openipu {__version__}",
        "firmware version": UNKNOWN,
        "ipu architecture": target.architecture,
        "ipu error state": UNKNOWN,
        "ipu power": UNKNOWN,
        "ipu utilisation": UNKNOWN,
        "ipu utilisation (session)": UNKNOWN,
        "link correctable error count": UNKNOWN,
        "partition": ipu.partition,
        "remote buffers supported": "1" if system.streaming_memory_bytes else "0",
        "system": system.name,
        "tile memory": f"{target.tile_memory_bytes}",
        "tiles": str(target.tiles),
        "total board power": UNKNOWN,
    }
    if holder is not None:
        attributes |= {
            "process start time": time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(holder.started)),
            "user executable": holder.command,
            "user host": holder.host,
            "user name": holder.user,
            "user process id": str(holder.pid),
        }
    return attributes
