"""Requests about engines, executables and reports."""

from __future__ import annotations

import io
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np

from openipu.graph.mapped import StreamKind, View
from poplar._errors import poplar_error, stream_connection_error, tensor_io_state_error
from poplar.execution.engine import Engine, Executable, compileGraph
from poplar.server.devices import _find_device
from poplar.server.programs import build_programs
from poplar.server.session import Session, at_line, handles
from poplar.server.streams import RemoteCallback, RemoteFunction, RemotePrinter, RemoteRing
from poplar.server.wire import Handle


@dataclass(slots=True, eq=False)
class KeptEngine:
    """An engine and the program's buffers that its streams go to."""

    engine: Engine
    rings: list[RemoteRing] = field(default_factory=list)


def _keep(session: Session, engine: Engine) -> int:
    number = session.keep(KeptEngine(engine))
    engine.setPrintTensorStream(cast(Any, RemotePrinter(session.channel, number)))
    return number


@handles("compile")
def compile_program(
    session: Session, graph: Handle, programs: list[Any], options: dict[str, str], context: list[Any]
) -> int:
    found = session.find(graph)
    with at_line(context) as name:
        return session.keep(compileGraph(found, build_programs(session, found, programs), options, None, name))


@handles("executable.serialize")
def serialize(session: Session, executable: Handle) -> bytes:
    with tempfile.TemporaryDirectory(prefix="openipu-executable-") as folder:
        path = Path(folder) / "executable"
        session.find(executable).serialize(str(path))
        return path.read_bytes()


@handles("executable.deserialize")
def deserialize(session: Session, content: bytes) -> int:
    with tempfile.TemporaryDirectory(prefix="openipu-executable-") as folder:
        path = Path(folder) / "executable"
        path.write_bytes(content)
        return session.keep(cast(Any, Executable).deserialize(str(path)))


@handles("engine.create")
def create(session: Session, graph: Handle, programs: list[Any], options: dict[str, str]) -> int:
    found = session.find(graph)
    return _keep(session, Engine(found, build_programs(session, found, programs), options))


@handles("engine.open")
def open_executable(session: Session, executable: Handle, options: dict[str, str]) -> int:
    return _keep(session, Engine(session.find(executable), options))


@handles("engine.close")
def close(session: Session, engine: Handle) -> None:
    session.drop(engine)


@handles("engine.load")
def load(session: Session, engine: Handle, device: Handle) -> None:
    session.find(engine).engine.load(_find_device(session, device))


@handles("engine.run")
def run(session: Session, engine: Handle, number: int, name: str) -> None:
    kept = session.find(engine)
    try:
        kept.engine.run(number, name)
    finally:
        for ring in kept.rings:
            ring.forget()


def _find_view(engine: Engine, handle: str, *, written: bool) -> View:
    views = engine._program.host_writes if written else engine._program.host_reads
    if handle not in views:
        listed = ", ".join(repr(one) for one in views) or "none"
        maker = "createHostWrite" if written else "createHostRead"
        raise tensor_io_state_error(f"There is no handle {handle!r}: make it with graph.{maker}. Handles: {listed}.")
    return views[handle]


@handles("engine.sizeOf")
def size_of(session: Session, engine: Handle, handle: str, written: bool) -> int:
    return _find_view(session.find(engine).engine, handle, written=written).bytes


@handles("engine.writeTensor")
def write_tensor(session: Session, engine: Handle, handle: str, content: bytes) -> None:
    found = session.find(engine).engine
    view = _find_view(found, handle, written=True)
    if len(content) % view.type.bytes:
        raise tensor_io_state_error(
            f"writeTensor({handle!r}): {len(content)} bytes are no whole number of elements of {view.type}."
        )
    found.writeTensor(handle, np.frombuffer(content, dtype=view.type.dtype))


@handles("engine.readTensor")
def read_tensor(session: Session, engine: Handle, handle: str) -> bytes:
    return bytes(np.ascontiguousarray(session.find(engine).engine.readTensor(handle)).tobytes())


