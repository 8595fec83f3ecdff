"""The server's process: its parameters, its log, its shutdown."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from keyrack.db.embedded.binaries import PRELOAD_LIBRARY, Binaries, OsAccount, end_with_parent, environment
from keyrack.db.embedded.layout import Layout

STOP_STEPS = ((signal.SIGINT, 3.0), (signal.SIGQUIT, 1.0), (signal.SIGKILL, 0.5))  # each with seconds to wait
LAST_WORDS = 1.0  # seconds that backends get for their last output after the server's end


class Postmaster:
    """PostgreSQL as a child process. It ends with the THREAD that made it: see `end_with_parent`."""

    def __init__(
        self, layout: Layout, binaries: Binaries, account: OsAccount, options: Mapping[str, str], log_bytes: int
    ) -> None:
        command: list[str | Path] = [binaries.directory / "postgres", "-D", layout.data]
        for name, value in (_parameters(layout, binaries, account) | dict(options)).items():
            command += ["-c", f"{name}={value}"]
        self._log = ServerLog(layout.log, account, log_bytes)
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            bufsize=0,
            cwd="/",
            env=environment(),
            start_new_session=True,
            preexec_fn=end_with_parent(signal.SIGINT),  # a fast shutdown
            **account.credentials(),
        )
        self._writing = threading.Thread(target=self._write_log, daemon=True)
        self._writing.start()

    def wait(self) -> int:
        """Wait for its end. Returns the exit status."""
        status = self._process.wait()
        self._writing.join(LAST_WORDS)
        return status

    def stop(self) -> None:
        """Stop it with increasingly hard signals. Another thread may `wait` meanwhile."""
        for step, patience in STOP_STEPS:
            self._process.send_signal(step)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(patience)
                return

    def _write_log(self) -> None:
        assert self._process.stdout is not None  # noqa: S101 - it is a pipe
        while said := self._process.stdout.read(65_536):
            self._log.write(said)


class ServerLog:
    """The server's log: the newer half of `room` bytes in `postgres.log`, the older in `postgres.log.1`."""

    def __init__(self, path: Path, account: OsAccount, room: int) -> None:
        self._path, self._account, self._half = path, account, room // 2
        self._older = path.with_name(f"{path.name}.1")
        for each in (self._path, self._older):  # an earlier server may have had a larger room
            if each.exists() and each.stat().st_size > self._half:
                each.unlink()
        self._open()

    def write(self, said: bytes) -> None:
        """Append to the log. A full disk loses lines, because the server must not wait for its log."""
        with suppress(OSError):
            if self._size + len(said) > self._half:
                self._path.replace(self._older)
                os.close(self._file)
                self._open()
            self._size += os.write(self._file, said)

    def _open(self) -> None:
        self._file = open_log(self._path, self._account)
        self._size = os.fstat(self._file).st_size


def open_log(path: Path, account: OsAccount) -> int:
    """A descriptor that appends to the log, which is made if missing."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o640)
    account.own(descriptor)
    return descriptor


def _parameters(layout: Layout, binaries: Binaries, account: OsAccount) -> dict[str, str]:
    quoted = str(layout.sockets).replace('"', '""')
    parameters = {
        "listen_addresses": "",
        "port": "5432",
        "unix_socket_directories": f'"{quoted}"',
        "hba_file": str(layout.hba_file),
        "ident_file": str(layout.ident_file),
        "logging_collector": "off",
        "log_destination": "stderr",
        # The details of errors, statements and their parameters contain personal data. See also QUIET
        "log_error_verbosity": "terse",
        "log_min_error_statement": "panic",
        "log_parameter_max_length": "0",
        "log_parameter_max_length_on_error": "0",
        "log_statement": "none",
        "log_min_duration_statement": "-1",
        "max_connections": "200",
        "wal_compression": "on",
        "timezone": "UTC",
        "log_timezone": "UTC",
    }
    if binaries.can_preload:
        parameters["shared_preload_libraries"] = PRELOAD_LIBRARY
    if account.shared:  # other programs of this account could open /dev/shm
        parameters["dynamic_shared_memory_type"] = "mmap"
    return parameters
