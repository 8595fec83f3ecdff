"""In charge of what several processes under one parent tell of themselves: the parent asks, each child answers.

Parent and child have a pair of sockets. A question is a line, and so is the answer: when it was made, and the snapshot.
A child that is stopped, or busy for too long, answers nothing, and nobody waits for it; one that has died has none.
"""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from keyrack.core.metrics.catalog import OF_PROCESS
from keyrack.core.metrics.instruments import Snapshot, snapshot

PATIENCE = 1.5  # seconds that a child has to answer: well below the ten that Prometheus waits
LONGEST = 64_000_000  # bytes of an answer
QUESTION = b"?\n"


@dataclass(frozen=True, slots=True)
class ChildReport:
    """What a process tells of itself."""

    pid: int
    snapshot: Snapshot


class Child:
    """A place of a child, and of its successors; only if `is_polled` there is a line to it."""

    def __init__(self, *, is_polled: bool) -> None:
        self.pid = 0
        self._is_polled = is_polled
        self._line: _Line | None = None

    @contextmanager
    def line(self) -> Generator[tuple[list[str], list[int]]]:
        """What a new child is to be started with within the block: options of its command, and files."""
        if self._line is not None:
            self._line.close()
        if not self._is_polled:
            yield [], []
            return
        own, other = socket.socketpair()
        self._line = _Line(own)
        with other:
            yield ["--metrics-fd", str(other.fileno())], [other.fileno()]

    async def ask(self) -> ChildReport | None:
        """What the child tells, None if it does not in time. One question at a time."""
        if self._line is None:
            return None
        try:
            async with asyncio.timeout(PATIENCE):
                metrics = await self._line.ask()
        except (OSError, ValueError):  # a time-out among them
            return None
        return None if metrics is None else ChildReport(self.pid, metrics)


class _Line:
    """The parent's end of the line to one child."""

    def __init__(self, own: socket.socket) -> None:
        self._socket = own
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._waits = False  # a question has no answer yet

    async def ask(self) -> Snapshot | None:
        """What the child tells from now on; None if it has gone."""
        begun = time.monotonic()
        if self._streams is None:
            self._streams = await asyncio.open_unix_connection(sock=self._socket, limit=LONGEST)
        reader, writer = self._streams
        while True:
            if not self._waits:
                writer.write(QUESTION)
                self._waits = True
            line = await reader.readline()
            if not line:
                return None
            self._waits = False
            answer: dict[str, Any] = json.loads(line)
            if answer["at"] >= begun:  # else it is the answer to a question that nobody waits for any more
                return answer["found"]

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
        else:
            self._socket.close()


@asynccontextmanager
async def answering(parent: socket.socket) -> AsyncGenerator[None]:
    """Answer the parent's questions within the block."""
    reader, writer = await asyncio.open_unix_connection(sock=parent)
    task = asyncio.create_task(_answer(reader, writer))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait((task,))
        writer.close()


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):  # the parent has gone, and this process goes, too
        while await reader.readline():
            reply = {"at": time.monotonic(), "found": snapshot(OF_PROCESS)}
            writer.write(json.dumps(reply).encode() + b"\n")
            await writer.drain()
