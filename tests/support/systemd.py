"""A server as started by systemd: with a persistent listener and a receiver of its notices."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx

from tests.support.people import http_client
from tests.support.servers import DEADLINE, Process

Call = Callable[[httpx.Client], httpx.Response]

FIRST = 3  # the first passed descriptor by sd_listen_fds(3)
# The command replaces the shell's process, so that the process id is right
HANDING_OVER = 'export LISTEN_PID=$$ && exec "$@"'


class Activated(Process):
    """A `keyrack serve` that received a listener."""

    def __init__(self, listener: socket.socket, notices: str, *arguments: str, env: dict[str, str]) -> None:
        def hand_over() -> None:
            os.dup2(listener.fileno(), FIRST)

        self.popen: subprocess.Popen[str] = subprocess.Popen(
            ["sh", "-c", HANDING_OVER, "sh", sys.executable, "-m", "keyrack", "serve", *arguments],
            env=os.environ | {"LISTEN_FDS": "1", "NOTIFY_SOCKET": notices} | env,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            preexec_fn=hand_over,
            pass_fds=[FIRST],
        )


class Systemd:
    """A stand-in for systemd: holds the listener, starts the service and receives its notices."""

    def __init__(self, dsn: str, *arguments: str, env: dict[str, str] | None = None) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=2048)
        self.port: int = self.listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._notices = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._notices.bind("")
        self._notices.settimeout(DEADLINE)
        self._arguments = arguments
        self._env = {"KEYRACK_DATABASE_URL": dsn, **(env or {})}
        self.service = self.start()

    def start(self) -> Activated:
        """Start the service, and return once it reports that it is ready."""
        name = "@" + self._notices.getsockname()[1:].decode()
        self.service = Activated(self.listener, name, *self._arguments, env=self._env)
        self.hears(b"READY=1")
        return self.service

    def hears(self, notice: bytes) -> None:
        """Wait until the service has sent this notice."""
        while notice not in self._notices.recv(4096).split(b"\n"):
            assert self.service.popen.poll() is None

    def restart(self) -> None:
        """Stop, then start, as `systemctl restart` does."""
        assert self.service.stop() == 0
        self.start()

    def close(self) -> None:
        self.service.stop()
        assert self.service.popen.stderr is not None
        self.service.popen.stderr.close()
        self.listener.close()
        self._notices.close()


@contextmanager
def activated(dsn: str, *arguments: str, **env: str) -> Iterator[Systemd]:
    systemd = Systemd(dsn, *arguments, env=env)
    try:
        yield systemd
    finally:
        systemd.close()


class Load:
    """Clients that send requests continuously, with and without kept connections, and no retries."""

    def __init__(self, *calls: Call, keeping: tuple[bool, ...] = (True, False)) -> None:
        self.answers: list[int] = []
        self.failures: list[str] = []
        self._ends = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(call, keeps), daemon=True) for call in calls for keeps in keeping
        ]

    def _run(self, call: Call, keeps: bool) -> None:
        limits = httpx.Limits(max_keepalive_connections=None if keeps else 0)
        with http_client(limits=limits) as client:
            while not self._ends.is_set():
                try:
                    self.answers.append(call(client).status_code)
                except httpx.HTTPError as error:
                    self.failures.append(repr(error))

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        for thread in self._threads:
            thread.join()
