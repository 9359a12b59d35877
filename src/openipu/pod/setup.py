"""Sets up this user's pod, or removes it: at once or not at all, and never under a program that runs on it.

In: a description. Out: the pod file that `find_pod` reads. Processes take turns, and while a pod is exchanged nobody
can attach to the old one. The pod file is written last: whoever is stopped before has set up nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from openipu.errors import PodError
from openipu.pod.attachment import list_attachments
from openipu.pod.description import PodDescription, write_fabric_file, write_pod_file
from openipu.pod.location import choose_pod_file, find_pod
from openipu.pod.pod import Pod
from openipu.store.locks import hold_file


def set_up_pod(pod: PodDescription, system: str | None = None, fabric_directory: Path | None = None) -> Path:
    """Let programs use this pod from now on. `system` names a file where the system is not of the catalog."""
    with _exchange() as path:
        if fabric_directory is not None:
            for partition in pod.partitions:
                write_fabric_file(partition, fabric_directory / f"{partition.name}_gcd0_ipuof.conf")
        write_pod_file(pod, path, system)
    return path


def remove_pod() -> None:
    """Forget the pod that was set up."""
    with _exchange() as path:
        try:
            path.unlink()
        except FileNotFoundError:
            raise PodError("No pod was created: there is nothing to remove.") from None


@contextmanager
def _exchange() -> Iterator[Path]:
    """Yield the path of the pod file to the one process whose turn it is, unless programs use the pod."""
    path = choose_pod_file()
    try:
        with hold_file(path.with_suffix(".lock")):
            present = _find_present()
            with hold_file(present.directory / "lock") if present is not None else nullcontext():
                if present is not None:
                    _refuse_while_in_use(present)
                yield path
    except OSError as error:
        raise PodError(
            f"Cannot set up the pod in {path.parent}: {error}. Check the rights and the free space there, or set "
            "OPENIPU_STATE_DIR to a directory of yours."
        ) from error


def _find_present() -> Pod | None:
    """The pod that programs use now; None where it refuses nobody, or where its file cannot be read."""
    try:
        pod = find_pod()
    except PodError:
        return None
    return None if pod.open else pod


def _refuse_while_in_use(pod: Pod) -> None:
    held = list_attachments(pod.directory)
    if held:
        pids = ", ".join(str(one.pid) for one in held)
        raise PodError(f"Pod {pod.description.name} is in use by process {pids}: end it first.")
