"""The server behind `openipu run --live`: HTTP on loopback, for one browser of the person who started the script.

In: a `Board`. Out: a page below a random token, a stream of its state, and reports of programs that have a profile.

Whoever can open a port of this machine could ask: other users, and pages of other sites in the user's own browser.
So the token is part of every address and is compared in constant time; the Host header must name this server, or a name
that an attacker points to 127.0.0.1 would do; a request with another site's Origin is refused. Nothing of a request
becomes a path of the file system. Threads are daemons and connections few and bounded in time: a client that reads
slowly, or not at all, is dropped and never holds the script.
"""

from __future__ import annotations

import io
import json
import os
import secrets
import socket
import socketserver
import threading
import time
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from importlib import resources
from typing import Any

from openipu.activity import add_watcher, remove_watcher
from openipu.cli.live.board import Board
from openipu.errors import OpenIpuError, OptionError

ADDRESS = "127.0.0.1"
MOST_CONNECTIONS = 24
CLIENT_SECONDS = 10.0  # for a client to send its request, or to take what was sent
EVERY_SECONDS = 0.25  # at most so often is the state sent
QUIET_SECONDS = 5.0  # after which a stream shows that it still lives
LAST_SECONDS = 1.0  # for pages to hear that the script has ended

LONGEST_HEAD = 16 * 1024  # bytes of a request: it has no body

_FILES = {
    "": ("page.html", "text/html"),
    "page.js": ("page.js", "text/javascript"),
    "page.css": ("page.css", "text/css"),
}
_OWN_POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:"
_REPORT_POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:"
_SHARED_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",  # the token stands in the address
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class LiveServer:
    """Serves from `start` to `stop`, in threads of its own."""

    def __init__(self, board: Board, port: int = 0) -> None:
        self.board = board
        self._token = secrets.token_urlsafe(32)
        try:
            self._server = _Server((ADDRESS, port), _Handler)
        except (OSError, OverflowError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise OptionError(
                f"--live: port {port} of {ADDRESS} cannot be had ({reason}). Choose another one with --port, or leave "
                "--port out for any that is free."
            ) from error
        self._server.board, self._server.token = board, self._token
        self.port: int = self._server.server_address[1]
        self._server.hosts = frozenset(f"{name}:{self.port}" for name in (ADDRESS, "localhost"))
        self._thread = threading.Thread(target=self._serve, name="openipu live page", daemon=True)
        self._process = os.getpid()

    @property
    def address(self) -> str:
        """What to open in a browser of this machine. It holds the token: whoever has it may look."""
        return f"http://{ADDRESS}:{self.port}/{self._token}/"

    def start(self) -> None:
        add_watcher(self.board)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._leave_child)
        self._thread.start()

    def stop(self, code: int | None) -> None:
        """Tell open pages that the script has ended, for a moment, and close. A second call does nothing."""
        if os.getpid() != self._process or self.board.is_over:
            return
        remove_watcher(self.board)
        self.board.end(code)
        self._server.shutdown()
        self._server.wait_for_streams(LAST_SECONDS)
        self._server.server_close()

    def _serve(self) -> None:
        self._server.serve_forever(poll_interval=0.1)

    def _leave_child(self) -> None:
        """A forked process must keep neither the port nor the connections."""
        for connection in (self._server.socket, *self._server.connections):
            connection.close()


class _Server(socketserver.ThreadingMixIn, socketserver.TCPServer):
    """A thread for each connection, but only so many."""

    daemon_threads = True
    block_on_close = False
    allow_reuse_address = os.name == "posix"
    request_queue_size = 16
    board: Board
    token: str
    hosts: frozenset[str]

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self._free = threading.BoundedSemaphore(MOST_CONNECTIONS)
        self._streams = 0
        self._fewer = threading.Condition()
        self.connections: set[socket.socket] = set()
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        self.connections.add(request)
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._free.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def shutdown_request(self, request: Any) -> None:
        self.connections.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that left, or sent nonsense, is no news for the script's terminal."""

    def count_stream(self, change: int) -> None:
        with self._fewer:
            self._streams += change
            self._fewer.notify_all()

    def wait_for_streams(self, seconds: float) -> None:
        with self._fewer:
            self._fewer.wait_for(lambda: self._streams == 0, seconds)


