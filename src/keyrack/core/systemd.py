"""Protocols of systemd: socket activation, readiness, stop and watchdog.

They are a few lines each: sd_listen_fds(3) and sd_notify(3). Without systemd, or if no notices are expected, nothing
happens. A supervisor uses the second one with its children, in systemd's place (`SystemdNotifier`).
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Mapping
from contextlib import suppress

import structlog

log = structlog.get_logger("keyrack.systemd")

FIRST = 3  # the first passed descriptor: SD_LISTEN_FDS_START
READY = b"READY=1"
STOPPING = b"STOPPING=1"
TURNS = b"WATCHDOG=1"
LONGEST = 4_096  # bytes of a notice


class NoListener(Exception):
    """The passed descriptor cannot be used. The message is for the operator."""


def inherited() -> socket.socket | None:
    """The listening socket that was passed to this process; None without one.

    It becomes a socket of its own family. uvicorn's `fd` takes every socket for AF_UNIX, and its connections lack
    TCP_NODELAY. Raises `NoListener`.
    """
    count = os.environ.pop("LISTEN_FDS", "0")
    os.environ.pop("LISTEN_FDNAMES", None)
    if os.environ.pop("LISTEN_PID", "") != str(os.getpid()) or count == "0":  # for another process
        return None
    if count != "1":
        raise NoListener(f"systemd passed {count} sockets (LISTEN_FDS), but Keyrack listens on one.")
    try:
        listener = socket.socket(fileno=FIRST)
        listens = listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    except OSError as error:
        raise NoListener(f"The descriptor from systemd (LISTEN_FDS) is not a socket: {error.strerror}.") from None
    if listener.family not in (socket.AF_INET, socket.AF_INET6) or not listens:
        listener.detach()
        raise NoListener("The socket from systemd (LISTEN_FDS) is not a listening TCP socket. Use ListenStream=.")
    listener.set_inheritable(True)  # by child processes, which get its number
    return listener


def notify(notice: bytes) -> None:
    """Send a notice to the parent process, if it expects notices."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.setblocking(False)
        try:
            sender.sendto(notice, address.replace("@", "\0", 1) if address[0] == "@" else address)
        except OSError as error:  # the parent restarts a process without notices, and nothing else helps
            log.warning("systemd notification failed", notification=notice.decode(), error=error)


def patience() -> float | None:
    """Seconds of silence after which the parent restarts this process.

    None if it never does.
    """
    wanted = os.environ.get("WATCHDOG_PID") in (None, "", str(os.getpid()))
    microseconds = os.environ.get("WATCHDOG_USEC", "")
    return int(microseconds) / 1e6 if wanted and microseconds.isdecimal() and int(microseconds) > 0 else None


async def watchdog_ping() -> None:
    """Send watchdog notices forever, if the parent expects them.

    A blocked event loop sends none.
    """
    seconds = patience()
    while seconds is not None:
        notify(TURNS)
        await asyncio.sleep(seconds / 3)


class SystemdNotifier:
    """Receives the notices of one child.

    The kernel chooses the address, which only programs on this machine reach.
    """

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        self._socket.bind("")
        self._patience = patience()

    def environment(self) -> Mapping[str, str]:
        """The environment variables for the child.

        `WATCHDOG_PID` is cleared, since the inherited one names the parent.
        """
        name: bytes = self._socket.getsockname()
        wanted = {} if self._patience is None else {"WATCHDOG_PID": "", "WATCHDOG_USEC": str(int(self._patience * 1e6))}
        return {"NOTIFY_SOCKET": "@" + name[1:].decode(), **wanted}

    async def hear(self, ready: asyncio.Event) -> None:
        """Listen to the child. Returns when it has been silent for too long after it was ready once."""
        loop = asyncio.get_running_loop()
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._patience if ready.is_set() else None):
                    notice = await loop.sock_recv(self._socket, LONGEST)
                if READY in notice.split(b"\n"):
                    ready.set()
                continue
            return

    def close(self) -> None:
        self._socket.close()
