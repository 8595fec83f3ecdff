"""The programs of one machine: start, restart after a second, kill, stop and resume."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from keyrack.db.embedded.binaries import OsAccount, end_with_parent, environment

RESTART = 1.0  # seconds, like RestartSec of the units


class Program:
    """A program under a supervisor, like systemd's `Restart=always`."""

    def __init__(
        self, name: str, command: Sequence[str | Path], *, prefix: Sequence[str] = (), account: OsAccount | None = None,
        variables: Mapping[str, str], log: Path,
    ) -> None:  # fmt: skip
        self.name = name
        self.starts = 0
        self._command = [*prefix, *_as(account), *map(str, command)]
        self._variables = dict(variables)
        self._log = log
        self._wanted = asyncio.Event()
        self._process: asyncio.subprocess.Process | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        """The process id of the running program."""
        return None if self._process is None or self._process.returncode is not None else self._process.pid

    def start(self) -> None:
        """Run the program, and restart it when it ends."""
        self._wanted.set()
        if self._task is None:
            self._task = asyncio.create_task(self._supervise())

    def hold(self) -> None:
        """Do not restart it."""
        self._wanted.clear()

    async def stop(self, seconds: float = 20.0) -> None:
        """Stop it in order, without a restart."""
        self.hold()
        if self._process is not None and self.pid is not None:
            self._process.terminate()
            try:
                await asyncio.wait_for(self._process.wait(), seconds)
            except TimeoutError:
                kill(tree(self._process.pid), signal.SIGKILL)
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    async def _supervise(self) -> None:
        while True:
            await self._wanted.wait()
            with self._log.open("ab") as log:
                self._process = await asyncio.create_subprocess_exec(
                    *self._command, stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log, cwd="/",
                    env=environment() | self._variables, start_new_session=True,
                    preexec_fn=end_with_parent(signal.SIGTERM),
                )  # fmt: skip
            self.starts += 1
            await self._process.wait()
            await asyncio.sleep(RESTART)


def _as(account: OsAccount | None) -> list[str]:
    """The prefix that runs a command as the account, from root."""
    if account is None or not account.switch:
        return []
    return ["setpriv", f"--reuid={account.uid}", f"--regid={account.gid}", "--clear-groups", "--pdeathsig=TERM", "--"]


class Machine:
    """A machine with Patroni and PostgreSQL."""

    def __init__(self, name: str, patroni: Program, data: Path) -> None:
        self.name = name
        self.patroni = patroni
        self.data = data

    def postgres(self) -> list[int]:
        """The processes of PostgreSQL, the postmaster first."""
        with suppress(OSError, ValueError, IndexError):
            pid = int((self.data / "postmaster.pid").read_text().split()[0])
            if b"postgres" in Path(f"/proc/{pid}/cmdline").read_bytes():
                return tree(pid)
        return []

    def everything(self) -> list[int]:
        """The processes of Patroni and PostgreSQL."""
        pid = self.patroni.pid
        return list(dict.fromkeys([*(tree(pid) if pid else []), *self.postgres()]))

    def lose(self) -> None:
        """Fail like a machine without power: kill everything, and restart nothing."""
        self.patroni.hold()
        kill(self.everything(), signal.SIGKILL)


def tree(pid: int) -> list[int]:
    """A process and all its descendants."""
    below: dict[int, list[int]] = {}
    for child, parent in _parents():
        below.setdefault(parent, []).append(child)
    found = [pid]
    for one in found:
        found += below.get(one, [])
    return found


def _parents() -> Iterator[tuple[int, int]]:
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            with suppress(OSError, IndexError, ValueError):
                yield int(path.name), int(path.joinpath("stat").read_text().rpartition(")")[2].split()[1])


def kill(pids: Sequence[int], number: signal.Signals) -> None:
    """Send a signal to all of these processes that still exist."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
