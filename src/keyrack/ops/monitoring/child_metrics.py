"""Metrics of child processes: the parent requests a snapshot from each child.

Parent and child share a pair of sockets. A request is a line, and so is the reply, with its time and the snapshot. A
child that does not reply in time is skipped.
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

PATIENCE = 1.5  # timeout of a child (seconds), well below the ten seconds of Prometheus
LONGEST = 64_000_000  # maximum size of a reply (bytes)
QUESTION = b"?\n"


@dataclass(frozen=True, slots=True)
class ChildReport:
    """The metrics of one process."""

    pid: int
    snapshot: Snapshot


class Child:
    """The slot of a child and of its successors. It has a line only if `is_polled`."""

    def __init__(self, *, is_polled: bool) -> None:
        self.pid = 0
        self._is_polled = is_polled
        self._line: _Line | None = None

    @contextmanager
    def line(self) -> Generator[tuple[list[str], list[int]]]:
        """The options and file descriptors for a new child, valid within the block."""
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
        """The child's report, or None if it does not reply in time. Allows one request at a time."""
        if self._line is None:
            return None
        try:
            async with asyncio.timeout(PATIENCE):
                metrics = await self._line.ask()
        except (OSError, ValueError):  # includes timeouts
            return None
        return None if metrics is None else ChildReport(self.pid, metrics)


class _Line:
    """The parent's end of the line to one child."""

    def __init__(self, own: socket.socket) -> None:
        self._socket = own
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._waits = False  # the last request has no reply yet

    async def ask(self) -> Snapshot | None:
        """Request a new snapshot. Returns None if the child has exited."""
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
            if answer["at"] >= begun:  # otherwise it answers an earlier request that timed out
                return answer["found"]

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
        else:
            self._socket.close()


@asynccontextmanager
async def answering(parent: socket.socket) -> AsyncGenerator[None]:
    """Reply to the parent's requests within the block."""
    reader, writer = await asyncio.open_unix_connection(sock=parent)
    task = asyncio.create_task(_answer(reader, writer))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait((task,))
        writer.close()


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):  # the parent has exited, and this process exits, too
        while await reader.readline():
            reply = {"at": time.monotonic(), "found": snapshot(OF_PROCESS)}
            writer.write(json.dumps(reply).encode() + b"\n")
            await writer.drain()
