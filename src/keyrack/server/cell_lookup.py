"""Finds the cell of a credential: all reachable ones are asked."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil

import asyncpg

from keyrack.auth import browser_state
from keyrack.auth.cache_invalidation import CHANGES
from keyrack.auth.passkeys import PasskeyOwners
from keyrack.core.background_tasks import supervise
from keyrack.core.errors import TooManyRequests, Unavailable
from keyrack.core.log_config import RateLimitedLogger
from keyrack.core.settings import Cell
from keyrack.db.connection import UNREACHABLE, Database
from keyrack.db.encryption.cipher import Encryption
from keyrack.server.cell_credentials import Credential

seldom = RateLimitedLogger("keyrack.cells")

APPLICATION = "keyrack cell lookup"  # application name of the connections
CONNECTIONS = 2
LOOKUP_SECONDS = 1.0  # for an answer; a cell that misses it in a poll counts as away, until it answers one
POLL_SECONDS = 0.4  # between two polls for changed access
HIT_SECONDS, MISS_SECONDS = 60.0, 2.0  # until an answer is looked up again
MOST_ANSWERS = 50_000  # remembered ones
MOST_LOOKUPS = 64  # at a time
MOST_ADDRESSES = 10_000  # of clients with misses
AWAY = (*UNREACHABLE, asyncpg.PostgresError, TimeoutError, Unavailable)


class CellDirectory:
    """Looks up credentials in the database of one cell.

    `run` keeps `is_reachable` true while the cell answers, and calls `on_change` after every change of its access. The
    owner sets `is_checked` once the database is known to be that of the cell.
    """

    def __init__(self, cell: Cell, dsn: str, on_change: Callable[[], None]) -> None:
        self.cell = cell
        self.is_checked = False
        self._answers = False
        self._dsn = dsn
        self._on_change = on_change
        self._changes: asyncpg.Record | None = None
        self._db: Database | None = None

    @property
    def is_reachable(self) -> bool:
        """Whether the cell can be asked."""
        return self.is_checked and self._answers

    async def run(self) -> None:
        """Poll until cancelled."""
        try:
            while True:
                await self.poll()
                await asyncio.sleep(POLL_SECONDS)
        finally:
            if self._db is not None:
                await self._db.close()

    async def poll(self) -> None:
        """Check the cell's connection, and whether its access has changed."""
        if not self.is_checked:
            return
        try:
            if self._db is None:
                self._db = await self._connect()
            async with asyncio.timeout(LOOKUP_SECONDS):
                changes = await self._db.fetchrow(CHANGES)
        except AWAY as error:
            self._lost(error)
            return
        self._answers = True
        if changes != self._changes:
            self._changes = changes
            self._on_change()

    async def find(self, credential: Credential) -> int:
        """The result of the SQL of the credential's kind.

        It is 0 if the cell does not have the credential, and -1 if the cell does not answer. One late answer does not
        make the cell unreachable: the next poll decides that.
        """
        try:
            async with asyncio.timeout(LOOKUP_SECONDS):
                if credential.kind.sql is None:
                    return int(await self._has_state(credential))
                return await self._database().fetchval(credential.kind.sql, credential.parameter) or 0
        except asyncpg.DataError:  # a text that no value of the database has
            return 0
        except TimeoutError:
            return -1
        except AWAY as error:
            self._lost(error)
            return -1

    async def challenges(self, owners: PasskeyOwners, cookie: str) -> Sequence[dict[str, object]]:
        """The challenges for passkeys in a cookie that this cell has sealed. Raises one of `AWAY`."""
        async with asyncio.timeout(LOOKUP_SECONDS):
            return [dict(state) for state in await browser_state.valid(self._vault(), owners.purpose, cookie)]

    async def seal(self, owners: PasskeyOwners, challenges: Sequence[dict[str, object]]) -> str:
        """The cookie with these challenges, sealed by this cell. Raises one of `AWAY`."""
        cookie = ""
        async with asyncio.timeout(LOOKUP_SECONDS):
            for state in reversed(challenges):
                cookie = await browser_state.add(self._vault(), owners.purpose, cookie, state)
        return cookie

    async def _has_state(self, credential: Credential) -> bool:
        """Whether this cell has sealed the cookie's state of a sign-in."""
        state, _, cookie = credential.text.partition(" ")
        states = await browser_state.valid(self._vault(), credential.kind.purpose, cookie)
        return any(known.get("state") == state for known in states)

    async def _connect(self) -> Database:
        """Raises `Unavailable`."""
        database = await Database.connect(self._dsn, self.cell.settings, application=APPLICATION, size=CONNECTIONS)
        return database.reading()

    def _database(self) -> Database:
        """Raises `Unavailable` before the first connection."""
        if self._db is None:
            raise Unavailable
        return self._db

    def _vault(self) -> Encryption:
        """The encryption of the cell's messages, with its data keys of now. Raises `Unavailable`."""
        return Encryption(self._database(), self.cell.settings)

    def _lost(self, error: BaseException) -> None:
        if self._answers:
            seldom.warning("cell away", error=error, cell=self.cell.name, throttle_by=self.cell.name)
        self._answers = False


