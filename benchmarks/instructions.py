"""Instructions of a process, counted by the program `perf`.

Their number does not depend on the speed of the machine. Many virtual machines cannot count them. Then there is no
figure, and no message.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import subprocess
from typing import Self

EVENT = "instructions:u"  # in user mode, which needs no privileges
STAT = ("perf", "stat", "-x,", "-e")


def parse(output: str) -> float | None:
    """The number of events in the output of `perf stat -x,`. None if nothing was counted.

    A processor with two kinds of cores has a line for each kind.
    """
    texts = [line.split(",", 1)[0] for line in output.splitlines()]
    counts = [float(text) for text in texts if text.replace(".", "", 1).isdecimal()]
    return sum(counts) if counts else None


@functools.cache
def is_countable(event: str = EVENT) -> bool:
    """Whether `perf` is installed and this machine counts these events."""
    with contextlib.suppress(OSError):
        tried = subprocess.run([*STAT, event, "true"], capture_output=True, text=True, check=False)
        return parse(tried.stderr) is not None
    return False


class EventCounter:
    """A counter of the events of a process and its threads. It counts between `resume` and `pause`.

    It does nothing where the events are not countable.
    """

    def __init__(self, pid: int, event: str = EVENT) -> None:
        self.pid, self.event = pid, event
        self.number: float | None = None  # known after the end of the context

    def __enter__(self) -> Self:
        self._resources = contextlib.ExitStack()
        self._perf = self._start() if is_countable(self.event) else None
        return self

    def __exit__(self, *_: object) -> None:
        if self._perf is not None:
            self._perf.send_signal(signal.SIGINT)
            self.number = parse(self._perf.communicate()[1])
        self._resources.close()

    def resume(self) -> None:
        self._control("enable")

    def pause(self) -> None:
        self._control("disable")

    def _start(self) -> subprocess.Popen[str]:
        read_command, write_command = os.pipe()
        read_answer, write_answer = os.pipe()
        self._commands = self._resources.enter_context(os.fdopen(write_command, "w"))
        self._answers = self._resources.enter_context(os.fdopen(read_answer))
        command = [*STAT, self.event, "-p", str(self.pid), "-D", "-1", "--control", f"fd:{read_command},{write_answer}"]
        passed = (read_command, write_answer)
        perf = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, pass_fds=passed)
        for descriptor in passed:
            os.close(descriptor)
        return perf

    def _control(self, command: str) -> None:
        """Send a command to `perf`, and wait until it has done it."""
        if self._perf is not None:
            print(command, file=self._commands, flush=True)
            self._answers.readline()
