"""A TCP proxy of a database server, which a test can cut."""

from __future__ import annotations

import asyncio
import threading
from urllib.parse import unquote, urlsplit

from keyrack.db.replication.primary_connector import hosts_of
from tests.support.servers import DEADLINE, free_port


class DatabaseProxy:
    """Forwards connections to a database. While it is cut, connections are refused."""

    def __init__(self, dsn: str, *, is_cut: bool = False) -> None:
        self._host = hosts_of(dsn)[0]
        self._port = free_port()
        parts = urlsplit(dsn)
        account = parts.netloc.rpartition("@")[0]
        self.dsn = f"postgresql://{account}@127.0.0.1:{self._port}{parts.path}"
        self._loop = asyncio.new_event_loop()
        self._writers = set[asyncio.StreamWriter]()
        self._server: asyncio.Server | None = None
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        if not is_cut:
            self.restore()

    def cut(self) -> None:
        """End all connections, and refuse new ones."""
        self._run(self._cut())

    def restore(self) -> None:
        """Accept connections again."""
        self._run(self._restore())

    def close(self) -> None:
        self.cut()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(DEADLINE)

    def _run(self, coroutine: object) -> None:
        asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(DEADLINE)  # type: ignore[arg-type]

    async def _restore(self) -> None:
        self._server = await asyncio.start_server(self._forward, "127.0.0.1", self._port, reuse_address=True)

    async def _cut(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        for writer in list(self._writers):
            writer.transport.abort()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        name, port = unquote(self._host.name), self._host.port
        if name.startswith("/"):
            upstream = await asyncio.open_unix_connection(f"{name}/.s.PGSQL.{port}")
        else:
            upstream = await asyncio.open_connection(name, port)
        self._writers |= {writer, upstream[1]}
        await asyncio.gather(_copy(reader, upstream[1]), _copy(upstream[0], writer), return_exceptions=True)
        self._writers -= {writer, upstream[1]}


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.transport.abort()
