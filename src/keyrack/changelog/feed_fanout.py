"""Fan-out of one customer's change feed: each change is read once for all subscribers.

All subscribers of a process get the same bytes.
"""

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

GONE = "gone"  # in place of an id: a client that reconnects with it gets 204
AGAIN = 0.5  # seconds until a retry if the database did not answer


def id_of(epoch: UUID | None, number: int) -> str:
    """The id of an event, from which the client may resume."""
    return f"{epoch or ''}:{number}"


def place_of(id: str) -> tuple[UUID | None, int] | None:
    """The epoch and the number of such an id; None if it is invalid."""
    epoch, _, digits = id.rpartition(":")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 18):
        return None
    with suppress(ValueError):
        return UUID(epoch) if epoch else None, int(digits)
    return None


def events(epoch: UUID | None, piece: Piece, behind: int = 0) -> bytes:
    """The changes of a batch after a number, as server-sent events."""
    return b"".join(
        f"id: {id_of(epoch, number)}\nevent: change\ndata: {item}\n\n".encode()
        for number, item in piece.items
        if number > behind
    )


def cursor_expired_event(extent: Extent) -> bytes:
    """The event in place of 410, which scripts in a browser cannot see.

    Its id keeps browsers from reconnecting.
    """
    return f"id: {GONE}\nevent: gone\ndata: {json.dumps(extent.as_json())}\n\n".encode()


class Proof(Protocol):
    """Proof that reads come from the primary: `Heartbeat`, as for every request."""

    def check(self) -> int:
        """Raise `Unavailable` unless the primary is proven."""
        ...

    def assert_current(self, proven: int | None) -> None:
        """Raise `Unavailable` unless all reads since that `check` are still up to date."""
        ...


class FeedSubscriber(Subscription):
    """A subscriber of the feed; `is_live` while it has got every change."""

    is_live = False

    def offer(self, piece: Piece, body: bytes, epoch: UUID | None) -> None:
        """Deliver the next batch, and its bytes as events: one object for all subscribers."""
        raise NotImplementedError


class CustomerFeed:
    """The log of one customer while it has subscribers.

    `extent` is the part that was delivered, None at first.
    """

    def __init__(self, db: Database, customer: int, every: float, proof: Proof) -> None:
        self.extent: Extent | None = None
        self.renewed = 0  # number of breaks at which no cursor could continue
        self.subscriptions: dict[Subscription, None] = {}
        self._db = db
        self._customer = customer
        self._poll_seconds = every
        self._proof = proof
        self._asked = asyncio.Event()
        self._asked.set()

    def check_soon(self) -> None:
        """Request a poll: there may be new changes."""
        self._asked.set()

    async def read_chunk(self, behind: int, recorded: Extent) -> Piece | None:
        """Read the changes after a number, up to the delivered extent, recorded since `recorded`."""
        newest = 0 if self.extent is None else self.extent.newest
        return await self._proven(read(self._db, self._customer, behind, newest, recorded.recorded))

    async def _proven(self, reads: Coroutine[Any, Any, T]) -> T:
        """The result of a read, with proof that it comes from the primary and stays.

        A primary that came back after a crash may show commits that its standby lacks. Raises `Unavailable`.
        """
        try:
            proven = self._proof.check()
        except Refusal:
            reads.close()
            raise
        result = await reads
        self._proof.assert_current(proven)
        return result

    async def run(self) -> None:
        """Poll until cancelled: on request, and at an interval."""
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
        """Deliver the new changes."""
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
            await asyncio.sleep(0)  # subscribers get this batch before the next one
        self.extent = extent
        self._wake()

    def _listeners(self) -> list[FeedSubscriber]:
        return [subscription for subscription in self.subscriptions if isinstance(subscription, FeedSubscriber)]

    def _begin(self, extent: Extent, *, is_new_epoch: bool) -> None:
        """Begin with an extent that continues no earlier one.

        That is the first one, one of a new epoch, or one after missing changes.
        """
        self.extent = extent
        self.renewed += is_new_epoch
        self._wake()

    def _wake(self) -> None:
        for subscription in list(self.subscriptions):
            subscription.wake()