class _Handler(BaseHTTPRequestHandler):
    """One connection."""

    server: _Server
    timeout = CLIENT_SECONDS
    protocol_version = "HTTP/1.0"  # a connection is one request

    def version_string(self) -> str:
        return "openipu"

    def log_message(self, format: str, *values: Any) -> None:
        """The terminal belongs to the script."""

    def handle(self) -> None:
        """One request. Its head must arrive in time, however slowly its bytes drip."""
        head = self._read_head(time.monotonic() + CLIENT_SECONDS)
        if head:
            self.connection.settimeout(CLIENT_SECONDS)
            self.rfile = io.BytesIO(head)
            self.handle_one_request()

    def _read_head(self, until: float) -> bytes:
        head = b""
        while b"\r\n\r\n" not in head:
            left = until - time.monotonic()
            if left <= 0 or len(head) > LONGEST_HEAD:
                return b""
            self.connection.settimeout(left)
            try:
                received = self.connection.recv(4096)
            except OSError:
                return b""
            if not received:
                return b""
            head += received
        return head

    def do_GET(self) -> None:
        if not self._is_allowed():
            self._answer(HTTPStatus.FORBIDDEN, b"Open the address that openipu run --live printed.\n", "text/plain")
            return
        place = self.path.partition("?")[0].split("/", 2)[2]
        kind, _, rest = place.partition("/")
        if place in _FILES:
            name, media = _FILES[place]
            content = resources.files(__package__).joinpath("web", name).read_bytes()
            self._answer(HTTPStatus.OK, content, media, _OWN_POLICY)
        elif place == "state":
            self._answer(HTTPStatus.OK, _write_state(self.server.board), "application/json")
        elif place == "events":
            self._stream()
        elif kind == "report" and rest.isascii() and rest.isdigit() and len(rest) < 10:
            self._show_report(int(rest))
        else:
            self._answer(HTTPStatus.NOT_FOUND, b"There is nothing here.\n", "text/plain")

    def _is_allowed(self) -> bool:
        """Does the request know the token, and was it meant for this server?"""
        parts = self.path.split("/", 2)
        given = parts[1] if len(parts) == 3 and not parts[0] else ""
        knows = secrets.compare_digest(given.encode("utf-8", "replace"), self.server.token.encode())
        hosts = self.headers.get_all("Host", [])
        meant = len(hosts) == 1 and hosts[0].strip().lower() in self.server.hosts
        origin = self.headers.get("Origin")
        own = origin is None or origin.lower().removeprefix("http://") in self.server.hosts
        return knows and meant and own

    def _answer(self, status: HTTPStatus, content: bytes, media: str, policy: str = "default-src 'none'") -> None:
        self.send_response(status)
        self.send_header("Content-Type", f"{media}; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Content-Security-Policy", policy)
        self._end_head()
        self.wfile.write(content)

    def _end_head(self) -> None:
        for name, value in _SHARED_HEADERS.items():
            self.send_header(name, value)
        self.end_headers()

    def _stream(self) -> None:
        """Server-sent events: the state whenever it has changed, until the script or the client ends."""
        board = self.server.board
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self._end_head()
        # What a client does not take is kept in a small buffer, so that it is noticed soon.
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 64 * 1024)
        self.server.count_stream(1)
        pause = threading.Event()  # nobody sets it: it only waits
        version = -1
        try:
            while True:
                newest = board.wait(version, QUIET_SECONDS)
                over = board.is_over
                if newest == version and not over:
                    self.wfile.write(b": still here\n\n")
                else:
                    version = newest
                    self.wfile.write(b"data: " + _write_state(board) + b"\n\n")
                self.wfile.flush()
                if over:
                    return
                pause.wait(EVERY_SECONDS)
        except OSError:
            return  # the client left, or takes nothing
        finally:
            self.server.count_stream(-1)

    def _show_report(self, number: int) -> None:
        directory = self.server.board.find_profile(number)
        if directory is None:
            message = b"This program has no profile: run with --profile DIR.\n"
            self._answer(HTTPStatus.NOT_FOUND, message, "text/plain")
            return
        from openipu.report import read_profile
        from openipu.report.html import render_html

        try:
            page = render_html(read_profile(directory)).encode("utf-8")
        except OpenIpuError as error:
            self._answer(HTTPStatus.NOT_FOUND, f"{error}\n".encode(), "text/plain")
            return
        self._answer(HTTPStatus.OK, page, "text/html", _REPORT_POLICY)


def _write_state(board: Board) -> bytes:
    return json.dumps(board.describe(), separators=(",", ":"), allow_nan=False).encode("utf-8")
