"""Streams and long polls of the change feed.

A stream at the end of the log shares the bytes of each new batch with the others. A stream behind it reads its own
batches, as fast as its client takes them.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Hashable
from contextlib import contextmanager, suppress
from contextvars import Context
from typing import Any, TypeVar
from uuid import UUID

from keyrack.api.event_stream import RETRY, SPREAD, EventHub
from keyrack.api.principals import CallerKey
from keyrack.api.subscriptions import RecheckAccess, Subscription
from keyrack.changelog.feed import Extent, Piece
from keyrack.changelog.feed_fanout import CustomerFeed, FeedSubscriber, Proof, cursor_expired_event, events, id_of
from keyrack.core.background_tasks import supervise
from keyrack.core.errors import Refusal
from keyrack.core.log_config import MINUTE, RateLimitedLogger
from keyrack.core.metrics.catalog import LIMITS
from keyrack.core.settings import Settings
from keyrack.db.change_notifier import EVERYBODY, NUMBERED, parse_notification
from keyrack.db.connection import Database, is_interruption

seldom = RateLimitedLogger("keyrack.feed", MINUTE)
Result = TypeVar("Result")

ALIVE = b":\n\n"


class FeedService:
    """The change feeds with subscribers in one process."""

    def __init__(self, db: Database, hub: EventHub, settings: Settings, proof: Proof) -> None:
        self.settings = settings
        self.db = db
        self._proof = proof
        self._hub = hub
        self._feeds: dict[int, tuple[CustomerFeed, asyncio.Task[None]]] = {}
        self._reads: dict[Hashable, asyncio.Task[Any]] = {}

    def hear(self, payload: str) -> None:
        """Handle a notification."""
        if not self._feeds:
            return
        for customer, topics in parse_notification(payload):
            if topics >= NUMBERED and customer == EVERYBODY:
                self.lost()
            elif topics >= NUMBERED and customer in self._feeds:
                self._feeds[customer][0].check_soon()

    def lost(self) -> None:
        """Poll all feeds, because notifications may have been missed."""
        for customer_feed, _ in self._feeds.values():
            customer_feed.check_soon()

    def check(self, customer: int, caller: CallerKey) -> None:
        """Raise `Unavailable` or `TooManyRequests` if too many subscriptions are open."""
        self._hub.check(customer, caller)

    def enter(self, subscription: Subscription) -> CustomerFeed:
        """Subscribe to the customer's feed, until `leave`."""
        self._hub.add(subscription)
        subscription.begin()
        if subscription.customer not in self._feeds:
            db = self.db.of(subscription.customer, reads=True)
            new = CustomerFeed(db, subscription.customer, self.settings.feed_poll_interval_seconds, self._proof)
            self._feeds[subscription.customer] = (
                new,
                asyncio.create_task(supervise("change feed", new.run), context=Context()),
            )
        customer_feed = self._feeds[subscription.customer][0]
        customer_feed.subscriptions[subscription] = None
        return customer_feed

    def leave(self, subscription: Subscription) -> None:
        self._hub.remove(subscription)
        subscription.release()
        customer_feed, task = self._feeds[subscription.customer]
        del customer_feed.subscriptions[subscription]
        if not customer_feed.subscriptions:
            del self._feeds[subscription.customer]
            task.cancel()

    @contextmanager
    def subscribed(self, waiter: LongPoll) -> Generator[CustomerFeed]:
        """The feed, subscribed to within the block."""
        log = self.enter(waiter)
        try:
            yield log
        finally:
            self.leave(waiter)

    async def run_shared(self, key: Hashable, ask: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        """The result of `ask`; concurrent callers with the same key share one call."""
        task = self._reads.get(key)
        if task is None:
            task = self._reads[key] = asyncio.create_task(ask(), context=Context())  # not in the context of one caller
            task.add_done_callback(lambda _: self._reads.pop(key))
        return await asyncio.shield(task)

    async def close(self) -> None:
        """Cancel all running tasks."""
        tasks = [*(task for _, task in self._feeds.values()), *self._reads.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class LongPoll(Subscription):
    """A request that waits for new changes."""

    async def wait_for_news(self, log: CustomerFeed, known_extent: Extent, until: float) -> bool:
        """Wait until the log has more than `known_extent`, or is another one.

        Returns False at `until`, by the loop's clock, and if the subscription ends.
        """
        begun, renewed = time.monotonic(), log.renewed

        def is_new() -> bool:
            extent = log.extent or known_extent
            return log.renewed != renewed or extent.newest > known_extent.newest or extent.epoch != known_extent.epoch

        with suppress(TimeoutError):
            async with asyncio.timeout_at(until):
                while not (self._ended or is_new()):
                    await self._wake.wait()
                    self._wake.clear()
        self.wait_seconds += time.monotonic() - begun
        return is_new() and not self._ended


class FeedFollower(FeedSubscriber, AsyncIterator[bytes]):
    """A stream of the changes after a number."""

    def __init__(
        self,
        feed: FeedService,
        customer: int,
        caller: CallerKey,
        expires_at: float,
        recheck_access: RecheckAccess,
        at: tuple[UUID | None, int],
    ):
        super().__init__(customer, caller, expires_at, recheck_access)
        self._feed = feed
        self._epoch, self._last_number = at
        self._recorded = Extent()
        self._log: CustomerFeed | None = None
        self._renewed = 0
        self._queue: deque[bytes] = deque()
        self._bytes = 0
        self._closing_event: bytes | None = None  # the last event, before the stream closes

    def offer(self, piece: Piece, body: bytes, epoch: UUID | None) -> None:
        if not self.is_live or piece.last <= self._last_number:
            return
        self._epoch, settings = epoch, self._feed.settings
        body = body if piece.first > self._last_number else events(epoch, piece, self._last_number)
        full = len(self._queue) >= settings.feed_queue_batches or self._bytes + len(body) > settings.feed_queue_bytes
        if self._queue and full:
            LIMITS.add("live-queue")
            seldom.warning("slow feed subscriber disconnected", customer=self.customer)
            self.is_live = False
            self._closing_event = (
                f"event: slow\ndata: {json.dumps({'lastId': id_of(epoch, self._last_number)})}\n\n".encode()
            )
        else:
            self._last_number = piece.last
            self._queue.append(body)
            self._bytes += len(body)
        self._wake.set()

    async def __anext__(self) -> bytes:
        if self._log is None:
            return self._enter()
        while not self._ended:
            if self._queue:
                body = self._queue.popleft()
                self._bytes -= len(body)
                return body
            if self._closing_event is not None:
                self.end()
                return self._closing_event
            if (chunk := await self._next(self._log)) is not None:
                return chunk
            if self._keepalive_due:
                self._keepalive_due = False
                return ALIVE
            if not (self._queue or self._closing_event or self._ended):
                await self._wake.wait()
            self._wake.clear()
        raise StopAsyncIteration

    async def close(self) -> None:
        """Unsubscribe, however the iteration ended."""
        if self._log is not None:
            self._feed.leave(self)

    def _enter(self) -> bytes:
        """Send the first bytes at once, so that the client sees its connection and position."""
        self._log = self._feed.enter(self)
        self._renewed = self._log.renewed
        head = f"retry: {RETRY + secrets.randbelow(SPREAD)}\nid: {id_of(self._epoch, self._last_number)}\n\n"
        return head.encode()

    async def _next(self, log: CustomerFeed) -> bytes | None:
        """The next batch that this stream reads by itself; None if there is nothing to read."""
        known_extent = log.extent
        if known_extent is None:
            return None
        if log.renewed != self._renewed or (self._epoch not in (None, known_extent.epoch)):
            return self._gone_event(known_extent)
        self._epoch = known_extent.epoch
        if self._last_number >= known_extent.newest:
            self.is_live = True
        if self.is_live:
            return None
        try:
            piece = await log.read_chunk(self._last_number, self._recorded)
        except Exception as error:
            if not (isinstance(error, Refusal) or is_interruption(error)):
                raise
            self.end()  # the client reconnects and resumes
            return ALIVE
        if piece is None or piece.first != self._last_number + 1:
            return self._gone_event(known_extent)
        self._last_number, self._recorded = piece.last, Extent(recorded=piece.recorded)
        return events(self._epoch, piece)

    def _gone_event(self, extent: Extent) -> bytes:
        self.end()
        return cursor_expired_event(extent)
