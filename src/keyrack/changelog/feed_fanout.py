"""In charge of one customer's log of changes as a process follows it: what comes is read once and handed to all who
listen, in the same bytes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, Protocol, TypeVar
from uuid import UUID

from keyrack.api.subscriptions import Subscription
from keyrack.changelog.feed import Extent, Piece, load_extent, read
from keyrack.core.errors import Refusal
from keyrack.db.connection import Database, is_interruption
from keyrack.db.throttled_log import ThrottledLogger

log = ThrottledLogger("keyrack.feed")
T = TypeVar("T")

GONE = "gone"  # in place of an id: whoever comes back with it is told that there is nothing to come back to
AGAIN = 0.5  # seconds until it is looked again where the database did not answer


def id_of(epoch: UUID | None, number: int) -> str:
    """The id of an event: the client may go on behind it."""
    return f"{epoch or ''}:{number}"


def place_of(id: str) -> tuple[UUID | None, int] | None:
    """The epoch and the number of such an id; None for what is none."""
    epoch, _, digits = id.rpartition(":")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 18):
        return None
    with suppress(ValueError):
        return UUID(epoch) if epoch else None, int(digits)
    return None


def events(epoch: UUID | None, piece: Piece, behind: int = 0) -> bytes:
    """The changes of a piece behind a number, as server-sent events."""
    return b"".join(
        f"id: {id_of(epoch, number)}\nevent: change\ndata: {item}\n\n".encode()
        for number, item in piece.items
        if number > behind
    )


def raise_cursor_expired(extent: Extent) -> bytes:
    """The event in place of 410, which scripts of a browser would not see; its id keeps them from coming back."""
    return f"id: {GONE}\nevent: gone\ndata: {json.dumps(extent.as_json())}\n\n".encode()


class Proof(Protocol):
    """That what is read is the leader's: `Heartbeat`, as every request asks it."""

    def check(self) -> int:
        """Raises `Unavailable` unless it is proven."""
        ...

    def assert_current(self, proven: int | None) -> None:
        """Raises `Unavailable` unless what was read since that `check` is still up to date."""
        ...


class FeedSubscriber(Subscription):
    """Who is told what comes; `is_live` as long as everything was told that there is."""

    is_live = False

    def offer(self, piece: Piece, body: bytes, epoch: UUID | None) -> None:
        """The next piece, and the same as events: one object for all."""
        raise NotImplementedError


class CustomerFeed:
    """The log of one customer, as long as somebody follows it; `extent` is how far it was told, None at first."""

    def __init__(self, db: Database, customer: int, every: float, proof: Proof) -> None:
        self.extent: Extent | None = None
        self.renewed = 0  # how often another epoch has begun
        self.subscriptions: dict[Subscription, None] = {}
        self._db = db
        self._customer = customer
        self._poll_seconds = every
        self._proof = proof
        self._asked = asyncio.Event()
        self._asked.set()

    def check_soon(self) -> None:
        """There may be something new."""
        self._asked.set()

    async def read_chunk(self, behind: int, recorded: Extent) -> Piece | None:
        """What comes behind a number, as far as it was told, not before the time of `recorded`."""
        newest = 0 if self.extent is None else self.extent.newest
        return await self._proven(read(self._db, self._customer, behind, newest, recorded.recorded))

    async def _proven(self, reads: Coroutine[Any, Any, T]) -> T:
        """What is read, where it is proven to be the leader's and to stay: a leader that came back after a crash shows
        commits that the standby may not have. Raises `Unavailable`."""
        try:
            proven = self._proof.check()
        except Refusal:
            reads.close()
            raise
        result = await reads
        self._proof.assert_current(proven)
        return result

    async def run(self) -> None:
        """Look until cancelled: when it is asked for, and now and then."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._poll_seconds):
                    await self._asked.wait()
            self._asked.clear()
            try:
                await self._go_on()
            except Exception as error:
                if not (isinstance(error, Refusal) or is_interruption(error)):
                    raise
                log.warning("change feed interrupted, retrying", error=error)
                await asyncio.sleep(AGAIN)
                self._asked.set()

    async def _go_on(self) -> None:
        """Tell what has come."""
        extent, known_extent = await self._proven(load_extent(self._db, self._customer)), self.extent
        if known_extent is None or not extent.has(known_extent.newest, known_extent.epoch):
            self._begin(extent, is_new_epoch=known_extent is not None)
            return
        progress = Extent(extent.epoch, extent.oldest, known_extent.newest, known_extent.recorded)
        while progress.newest < extent.newest and any(subscriber.is_live for subscriber in self._listeners()):
            piece = await self._proven(
                read(self._db, self._customer, progress.newest, extent.newest, progress.recorded)
            )
            if piece is None or piece.first != progress.newest + 1:
                self._begin(extent, is_new_epoch=True)
                return
            body = events(extent.epoch, piece)
            self.extent = progress = Extent(extent.epoch, extent.oldest, piece.last, piece.recorded)
            for subscriber in self._listeners():
                subscriber.offer(piece, body, extent.epoch)
            await asyncio.sleep(0)  # who takes it takes it before the next one comes
        self.extent = extent
        self._wake()

    def _listeners(self) -> list[FeedSubscriber]:
        return [subscription for subscription in self.subscriptions if isinstance(subscription, FeedSubscriber)]

    def _begin(self, extent: Extent, *, is_new_epoch: bool) -> None:
        """The log is another one than was known: nobody can go on."""
        self.extent = extent
        self.renewed += is_new_epoch
        self._wake()

    def _wake(self) -> None:
        for subscription in list(self.subscriptions):
            subscription.wake()
