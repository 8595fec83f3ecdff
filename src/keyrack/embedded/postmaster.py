"""In charge of the server's process: the parameters that it is started with, its log, and its end."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from keyrack.embedded.binaries import PRELOAD_LIBRARY, Account, Binaries, end_with_parent, environment
from keyrack.embedded.layout import Layout

STOP_STEPS = ((signal.SIGINT, 3.0), (signal.SIGQUIT, 1.0), (signal.SIGKILL, 0.5))  # each with seconds of patience
LARGEST_LOG = 16_000_000  # bytes


class Postmaster:
    """PostgreSQL as a child of ours. It ends with the THREAD that made it: see `end_with_parent`."""

    def __init__(self, layout: Layout, binaries: Binaries, account: Account, options: Mapping[str, str]) -> None:
        command: list[str | Path] = [binaries.directory / "postgres", "-D", layout.data]
        for name, value in (_parameters(layout, binaries) | dict(options)).items():
            command += ["-c", f"{name}={value}"]
        self._log = layout.log
        output = _open_log(layout.log, account)
        self._said_from = os.lseek(output, 0, os.SEEK_END)
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd="/",
                env=environment(),
                start_new_session=True,  # Ctrl-C in a terminal is ours to handle
                preexec_fn=end_with_parent(signal.SIGINT),  # a fast shutdown
                **account.credentials(),
            )
        finally:
            os.close(output)
        self.pid = self._process.pid

    @property
    def status(self) -> int | None:
        """The status with which it has ended; None while it runs."""
        return self._process.poll()

    def said(self) -> str:
        """The end of what it has written to its log."""
        return self._log.read_bytes()[self._said_from :].decode(errors="replace").strip()[-2000:]

    def stop(self) -> None:
        """End it, the harder the longer it takes."""
        if self._process.poll() is not None:
            return
        for step, patience in STOP_STEPS:
            self._process.send_signal(step)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(patience)
                return


def _parameters(layout: Layout, binaries: Binaries) -> dict[str, str]:
    quoted = str(layout.sockets).replace('"', '""')
    parameters = {
        "listen_addresses": "",
        "port": "5432",
        "unix_socket_directories": f'"{quoted}"',
        "hba_file": str(layout.hba_file),
        "ident_file": str(layout.ident_file),
        "logging_collector": "off",
        "log_destination": "stderr",
        "max_connections": "200",
        "wal_compression": "on",
        "timezone": "UTC",
        "log_timezone": "UTC",
    }
    if binaries.can_preload:
        parameters["shared_preload_libraries"] = PRELOAD_LIBRARY
    return parameters


def _open_log(path: Path, account: Account) -> int:
    if path.exists() and path.stat().st_size > LARGEST_LOG:
        path.replace(path.with_name("postgres.log.1"))
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o640)
    account.own(descriptor)
    return descriptor
