"""Operation by systemd: valid and hardened units, socket activation, restarts."""

from __future__ import annotations

import ctypes
import errno
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from keyrack.db.schema_version import MIGRATION_LOCK
from tests.http.test_hostile_input import head
from tests.http.test_noisy_neighbours import locked, waiting
from tests.server.test_supervisor import children, serving
from tests.support.event_stream import watching
from tests.support.people import Town, fetch
from tests.support.servers import DEADLINE, Process, Sql, eventually, free_port, fresh_database
from tests.support.systemd import FIRST, HANDING_OVER, Load, Systemd, activated

pytestmark = pytest.mark.cluster

ROOT = Path(__file__).parents[2]
UNITS = sorted((ROOT / "deploy/systemd").glob("keyrack*.*"))
SERVICES = [unit for unit in UNITS if unit.suffix == ".service"]
PIDFD_GETFD = 438  # the same number on every architecture

needs_systemd = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")


# The units


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """The units in a folder where systemd-analyze finds their program."""
    (tmp_path / "keyrack").write_text("#!/bin/sh\n")
    (tmp_path / "keyrack").chmod(0o755)
    for unit in UNITS:
        (tmp_path / unit.name).write_text(unit.read_text().replace("/opt/keyrack/bin/", f"{tmp_path}/"))
    return tmp_path


@needs_systemd
def test_the_units_are_valid(installed: Path) -> None:
    units = [str(installed / unit.name) for unit in UNITS if unit.suffix != ".sysusers"]
    verified = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", *units],
        capture_output=True, text=True, timeout=DEADLINE,
    )  # fmt: skip
    assert (verified.returncode, verified.stderr) == (0, "")


@needs_systemd
@pytest.mark.parametrize("service", SERVICES, ids=lambda path: path.name)
def test_the_services_are_hardened(service: Path) -> None:
    analysed = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--threshold=20", "--no-pager", str(service)],
        capture_output=True, text=True, timeout=DEADLINE,
    )  # fmt: skip
    assert analysed.returncode == 0, analysed.stdout


def test_both_services_are_hardened_in_the_same_way() -> None:
    def alike(service: Path) -> str:
        return service.read_text().partition("# Settings that are no secrets")[2].partition("\n[Install]")[0]

    assert len({alike(service) for service in SERVICES}) == 1


@needs_systemd
def test_systemd_creates_the_account(tmp_path: Path) -> None:
    sysusers = shutil.which("systemd-sysusers")
    if sysusers is None:
        pytest.skip("systemd-sysusers is not installed")
    (tmp_path / "etc").mkdir()
    unit = ROOT / "deploy/systemd/keyrack.sysusers"
    made = subprocess.run([sysusers, f"--root={tmp_path}", str(unit)], capture_output=True, text=True, timeout=DEADLINE)
    assert made.returncode == 0, made.stderr
    assert re.search(r"^keyrack:x:\d+:\d+:Keyrack:/:/usr/sbin/nologin$", (tmp_path / "etc/passwd").read_text(), re.M)


# The listener


