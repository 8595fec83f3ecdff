"""In charge of one machine's programs: started, started again a second after they end, killed, stopped, let go."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from keyrack.db.embedded.binaries import OsAccount, end_with_parent, environment

RESTART = 1.0  # seconds, as RestartSec of the units


class Program:
    """A program under a supervisor, as systemd's `Restart=always` is one."""

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
        """Of the program while it runs."""
        return None if self._process is None or self._process.returncode is not None else self._process.pid

    def start(self) -> None:
        """Run it, from now on or again."""
        self._wanted.set()
        if self._task is None:
            self._task = asyncio.create_task(self._supervise())

    def hold(self) -> None:
        """Do not start it again."""
        self._wanted.clear()

    async def stop(self, seconds: float = 20.0) -> None:
        """End it in order, and not begin it again."""
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
    """What makes a command run as the account, from root."""
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
        """The processes of PostgreSQL, its first one first."""
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
        """As a machine does when its power fails: nothing is left, and nothing starts again."""
        self.patroni.hold()
        kill(self.everything(), signal.SIGKILL)


def tree(pid: int) -> list[int]:
    """A process and all below it."""
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
    """Send a signal to all that are there still."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
