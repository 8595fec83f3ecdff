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

from keyrack.metrics.instruments import Snapshot, snapshot
from keyrack.metrics.measures import OF_PROCESS

PATIENCE = 1.5  # seconds that a child has to answer: well below the ten that Prometheus waits
LONGEST = 64_000_000  # bytes of an answer
QUESTION = b"?\n"


@dataclass(frozen=True, slots=True)
class Told:
    """What a process tells of itself."""

    pid: int
    found: Snapshot


class Child:
    """A place of a child, and of its successors, with the parent's end of the line to it; unless it is to be `asked`
    there is none."""

    def __init__(self, *, asked: bool) -> None:
        self.pid = 0
        self._has_line = asked
        self._socket: socket.socket | None = None
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._asked = False  # there is a question that has no answer yet

    @contextmanager
    def line(self) -> Generator[tuple[list[str], list[int]]]:
        """What a new child is to be started with within the block: options of its command, and files."""
        self.close()
        if not self._has_line:
            yield [], []
            return
        self._socket, other = socket.socketpair()
        with other:
            yield ["--metrics-fd", str(other.fileno())], [other.fileno()]

    async def ask(self) -> Told | None:
        """What the child tells, None if it does not in time. One question at a time."""
        begun = time.monotonic()
        try:
            async with asyncio.timeout(PATIENCE):
                reader, writer = await self._open()
                while True:
                    if not self._asked:
                        writer.write(QUESTION)
                        self._asked = True
                    line = await reader.readline()
                    if not line:
                        return None
                    self._asked = False
                    answer: dict[str, Any] = json.loads(line)
                    if answer["at"] >= begun:  # else it is the answer to a question that nobody waits for any more
                        return Told(self.pid, answer["found"])
        except (OSError, ValueError, TimeoutError):
            return None

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
        elif self._socket is not None:
            self._socket.close()
        self._socket = self._reader = self._writer = None
        self._asked = False

    async def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._reader is None or self._writer is None:
            if self._socket is None:
                raise ConnectionResetError("there is no child")
            self._reader, self._writer = await asyncio.open_unix_connection(sock=self._socket, limit=LONGEST)
        return self._reader, self._writer


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
            told = {"at": time.monotonic(), "found": snapshot(OF_PROCESS)}
            writer.write(json.dumps(told).encode() + b"\n")
            await writer.drain()
