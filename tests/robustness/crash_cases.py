"""What is killed: five kinds of work, each a row of numbered steps that leave a state which can be read back.

In: a directory and the number of a step. Out: the work done, or `read`: the number of the last step that took effect.
A step that was killed took effect wholly or not at all, and the next one removes what it left behind.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import torch

import poptorch
from openipu.files.saving import PART_SUFFIX
from openipu.graph.serial.archive import Archive, read_archive, write_archive
from openipu.machine import resolve_system
from openipu.pod import STATE_VARIABLE, find_pod, set_up_pod
from openipu.pod.description import describe_pod
from openipu.report import build_profile, read_profile, write_html, write_profile
from openipu.store import make_key, open_store
from openipu.store.directories import HOLD, USE, WRITE, list_entries
from openipu.store.entry import MANIFEST, read_manifest

_KEYS = 4
_LARGEST_BYTES = 400_000


class Case(Protocol):
    """One kind of work in a directory of its own."""

    name: str

    def step(self, directory: Path, number: int) -> None:
        """Do one step; when it returns, its effect lasts."""
        ...

    def read(self, directory: Path, done: int) -> int:
        """Check that all is whole, and say which step took effect last: `done`, which returned, or the one after it."""
        ...

    def list_left(self, directory: Path) -> Iterator[Path]:
        """Files that no step of a living process needs."""
        ...


class StoreCase:
    """Entries of the cache, replaced over and over. Every key holds what its last step wrote."""

    name = "store"

    def step(self, directory: Path, number: int) -> None:
        entry = open_store(directory).write(_name_key(number), {"content": make_bytes(number)}, {"step": number})
        assert entry is not None
        entry.close()

    def read(self, directory: Path, done: int) -> int:
        store, newest = open_store(directory), done
        assert store.verify() == ()
        for step in range(max(1, done - _KEYS + 1), done + 1):
            entry = store.read(_name_key(step))
            assert entry is not None, f"step {step} is lost"
            found = int(entry.description["step"])
            assert found in (step, done + 1), f"step {step} is lost: there is step {found}"
            assert entry.read("content") == make_bytes(found)
            newest = max(newest, found)
            entry.close()
        return newest

    def list_left(self, directory: Path) -> Iterator[Path]:
        yield from _list_left_in_store(directory)


class CheckpointCase:
    """One file of JSON and tensors, as exported programs and checkpoints are."""

    name = "checkpoint"

    def step(self, directory: Path, number: int) -> None:
        generator = torch.Generator().manual_seed(number)
        tensors = {"weight": torch.rand(64, 256, generator=generator), "bias": torch.rand(64, generator=generator)}
        write_archive(directory / "checkpoint", Archive("checkpoint", {"step": number}, tensors))

    def read(self, directory: Path, done: int) -> int:
        found = read_archive(directory / "checkpoint", "checkpoint")
        number = int(found.values["step"])
        generator = torch.Generator().manual_seed(number)
        assert torch.equal(found.tensors["weight"], torch.rand(64, 256, generator=generator))
        assert torch.equal(found.tensors["bias"], torch.rand(64, generator=generator))
        return number

    def list_left(self, directory: Path) -> Iterator[Path]:
        yield from (path for path in directory.iterdir() if path.name != "checkpoint")


class ProfileCase:
    """A profile and its page, written again and again."""

    name = "profile"

    def __init__(self) -> None:
        model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8))
        executor = poptorch.inferenceModel(model, _make_options())
        executor.compile(torch.ones(4, 32))
        self._profile = build_profile(executor._compiled.plan)
        executor.destroy()

    def step(self, directory: Path, number: int) -> None:
        profile = replace(self._profile, name=str(number))
        write_html(profile, directory / "report.html")
        write_profile(profile, directory)

    def read(self, directory: Path, done: int) -> int:
        page = (directory / "report.html").read_text(encoding="utf-8")
        assert page.rstrip().endswith("</html>"), "the page is cut off"
        found = read_profile(directory)
        assert len(found.steps) == len(self._profile.steps)
        return int(found.name)

    def list_left(self, directory: Path) -> Iterator[Path]:
        yield from (path for path in directory.iterdir() if path.name not in ("report.html", "profile.pop"))


class PodCase:
    """A pod that is set up anew, and a program that attaches to it."""

    name = "pod"

    def step(self, directory: Path, number: int) -> None:
        os.environ[STATE_VARIABLE] = str(directory)
        system = resolve_system(("bow-2000", "bow-pod16")[number % 2])
        set_up_pod(describe_pod(f"pod-{number}", system, [("a", 2), ("b", 2)]), None, directory / "fabric")
        lease = find_pod().attach(2)
        assert lease is not None
        lease.release()

    def read(self, directory: Path, done: int) -> int:
        os.environ[STATE_VARIABLE] = str(directory)
        pod = find_pod()
        assert pod.list_attachments(all_partitions=True) == [], "IPUs are held by a process that is gone"
        lease = pod.attach(2)
        assert lease is not None
        lease.release()
        return int(pod.description.name.removeprefix("pod-"))

    def list_left(self, directory: Path) -> Iterator[Path]:
        kept = {"pod.toml", "pod.lock", "lock", "a_gcd0_ipuof.conf", "b_gcd0_ipuof.conf"}
        yield from (path for path in directory.rglob("*") if path.is_file() and path.name not in kept)


class CompileCase:
    """Programs that are compiled into a cache, run, and compared with eager PyTorch."""

    name = "compile"

    def step(self, directory: Path, number: int) -> None:
        os.environ[STATE_VARIABLE] = str(directory / "state")
        torch.manual_seed(number)
        model = torch.nn.Linear(8, 3 + number)
        inputs = torch.rand(2, 8)
        executor = poptorch.inferenceModel(model, _make_options().enableExecutableCaching(str(directory / "cache")))
        torch.testing.assert_close(executor(inputs), model(inputs))
        executor.destroy()

    def read(self, directory: Path, done: int) -> int:
        store = open_store(directory / "cache")
        assert store.verify() == ()
        assert len(store.list()) >= done, "a plan that was stored is lost"
        self.step(directory, done)  # from the cache, or compiled again
        assert find_pod().list_attachments(all_partitions=True) == [], "IPUs are held by a process that is gone"
        return max(done, len(store.list()))

    def list_left(self, directory: Path) -> Iterator[Path]:
        yield from _list_left_in_store(directory / "cache")
        state = directory / "state"
        yield from (path for path in state.rglob("*") if path.is_file() and path.name != "lock")


def make_cases() -> list[Case]:
    """All kinds of work, and whatever they share made ready."""
    return [StoreCase(), CheckpointCase(), ProfileCase(), PodCase(), CompileCase()]


def make_bytes(number: int) -> bytes:
    """The content of a step: always the same, of a size of its own."""
    source = random.Random(number)
    return source.randbytes(source.randrange(1000, _LARGEST_BYTES))


def list_parts(directory: Path) -> list[Path]:
    """Files that were about to be saved."""
    return list(directory.rglob(f".*{PART_SUFFIX}"))


def _make_options() -> poptorch.Options:
    return poptorch.Options().showCompilationProgressBar(False)


def _name_key(number: int) -> str:
    return make_key({"key": number % _KEYS})


def _list_left_in_store(directory: Path) -> Iterator[Path]:
    open_store(directory).prune()  # as the next write of another entry does: old content may have readers until then
    entries = list_entries(directory)
    yield from (path for path in directory.iterdir() if path not in entries)
    for entry in entries:
        named = {part.file for part in read_manifest(entry).parts.values()} | {MANIFEST, USE, HOLD, WRITE}
        yield from (path for path in entry.iterdir() if path.name not in named)
