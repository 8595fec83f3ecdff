"""Probes for stale state: writers at each node's own port, and keys that are revoked."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, LiteralString

import aiohttp
import asyncpg

from drills.cluster import DATABASES, Cluster
from drills.nodes import Fleet, Keyrack

UNREACHABLE = (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, TimeoutError)
READ_ONLY = "25006"
TABLE: LiteralString = "create table if not exists drill_probe (id uuid primary key, machine text not null)"
WRITE: LiteralString = """
insert into drill_probe values ($1, $2)
returning ('x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))::bit(32)::integer
"""
# Maximum seconds until a revocation is effective: KEYRACK_AUTH_CACHE_MAX_STALENESS_SECONDS and a response time
HOLDS = 3.0 + 0.5


@dataclass
class Writers:
    """One writer for each machine, at its own port: a successful write proves that it acts as a primary."""

    cluster: Cluster
    acknowledged: dict[uuid.UUID, tuple[str, int]] = field(default_factory=dict[uuid.UUID, tuple[str, int]])
    _tasks: list[asyncio.Task[None]] = field(default_factory=list[asyncio.Task[None]])

    async def start(self) -> None:
        raw = await asyncpg.connect(self.cluster.dsn_of(await self.cluster.leader()), timeout=5)
        await raw.execute(TABLE)
        await raw.close()
        self._tasks = [asyncio.create_task(self._write(machine)) for machine in DATABASES]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _write(self, machine: str) -> None:
        raw: Any = None
        while True:
            id = uuid.uuid4()
            try:
                if raw is None:
                    raw = await asyncpg.connect(self.cluster.dsn_of(machine), timeout=3)
                async with asyncio.timeout(60):
                    timeline = await raw.fetchval(WRITE, id, machine)
                self.acknowledged[id] = machine, timeline
            except UNREACHABLE as error:
                if raw is not None and getattr(error, "sqlstate", "") != READ_ONLY:  # a standby reports this
                    raw.terminate()
                    raw = None
            await asyncio.sleep(0.1)

    def timelines(self) -> Counter[int]:
        """The number of acknowledged writes on each timeline."""
        return Counter(timeline for _, timeline in self.acknowledged.values())


class Revocations:
    """Keys in permanent use at both nodes, some of which are revoked during failures."""

    def __init__(self, keyrack: Keyrack, fleet: Fleet, http: aiohttp.ClientSession) -> None:
        self._keyrack = keyrack
        self._fleet = fleet
        self._http = http
        self.done = 0
        self.refused = 0  # rejected requests after a revocation
        self.faults: list[str] = []
        self.failed: list[str] = []  # errors of commands that were repeated

    async def prepare(self) -> tuple[int, str]:
        """Create a key; returns its id and the key."""
        return await self._patiently("api-key", "add", "to be revoked")

    async def revoke(self, id: int, key: str, watched: float) -> None:
        """Use the key, revoke it, and check that both nodes reject it for `watched` seconds."""
        seen: list[tuple[str, float, int]] = []
        users = [asyncio.create_task(self._use(url, key, seen)) for url in self._keyrack.urls]
        await self._patiently("api-key", "revoke", str(id))
        ended = time.monotonic() + HOLDS
        await asyncio.sleep(HOLDS + watched)
        for task in users:
            task.cancel()
        await asyncio.gather(*users, return_exceptions=True)
        late = [(url, status, begun - ended) for url, begun, status in seen if begun > ended]
        for url, status, after in late:
            if status == 200:
                self.faults.append(f"{url} accepted a key {after + HOLDS:.1f} s after its revocation")
        self.refused += sum(status == 401 for _, status, _ in late)
        self.done += 1

    async def _use(self, url: str, key: str, seen: list[tuple[str, float, int]]) -> None:
        headers = self._fleet.headers | {"vendor-API-Key": key}
        timeout = aiohttp.ClientTimeout(total=5)
        while True:
            begun = time.monotonic()
            with suppress(aiohttp.ClientError, TimeoutError, OSError):
                async with self._http.get(f"{url}/v3/groups?$top=1", headers=headers, timeout=timeout) as answer:
                    seen.append((url, begun, answer.status))
            await asyncio.sleep(0.1)

    async def _patiently(self, *arguments: str) -> tuple[int, str]:
        while True:
            try:
                told = await self._keyrack.command(*arguments, "--cell", self._fleet.cell)
                return told.get("id", 0), told.get("apiKey", "")
            except RuntimeError as error:
                if "was already revoked" in str(error):  # by an attempt whose answer was lost
                    return 0, ""
                self.failed.append(str(error))
            await asyncio.sleep(0.3)
