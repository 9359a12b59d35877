"""How replicas, instances and hosts of a job lie: the numbers, checked, and a picture of them.

In: counts and hosts. Out: a `Topology`, environments of instances, and text. Replicas divide evenly among instances,
instances evenly among hosts, and the replicas of an instance have neighbouring numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

from openipu.errors import OptionError

RUN_ID = "poprun"  # by which an instance knows that poprun's launcher started it


@dataclass(frozen=True, slots=True)
class Topology:
    """A job's shape."""

    hosts: tuple[str, ...]
    instances: int
    replicas: int
    ipus_per_replica: int

    @property
    def instances_per_host(self) -> int:
        return self.instances // len(self.hosts)

    @property
    def local_replicas(self) -> int:
        return self.replicas // self.instances

    def make_environment(self, instance: int) -> dict[str, str]:
        """What one instance finds in its environment, beside what torchrun sets."""
        local = instance % self.instances_per_host
        return {
            "POPDIST_NUM_TOTAL_REPLICAS": str(self.replicas),
            "POPDIST_NUM_LOCAL_REPLICAS": str(self.local_replicas),
            "POPDIST_NUM_IPUS_PER_REPLICA": str(self.ipus_per_replica),
            "POPDIST_NUM_INSTANCES": str(self.instances),
            "POPDIST_INSTANCE_INDEX": str(instance),
            "POPDIST_LOCAL_INSTANCE_INDEX": str(local),
            "OMPI_COMM_WORLD_SIZE": str(self.instances),
            "OMPI_COMM_WORLD_RANK": str(instance),
            "OMPI_COMM_WORLD_LOCAL_SIZE": str(self.instances_per_host),
            "OMPI_COMM_WORLD_LOCAL_RANK": str(local),
        }


def make_topology(hosts: list[str], instances: int, replicas: int, ipus_per_replica: int) -> Topology:
    """Check that everything divides evenly."""
    for option, count in (
        ("--num-instances", instances),
        ("--num-replicas", replicas),
        ("--ipus-per-replica", ipus_per_replica),
    ):
        if count < 1:
            raise OptionError(f"{option} must be at least 1, not {count}.")
    if replicas % instances:
        raise OptionError(
            f"{replicas} replicas cannot be divided evenly among {instances} instances: let --num-replicas be a "
            "multiple of --num-instances."
        )
    if instances % len(hosts):
        raise OptionError(
            f"{instances} instances cannot be divided evenly among {len(hosts)} hosts ({', '.join(hosts)}): let "
            "--num-instances be a multiple of the number of hosts."
        )
    doubled = sorted({host for host in hosts if hosts.count(host) > 1})
    if doubled:
        raise OptionError(f"Host {', '.join(doubled)} is named twice: name every host once.")
    return Topology(tuple(hosts), instances, replicas, ipus_per_replica)


def draw_topology(topology: Topology, width: int = 80) -> str:
    """A box with a row each for hosts, instances, replicas and IPUs."""
    rows = []
    for number, host in enumerate(topology.hosts):
        first = number * topology.instances_per_host
        instances = range(first, first + topology.instances_per_host)
        replicas = range(first * topology.local_replicas, (instances[-1] + 1) * topology.local_replicas)
        rows.append((host, _name_range(instances), _name_range(replicas), len(replicas) * topology.ipus_per_replica))
    lines = [
        ("hosts", [host for host, *_ in rows]),
        ("instances", [row[1] for row in rows]),
        ("replicas", [row[2] for row in rows]),
        ("IPUs", [str(row[3]) for row in rows]),
    ]
    widths = [max(len(values[column]) for _, values in lines) for column in range(len(rows))]
    texts = [
        f" {name:<9} | " + " | ".join(f"{value:^{size}}" for value, size in zip(values, widths, strict=True)) + " "
        for name, values in lines
    ]
    if len(texts[0]) + 2 > width:  # many hosts: a line each
        texts = [f" {host}: instances {own}, replicas {replicas}, {ipus} IPUs " for host, own, replicas, ipus in rows]
    size = max(map(len, texts))
    edge = "+" + "-" * size + "+"
    return "\n".join([edge, *(f"|{text:<{size}}|" for text in texts), edge])


def _name_range(numbers: range) -> str:
    return str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]}-{numbers[-1]}"
