"""`openipu run --live`: a page on loopback for the person who started the script, and for nobody else."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from live_script import Script, read_event

from openipu.activity import ProgramFigures, add_watcher, is_watched, remove_watcher
from openipu.cli.live import Board, LiveServer, server
from openipu.errors import OptionError

PATIENCE_SECONDS = 600  # with a server that answers at once, unless the machine is busy

FIGURES = ProgramFigures(
    name="training",
    system="bow-2000",
    ipus=2,
    replicas=1,
    fits=True,
    needed_bytes=50_000,
    peak_bytes=1000,
    limit_bytes=4000,
    call_cycles=1850.0,
    clock_hz=1.85e9,
    samples_per_call=16,
    compile_seconds=1.5,
    profile_directory=None,
)


@pytest.fixture
def live() -> Iterator[LiveServer]:
    started = LiveServer(Board("train.py"))
    started.start()
    yield started
    started.stop(0)


def ask(live: LiveServer, path: str, method: str = "GET", **headers: str) -> tuple[int, bytes, dict[str, str]]:
    """One request, word for word: `http.client` neither cleans the path nor adds a Host of its own."""
    connection = http.client.HTTPConnection("127.0.0.1", live.port, timeout=PATIENCE_SECONDS)
    connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
    for name, value in {"Host": f"127.0.0.1:{live.port}", **headers}.items():
        connection.putheader(name, value)
    connection.endheaders()
    answer = connection.getresponse()
    found = answer.status, answer.read(), dict(answer.getheaders())
    connection.close()
    return found


def base(live: LiveServer) -> str:
    return urlsplit(live.address).path


def test_the_board_follows_a_program_from_the_first_percent_to_its_calls() -> None:
    board = Board("train.py", clock=lambda: 100.0)
    board.advance(1, "training", 45)
    (program,) = board.describe()["programs"]
    assert (program["state"], program["percent"], program["modelled"]) == ("compiling", 45, None)
    board.finish(1, 2, FIGURES)
    for seconds in (0.5, 0.25):
        board.note_run(2, "training", seconds)
    (program,) = board.describe()["programs"]
    assert (program["state"], program["calls"], program["seconds"], program["recent"]) == (
        "ready",
        2,
        0.75,
        [0.5, 0.25],
    )
    assert program["modelled"]["call_seconds"] == 1850.0 / 1.85e9
    assert program["modelled"]["samples_per_second"] == 16 * 1.85e9 / 1850.0
    board.fail(3, "inference", "CaptureError: no")
    assert [entry["state"] for entry in board.describe()["programs"]] == ["ready", "failed"]


def test_a_script_that_compiles_all_day_keeps_the_newest_programs_only() -> None:
    board = Board("train.py")
    for number in range(0, 1000, 2):
        board.advance(number, f"program {number}", 5)
        board.finish(number, number + 1, FIGURES)
    assert [entry["number"] for entry in board.describe()["programs"]] == list(range(800, 1000, 2))
    assert len(board._by_executable) == 100


def test_the_page_its_parts_and_its_state_lie_below_the_token(live: LiveServer) -> None:
    live.board.advance(1, "training", 45)
    for name, media in (("", "text/html"), ("page.js", "text/javascript"), ("page.css", "text/css")):
        status, content, headers = ask(live, base(live) + name)
        assert (status, headers["Content-Type"]) == (200, f"{media}; charset=utf-8")
        assert content
        assert "script-src 'self'" in headers["Content-Security-Policy"]
        assert headers["Referrer-Policy"] == "no-referrer"
    assert json.loads(ask(live, base(live) + "state")[1])["programs"][0]["percent"] == 45


@pytest.mark.parametrize("path", ["/", "/state", "/x/state", "/{half}/", "/{token}", "{token}/", "*", "/favicon.ico"])
def test_without_the_whole_token_every_address_is_forbidden(live: LiveServer, path: str) -> None:
    token = base(live).strip("/")
    assert len(token) >= 43, "32 random bytes"
    status, content, _ = ask(live, path.format(token=token, half=token[:20]))
    assert status == 403
    assert token.encode() not in content


@pytest.mark.parametrize(
    "path",
    [
        "../../../../etc/passwd",
        "..%2f..%2f..%2fetc%2fpasswd",
        "page.js/../../server.py",
        "web/page.html",
        "report/../../state",
        "report/1",
        "report/-1",
        "report/99999999999999999999",
        "report/%31",
        "report/",
        "/etc/passwd",
    ],
)
def test_no_address_leads_to_a_file(live: LiveServer, path: str) -> None:
    status, content, _ = ask(live, base(live) + path)
    assert status == 404
    assert b"root:" not in content
    assert b"class" not in content


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "localhost.evil.example:{port}", ""]
)
def test_a_host_header_of_another_name_is_refused_although_the_token_is_right(live: LiveServer, host: str) -> None:
    assert ask(live, base(live) + "state", Host=host.format(port=live.port))[0] == 403


def test_localhost_is_a_name_of_this_server_and_a_page_of_another_site_is_not_its_own(live: LiveServer) -> None:
    own = f"localhost:{live.port}"
    assert ask(live, base(live) + "state", Host=own)[0] == 200
    assert ask(live, base(live) + "state", Host=own, Origin=f"http://{own}")[0] == 200
    assert ask(live, base(live) + "state", Host=own, Origin="http://evil.example")[0] == 403
    assert ask(live, base(live) + "state", Host=own, Origin="null")[0] == 403


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "HEAD"])
def test_nothing_but_get_is_answered(live: LiveServer, method: str) -> None:
    assert ask(live, base(live) + "state", method)[0] == 501


@pytest.mark.parametrize(
    "nonsense", [b"\r\n\r\n", b"GET\r\n\r\n", b"\xff\xfe\x00\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"A" * 40_000]
)
def test_nonsense_ends_its_connection_and_nothing_else(
    live: LiveServer, nonsense: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    with socket.create_connection(("127.0.0.1", live.port), timeout=PATIENCE_SECONDS) as connection:
        with suppress(ConnectionError):  # it may be ended at any byte of the nonsense,
            connection.sendall(nonsense)
        with suppress(OSError):  # and then is not connected any more
            connection.shutdown(socket.SHUT_WR)
        with suppress(ConnectionResetError):
            while connection.recv(4096):
                pass
    assert ask(live, base(live) + "state")[0] == 200
    assert capfd.readouterr() == ("", ""), "the terminal belongs to the script"


def test_a_client_whose_request_drips_is_dropped_in_time(live: LiveServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "CLIENT_SECONDS", 0.3)
    with socket.create_connection(("127.0.0.1", live.port), timeout=PATIENCE_SECONDS) as connection:
        stop = threading.Event()

        def drip() -> None:
            with suppress(OSError):
                while not stop.wait(0.05):
                    connection.sendall(b"G")

        dripping = threading.Thread(target=drip)
        dripping.start()
        with suppress(ConnectionResetError):
            assert connection.recv(1) == b"", "closed by the server although bytes kept coming"
        stop.set()
        dripping.join()


def test_clients_that_take_nothing_do_not_hold_others_nor_the_end(
    live: LiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "CLIENT_SECONDS", 2.0)  # enough for a request that a busy machine is slow to send
    monkeypatch.setattr(server, "LAST_SECONDS", 0.1)
    idle = [socket.create_connection(("127.0.0.1", live.port)) for _ in range(4)]
    for connection in idle:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.sendall(f"GET {base(live)}events HTTP/1.1\r\nHost: 127.0.0.1:{live.port}\r\n\r\n".encode())
    for number in range(100):  # a state of more bytes than all the buffers between the two
        live.board.advance(number, "x" * 2000, 5)
    assert ask(live, base(live) + "state")[0] == 200
    live.stop(0)
    for connection in idle:
        connection.close()


def test_more_connections_than_allowed_are_closed_and_the_next_one_is_served(live: LiveServer) -> None:
    idle = [
        socket.create_connection(("127.0.0.1", live.port), timeout=PATIENCE_SECONDS)
        for _ in range(server.MOST_CONNECTIONS)
    ]
    with (
        socket.create_connection(("127.0.0.1", live.port), timeout=PATIENCE_SECONDS) as surplus,
        suppress(ConnectionResetError),
    ):
        assert surplus.recv(1) == b""
    for connection in idle:
        connection.close()
    for _ in range(1000):  # until the threads have noticed
        try:
            assert ask(live, base(live) + "state")[0] == 200
            break
        except (ConnectionResetError, http.client.RemoteDisconnected):
            threading.Event().wait(0.05)
    else:
        pytest.fail("no connection became free")


def test_the_stream_tells_each_change_and_the_end(live: LiveServer) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", live.port, timeout=PATIENCE_SECONDS)
    connection.request("GET", base(live) + "events")
    answer = connection.getresponse()
    assert answer.getheader("Content-Type") == "text/event-stream; charset=utf-8"
    assert read_event(answer)["programs"] == []
    live.board.advance(1, "training", 45)
    assert read_event(answer)["programs"][0]["percent"] == 45
    live.stop(3)
    assert read_event(answer)["ended"]["code"] == 3
    assert answer.read().strip() == b""
    connection.close()


def test_a_forked_process_keeps_neither_port_nor_watcher(live: LiveServer) -> None:
    assert is_watched()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        closed = live._server.socket.fileno() == -1
        live.stop(0)  # as the end of the script does in every process
        os.write(writer, b"ok" if closed and not is_watched() else b"no")
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reader, 2) == b"ok"
    assert ask(live, base(live) + "state")[0] == 200


def test_a_port_that_is_taken_is_told_before_the_script_starts(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("print('started')")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OptionError, match=f"port {port} of 127.0.0.1 cannot be had"):
            LiveServer(Board("train.py"), port)
        command = [sys.executable, "-m", "openipu", "run", "--live", "--port", str(port), "script.py"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Choose another one with --port" in done.stderr


def test_port_without_live_and_a_port_that_is_none_are_refused(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("")
    for words in (["--port", "8100"], ["--live", "--check"], ["--live", "--port", "99999"]):
        command = [sys.executable, "-m", "openipu", "run", *words, "script.py"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
        assert (done.returncode, done.stdout, "Traceback" in done.stderr) == (2, "", False)


def test_only_loopback_listens(live: LiveServer) -> None:
    assert live._server.socket.getsockname()[0] == "127.0.0.1"
    assert live.address.startswith("http://127.0.0.1:")


def test_watchers_come_and_go() -> None:
    board = Board("train.py")
    add_watcher(board)
    remove_watcher(board)
    remove_watcher(board)
    assert not is_watched()


@pytest.fixture
def script(tmp_path: Path) -> Iterator[Script]:
    started = Script(tmp_path, "--profile", "out")
    yield started
    started.close()


def test_sigterm_ends_page_and_script_as_without_a_page(script: Script) -> None:
    assert script.read_line() == "begun"
    address = urlsplit(script.address)
    connection = http.client.HTTPConnection(address.netloc, timeout=60)
    connection.request("GET", address.path + "events")
    answer = connection.getresponse()
    assert read_event(answer)["ended"] is None
    script.process.send_signal(signal.SIGTERM)
    assert read_event(answer)["ended"]["code"] is None
    connection.close()
    assert script.process.wait(60) == -signal.SIGTERM
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((str(address.hostname), int(address.port or 0)), timeout=PATIENCE_SECONDS)


def test_output_errors_and_exit_code_are_those_of_a_run_without_a_page(tmp_path: Path) -> None:
    (tmp_path / "odd.py").write_text(
        "import os, subprocess, sys\n"
        "if (child := os.fork()) == 0:\n"
        "    print('child', flush=True)\n"
        "    sys.exit(4)\n"
        "print('child ended with', os.waitpid(child, 0)[1] >> 8, flush=True)\n"
        "subprocess.run([sys.executable, '-c', 'print(1)'], check=True)\n"
        "raise ValueError('no good')\n"
    )
    plain, live = (
        subprocess.run(
            [sys.executable, "-m", "openipu", "run", "--quiet", *options, "odd.py"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=300,
        )
        for options in ([], ["--live"])
    )
    assert (plain.returncode, plain.stdout) == (live.returncode, live.stdout) == (1, "child\nchild ended with 4\n1\n")
    first, rest = live.stderr.split("\n", 1)
    assert first.startswith("openipu: live at http://127.0.0.1:")
    assert rest == plain.stderr