@handles("engine.connectStream")
def connect_stream(session: Session, engine: Handle, handle: str, size: int) -> None:
    """A buffer of so many bytes, as a ring; without an end if `size` is negative."""
    kept = session.find(engine)
    stream = kept.engine._program.streams[kept.engine._find_stream(handle)]
    one = stream.elements * stream.type.bytes
    if size >= 0 and (size < one or size % one):
        raise stream_connection_error(
            f"Stream {handle!r} moves {one} bytes at a time ({stream.elements} elements of {stream.type}), and the "
            f"buffer has {size}: it must have a whole multiple of that."
        )
    ring = RemoteRing(session.channel, engine.number, handle, outward=stream.kind is StreamKind.FROM_DEVICE)
    kept.rings.append(ring)
    for replica in range(kept.engine._program.replicas):
        kept.engine.connectStreamToCallback(handle, ring, replica)


@handles("engine.connectCallback")
def connect_callback(session: Session, engine: Handle, handle: str, replica: int) -> None:
    kept = session.find(engine)
    stream = kept.engine._program.streams[kept.engine._find_stream(handle)]
    outward = stream.kind is StreamKind.FROM_DEVICE
    callback = RemoteCallback(session.channel, engine.number, handle, replica, outward=outward)
    kept.engine.connectStreamToCallback(handle, callback, replica)


@handles("engine.connectHostFunction")
def connect_host_function(session: Session, engine: Handle, handle: str, replica: int) -> None:
    function = RemoteFunction(session.channel, engine.number, handle, replica)
    session.find(engine).engine.connectHostFunction(handle, replica, function)


@handles("engine.sizeOfRemote")
def size_of_remote(session: Session, engine: Handle, handle: str) -> int:
    for buffer in session.find(engine).engine._program.remote_buffers:
        if buffer.handle == handle:
            return int(buffer.elements * buffer.type.bytes)
    raise poplar_error(f"There is no remote buffer {handle!r} in the program.")


@handles("engine.copyToRemoteBuffer")
def copy_to_remote_buffer(
    session: Session, engine: Handle, content: bytes, handle: str, row: int, replica: int
) -> None:
    found = session.find(engine).engine
    buffer = next(one for one in found._program.remote_buffers if one.handle == handle)
    found.copyToRemoteBuffer(np.frombuffer(content, dtype=buffer.type.dtype), handle, row, replica)


@handles("engine.copyFromRemoteBuffer")
def copy_from_remote_buffer(session: Session, engine: Handle, handle: str, row: int, replica: int) -> bytes:
    found = session.find(engine).engine.copyFromRemoteBuffer(handle, None, row, replica)
    return bytes(np.ascontiguousarray(found).tobytes())


@handles("engine.listStreams")
def list_streams(session: Session, engine: Handle) -> list[str]:
    return [stream.handle for stream in session.find(engine).engine._program.streams]


@handles("engine.profileSummary")
def write_profile_summary(session: Session, engine: Handle, options: dict[str, str]) -> str:
    text = io.StringIO()
    session.find(engine).engine.printProfileSummary(text, options)
    return text.getvalue()


@handles("engine.profiling")
def change_profiling(session: Session, engine: Handle, what: str) -> None:
    methods = {
        "reset": "resetExecutionProfile",
        "enable": "enableExecutionProfiling",
        "disable": "disableExecutionProfiling",
    }
    getattr(session.find(engine).engine, methods[what])()


@handles("engine.getReport")
def get_report(session: Session, engine: Handle) -> int:
    return session.keep(session.find(engine).engine.getReport())


@handles("pva.open")
def open_report(session: Session, path: str, execution: str) -> int:
    import pva

    return session.keep(pva.openReport(path))


@handles("pva.get")
def get_from_report(session: Session, report: int, path: str) -> Any:
    found = session.find(report)
    for name in path.split("."):
        found = getattr(found, name)
    return found if isinstance(found, (bool, int, float, str)) else getattr(found, "name", str(found))