@pytest.mark.skipif(shutil.which("systemd-socket-activate") is None, reason="systemd is not installed")
def test_the_listener_is_inherited_from_systemd(dsn: str) -> None:
    port = free_port()
    named = [f"--setenv={name}={value}" for name, value in os.environ.items() if name.startswith(("KEYRACK_", "PATH"))]
    server = subprocess.Popen(
        ["systemd-socket-activate", f"--listen=127.0.0.1:{port}", *named, f"--setenv=KEYRACK_DATABASE_URL={dsn}",
         sys.executable, "-m", "keyrack", "serve", "--no-worker"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:

        def answer() -> httpx.Response | None:
            try:
                return fetch("GET", f"http://127.0.0.1:{port}/v3")
            except httpx.ConnectError:  # not listening yet
                return None

        assert eventually(answer, "an answer").status_code == 200
    finally:
        server.terminate()
        assert server.wait(DEADLINE) == 0


def accepted(pid: int, client: socket.socket) -> socket.socket | None:
    """The server's own end of a connection, from its process."""
    pidfd = os.pidfd_open(pid)
    try:
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            taken = ctypes.CDLL(None, use_errno=True).syscall(PIDFD_GETFD, pidfd, int(entry.name), 0)
            if taken < 0:
                if ctypes.get_errno() in (errno.EPERM, errno.ENOSYS):
                    pytest.skip("another process's descriptors cannot be looked at here")
                continue
            try:
                with socket.socket(fileno=os.dup(taken)) as other:
                    if other.family == socket.AF_INET and other.getpeername() == client.getsockname():
                        return other.dup()
            except OSError:
                continue
            finally:
                os.close(taken)
    finally:
        os.close(pidfd)
    return None


def has_no_delay(systemd: Systemd) -> bool:
    """Whether the server has switched Nagle's algorithm off.

    No answer shows that.
    """
    with socket.create_connection(("127.0.0.1", systemd.port), timeout=DEADLINE) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: keyrack\r\n\r\n")
        assert client.recv(65_536).startswith(b"HTTP/1.1 200")
        served_by = [systemd.service.popen.pid, *children(systemd.service.popen.pid)]
        (end,) = filter(None, (accepted(pid, client) for pid in served_by))
        with end:
            return end.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0


@pytest.mark.parametrize(
    ("kind", "count", "why"),
    [
        (socket.SOCK_STREAM, "2", "systemd passed 2 sockets (LISTEN_FDS), but Keyrack listens on one."),
        (socket.SOCK_DGRAM, "1", "The socket from systemd (LISTEN_FDS) is not a listening TCP socket. Use"
         " ListenStream=."),
        (None, "1", "The descriptor from systemd (LISTEN_FDS) is not a socket: Socket operation on non-socket."),
    ],
)  # fmt: skip
def test_an_unusable_listener_is_reported(kind: socket.SocketKind | None, count: str, why: str) -> None:
    with socket.socket(type=kind or socket.SOCK_STREAM) as given, Path(os.devnull).open() as nothing:
        number = nothing.fileno() if kind is None else given.fileno()
        ran = subprocess.run(
            ["sh", "-c", HANDING_OVER, "sh", sys.executable, "-m", "keyrack", "serve"],
            env=os.environ | {"LISTEN_FDS": count}, capture_output=True, text=True, timeout=DEADLINE,
            preexec_fn=lambda: os.dup2(number, FIRST) and None, pass_fds=[FIRST],
        )  # fmt: skip
    assert (ran.returncode, ran.stdout, ran.stderr) == (1, "", f"keyrack: {why}\n")


def test_a_listener_for_another_process_is_ignored(dsn: str) -> None:
    env = {"KEYRACK_DATABASE_URL": dsn, "LISTEN_FDS": "1", "LISTEN_PID": str(os.getpid())}
    process = Process("serve", "--no-worker", "--port", "0", "--json", env=env)
    assert process.popen.stdout is not None
    assert process.popen.stdout.readline().startswith('{"url": ')
    assert process.stop() == 0


# Restarts


@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_restart_refuses_no_connection_and_breaks_no_request(dsn: str, sql: Sql, processes: str) -> None:
    """Reads and writes, on kept and on new connections. None of them is retried."""
    with activated(dsn, "--no-worker", "--processes", processes) as systemd:
        person = Town(sql, systemd).person("restarted")

        def write(client: httpx.Client) -> httpx.Response:
            return client.put(f"{systemd.url}/cars", headers=person.headers, json={"name": "Car"})

        def read(client: httpx.Client) -> httpx.Response:
            return client.get(f"{systemd.url}/cars?$top=1", headers=person.headers)

        with Load(write, read) as load:
            eventually(lambda: len(load.answers) > 50, "answers")
            systemd.restart()
            before = len(load.answers)
            eventually(lambda: len(load.answers) > before + 50, "answers of its successor")
        assert (load.failures, set(load.answers)) == ([], {200, 201})
        made = sql.value("select count(*) from car where customer_id = $1", person.customer)
        assert made == load.answers.count(201)
        assert has_no_delay(systemd)


def test_running_requests_and_streams_end_regularly_at_a_stop(dsn: str, sql: Sql) -> None:
    """Requests and streams end regularly.

    A request that waits for the database, and one whose head is still arriving, are answered, and their answers close
    the connections. A stream without end is completed.
    """
    with activated(
        dsn, "--no-worker", KEYRACK_SHUTDOWN_TIMEOUT_SECONDS="60", KEYRACK_STATEMENT_TIMEOUT_SECONDS="60"
    ) as systemd:
        person = Town(sql, systemd).person("stopped")
        request = head(person, "GET", "/v3/products")
        with (
            watching(person, url=systemd.url) as watcher,
            socket.create_connection(("127.0.0.1", systemd.port), timeout=DEADLINE) as one,
            socket.create_connection(("127.0.0.1", systemd.port), timeout=DEADLINE) as two,
        ):
            with locked(sql, "product"):
                one.sendall(request)
                two.sendall(request[:20])
                eventually(lambda: waiting(sql, "product"), "the request at the lock")
                systemd.service.popen.terminate()
                systemd.hears(b"STOPPING=1")
                assert watcher.ends() == "whole"
            two.sendall(request[20:])
            for line in (one, two):
                answer = b""
                while piece := line.recv(65_536):
                    answer += piece
                assert answer.startswith(b"HTTP/1.1 200") and b"\r\nconnection: close\r\n" in answer, answer
        assert systemd.service.popen.wait(DEADLINE) == 0


def test_a_request_at_a_stop_ends_after_the_timeout(dsn: str, sql: Sql) -> None:
    with activated(
        dsn, "--no-worker", KEYRACK_SHUTDOWN_TIMEOUT_SECONDS="1", KEYRACK_STATEMENT_TIMEOUT_SECONDS="60"
    ) as systemd:
        person = Town(sql, systemd).person("slow")
        with locked(sql, "product"), socket.create_connection(("127.0.0.1", systemd.port), timeout=DEADLINE) as line:
            line.sendall(head(person, "GET", "/v3/products"))
            eventually(lambda: waiting(sql, "product"), "the request at the lock")
            assert systemd.service.stop() == 0


# A blocked event loop


def test_the_supervisor_sends_watchdog_notices_and_replaces_a_blocked_child(dsn: str) -> None:
    with activated(dsn, "--no-worker", "--processes", "2", WATCHDOG_USEC="2000000") as systemd:
        systemd.hears(b"WATCHDOG=1")
        before = serving(systemd.service.popen.pid)
        os.kill(before[0], signal.SIGSTOP)

        def replaced() -> bool:
            now = serving(systemd.service.popen.pid)
            return len(now) == 2 and before[0] not in now

        eventually(replaced, "a successor")
        systemd.hears(b"WATCHDOG=1")


def test_a_worker_notifies_readiness_and_stop(dsn: str) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notices:
        notices.bind("")
        notices.settimeout(DEADLINE)
        name = "@" + notices.getsockname()[1:].decode()
        worker = Process("work", env={"KEYRACK_DATABASE_URL": dsn, "NOTIFY_SOCKET": name})
        assert notices.recv(100) == b"READY=1"
        assert worker.stop() == 0
        assert notices.recv(100) == b"STOPPING=1"


# The first process of a container


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("unshare") is None, reason="only root makes a namespace")
def test_the_first_process_of_a_container_ends_when_it_has_just_begun(database_server: str) -> None:
    """The kernel keeps signals from such a process without a handler. It would be killed after its timeout."""
    with fresh_database(database_server) as empty:
        holding = Sql(empty)
        holding.execute("select pg_advisory_lock($1)", MIGRATION_LOCK)
        first = subprocess.Popen(
            ["unshare", "--pid", "--fork", sys.executable, "-m", "keyrack", "serve", "--port", "0"],
            env=os.environ | {"KEYRACK_DATABASE_URL": empty, "PYTHONFAULTHANDLER": "1"}, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        connected = "select count(*) from pg_stat_activity where application_name = $1 and datname = current_database()"
        eventually(lambda: holding.value(connected, "keyrack migration"), "the connection of the migration")
        (inside,) = children(first.pid)
        os.kill(inside, signal.SIGTERM)
        assert first.wait(DEADLINE) == 128 + signal.SIGTERM
        holding.close()