@dataclass(frozen=True, slots=True)
class FoundCell:
    """The result of a lookup, as places in `CellFinder.directories`."""

    place: int | None  # of the cell that has the credential
    silent: int | None = None  # of a cell that did not answer, if none has it


class MissLimit:
    """The unknown credentials that one address may send.

    It may send `rate` a minute, and as many at once.
    """

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._used: OrderedDict[str, tuple[float, float]] = OrderedDict()  # address -> misses, and their time

    def check(self, address: str) -> None:
        """Raises `TooManyRequests` beyond the rate."""
        misses = self._present(address)
        if misses + 1 > self._rate:
            raise TooManyRequests(max(1, ceil((misses + 1 - self._rate) * 60 / self._rate)))

    def count(self, address: str) -> None:
        misses = self._present(address)
        self._used[address] = (misses + 1, time.monotonic())
        self._used.move_to_end(address)
        if len(self._used) > MOST_ADDRESSES:
            self._used.popitem(last=False)

    def _present(self, address: str) -> float:
        misses, since = self._used.get(address, (0.0, 0.0))
        return max(0.0, misses - (time.monotonic() - since) * self._rate / 60)


class CellFinder:
    """Finds the cell of a credential, and remembers it.

    A remembered answer is looked up again after a change of access in any cell. Until a cell that is away is back, its
    last answer counts.
    """

    def __init__(self, miss_rate: int) -> None:
        self.directories: tuple[CellDirectory, ...] = ()
        self._misses = MissLimit(miss_rate)
        self._answers: OrderedDict[tuple[str, object], tuple[int | None, int, float]] = OrderedDict()
        self._generation = 0
        self._lookups = asyncio.Semaphore(MOST_LOOKUPS)

    def forget(self) -> None:
        """Look up every answer again at its next use: access has changed."""
        self._generation += 1

    async def find(self, credential: Credential, address: str) -> FoundCell:
        """The cell of the credential.

        Raises `TooManyRequests` if the address has sent too many unknown ones.
        """
        key = credential.kind.name, credential.parameter
        place, generation, until = self._answers.get(key, (None, -1, 0.0))
        if generation == self._generation and time.monotonic() < until:
            return FoundCell(place)
        if place is None:
            self._misses.check(address)
        generation = self._generation
        async with self._lookups:
            # A known credential waits for no other cell: one that does not answer delays none of its callers
            if place is not None and await self._ask_one(place, credential) == credential.kind.greatest:
                self._remember(key, place, generation)
                return FoundCell(place)
            found = await self._ask(credential)
        best = max(found, default=0)
        if best > 0:
            place = found.index(best)
        elif place is None or found[place] == 0:
            place = None
            self._misses.count(address)
        silent = found.index(-1) if place is None and -1 in found else None
        if silent is None and credential.kind.sql is not None:
            self._remember(key, place, generation)
        return FoundCell(place, silent)

    async def _ask(self, credential: Credential) -> list[int]:
        """The answer of each cell."""
        return await asyncio.gather(*(self._ask_one(place, credential) for place in range(len(self.directories))))

    async def _ask_one(self, place: int, credential: Credential) -> int:
        """The answer of a cell, as `CellDirectory.find` gives it. A cell that is away is not asked."""
        directory = self.directories[place]
        return await directory.find(credential) if directory.is_reachable else -1

    def _remember(self, key: tuple[str, object], place: int | None, generation: int) -> None:
        seconds = MISS_SECONDS if place is None else HIT_SECONDS
        self._answers[key] = (place, generation, time.monotonic() + seconds)
        self._answers.move_to_end(key)
        if len(self._answers) > MOST_ANSWERS:
            self._answers.popitem(last=False)

    def start(self) -> list[asyncio.Task[None]]:
        """Begin to poll all cells."""
        return [
            asyncio.create_task(supervise(f"directory of cell {each.cell.name}", each.run)) for each in self.directories
        ]
