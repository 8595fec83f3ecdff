"""Probes a PostgreSQL server from outside: whether it answers, which processes it has."""

from __future__ import annotations

import socket
import struct
from collections.abc import Mapping
from enum import Enum
from pathlib import Path

from keyrack.db.embedded.binaries import EmbeddedServerError, OsAccount
from keyrack.db.embedded.layout import NAME, Layout


class ProbeResult(Enum):
    """The state of the server, as a connection attempt shows it."""

    ABSENT = "nobody listens"
    BUSY = "starting up or shutting down"
    READY = "accepts connections"


def probe(layout: Layout) -> ProbeResult:
    """Try to connect as a client would. Raises EmbeddedServerError if the server rejects Keyrack."""
    try:
        with socket.socket(socket.AF_UNIX) as link:
            link.settimeout(2.0)
            link.connect(str(layout.socket_file))
            return _greet(link)
    except (TimeoutError, BlockingIOError):  # the second: its backlog is full
        return ProbeResult.BUSY
    except PermissionError as error:
        raise EmbeddedServerError(f"Cannot connect to {layout.socket_file}: {error.strerror}.") from None
    except OSError:  # for example: no path, no listener, or the server has just ended
        return ProbeResult.ABSENT


def _greet(link: socket.socket) -> ProbeResult:
    """Open a session in PostgreSQL's protocol 3 and end it."""
    wanted = f"user\0{NAME}\0database\0{NAME}\0application_name\0{NAME} probe\0\0".encode()
    link.sendall(struct.pack("!II", len(wanted) + 8, 3 << 16) + wanted)
    with link.makefile("rb") as stream:
        while len(head := stream.read(5)) == 5:
            kind, length = struct.unpack("!cI", head)
            body = stream.read(length - 4)
            if kind == b"Z":  # ready for a query
                link.sendall(b"X\0\0\0\x04")
                return ProbeResult.READY
            if kind == b"R" and body != bytes(4):
                raise EmbeddedServerError(
                    "The embedded PostgreSQL asks for a password: another server uses its socket."
                )
            if kind == b"E":
                return _refused({field[:1]: field[1:].decode(errors="replace") for field in body.split(b"\0")})
    return ProbeResult.ABSENT


def _refused(error: Mapping[bytes, str]) -> ProbeResult:
    """The state that a connection error means; `error` has the protocol's fields."""
    state = error.get(b"C", "")
    if state.startswith("57P0"):  # starting up, shutting down, in recovery
        return ProbeResult.BUSY
    if state == "53300":  # too many connections: it is alive
        return ProbeResult.READY
    raise EmbeddedServerError(f"The embedded PostgreSQL rejects Keyrack's connection: {error.get(b'M', state)}")


def read_pid_file(path: Path) -> tuple[int | None, str]:
    """The process id and the state, such as `ready`, in a lock file of PostgreSQL."""
    try:
        lines = path.read_text(errors="replace").splitlines()
        return abs(int(lines[0])), lines[7].strip() if len(lines) > 7 else ""
    except (FileNotFoundError, IndexError, ValueError):
        return None, ""


def announced_ready(layout: Layout) -> int | None:
    """The postmaster whose pid file says `ready`: cheaper than a probe, and without a line in its log."""
    pid, state = read_pid_file(layout.pid_file)
    return pid if state == "ready" else None


def left_behind(layout: Layout, account: OsAccount) -> tuple[bool, list[int]]:
    """Whether a postmaster runs on the data, and its other processes (Linux only)."""
    if not layout.pid_file.exists() or not Path("/proc/self").exists():
        return False, []
    recorded, _ = read_pid_file(layout.pid_file)
    everybody = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]
    pids = [pid for pid in everybody if _serves(pid, layout.data, account)]
    return recorded in pids, [pid for pid in pids if pid != recorded]


def _serves(pid: int, data: Path, account: OsAccount) -> bool:
    """Whether a process is a PostgreSQL on the data: its working directory decides, because ids are reused."""
    process = Path(f"/proc/{pid}")
    try:
        # Only the owner of the data can run a server on them.
        if process.stat().st_uid != account.uid or (process / "comm").read_text().strip() != "postgres":
            return False
        return (process / "cwd").samefile(data)
    except (FileNotFoundError, ProcessLookupError):
        return False
    except PermissionError:  # root without CAP_SYS_PTRACE, as in a container: the account itself may look
        return account.run(["/bin/sh", "-c", 'test "$1" -ef "$2"', "sh", process / "cwd", data]).returncode == 0


def drop_foreign_pids(layout: Layout) -> list[Path]:
    """Remove pid files that would make PostgreSQL reject the start. Returns the removed files.

    A pid file is removed if it names a live process or none. Call this when no server runs on the data: the process is
    then an unrelated one, because process ids restart with a container. The file of a dead process stays, because
    PostgreSQL uses it to find left-over shared memory.
    """
    foreign: list[Path] = []
    for path in (layout.pid_file, layout.socket_file.with_name(f"{layout.socket_file.name}.lock")):
        pid, _ = read_pid_file(path)
        if path.exists() and (pid is None or Path(f"/proc/{pid}").exists()):
            path.unlink(missing_ok=True)
            foreign.append(path)
    return foreign
