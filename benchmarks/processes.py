"""Measured processes: servers and workers, by their command."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import runpy
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from benchmarks.sizes import is_tiny

TIMEOUT = 15  # seconds for a process to end
# The slowest modules to import. At tiny size, processes are forks of one that has imported them
PRELOADED = ["keyrack.cli.main", "keyrack.server.process", "keyrack.server.worker", "benchmarks.query"]


class MeasuredProcess(Protocol):
    """A running process."""

    @property
    def pid(self) -> int: ...

    def has_ended(self) -> bool:
        """Whether the process has ended by itself."""
        ...

    def end(self) -> None:
        """Terminate it, and wait for its end."""
        ...


class _Started:
    """A separate Python, as an operator starts it."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        arguments = [sys.executable, "-m", *command]
        self._process = subprocess.Popen(arguments, env=os.environ | environment, stdout=subprocess.DEVNULL)
        self.pid = self._process.pid

    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def end(self) -> None:
        self._process.terminate()
        self._process.wait(TIMEOUT)


class _Forked:
    """A fork of a process that has imported all modules.

    It starts in a tenth of the time, but shares memory. So its figures are not valid.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(PRELOADED)
        self._process = context.Process(target=_run, args=(list(command), os.environ | environment), daemon=True)
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    def has_ended(self) -> bool:
        return not self._process.is_alive()

    def end(self) -> None:
        self._process.terminate()
        self._process.join(TIMEOUT)


def _run(command: list[str], environment: dict[str, str]) -> None:
    """Run the command in this process, as `python -m` does."""
    os.environ.clear()
    os.environ.update(environment)
    with Path(os.devnull).open("w") as nothing:
        os.dup2(nothing.fileno(), 1)
    sys.argv = command
    runpy.run_module(command[0], run_name="__main__", alter_sys=True)


@contextlib.contextmanager
def started(*commands: Sequence[str], environment: Mapping[str, str]) -> Iterator[list[MeasuredProcess]]:
    """Start a process per command, the arguments of `python -m`. All are ended together afterwards."""
    start = _Forked if is_tiny() else _Started
    processes: list[MeasuredProcess] = [start(command, environment) for command in commands]
    try:
        yield processes
    finally:
        for process in processes:
            process.end()
