"""In charge of telling which customers have something new, by topic: after the commit, and never in it.

Whoever changes something says so, at the cost of a line in a dictionary; many of the same become one, and one statement
a while gives notice of all of them. The names of topics are all that is told: whoever shows them reads again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from typing import Literal, LiteralString, get_args

import asyncpg

from keyrack.db.connection import UNREACHABLE, Database
from keyrack.db.throttled_log import ThrottledLogger

log = ThrottledLogger("keyrack.change_notifier")

# A letter of the notice stands for each, in this order: new ones come last
Topic = Literal[
    "cars", "users", "groups", "products", "services", "assignments", "operations", "events", "webhooks", "deliveries",
    "positions", "changes",
]  # fmt: skip
Topics = frozenset[Topic]
TOPICS: tuple[Topic, ...] = get_args(Topic)
LETTERS = dict(zip(TOPICS, "abcdefghijkl", strict=True))
NAMES: dict[str, Topic] = {letter: topic for topic, letter in LETTERS.items()}

NOTHING: Topics = frozenset()
APPLIED: Topics = frozenset(("operations", "assignments", "deliveries", "webhooks"))  # after operations were applied
DELIVERED: Topics = frozenset(("deliveries", "webhooks"))  # a webhook shows how many wait
DRIVEN: Topics = frozenset(("positions",))
NUMBERED: Topics = frozenset(("changes",))  # after changes got their numbers

EVERYBODY = 0  # in place of a customer
CHANNEL = "keyrack_live"
# The commit does not wait for the disk: a notice is for those who listen now, and tells them no more than to look again
NOTIFY: LiteralString = """
select set_config('synchronous_commit', 'off', true), pg_notify('keyrack_live', said) from unnest($1::text[]) said
"""
PACE = 0.05  # seconds between two notices of a process
SLOW_PACE = 1.0  # seconds between two that tell of positions, which change all the time
IN_ONE = 300  # customers of one payload: with ten digits and twelve letters each it stays below 8,000 bytes
MOST = 3_000  # customers that are told by name: beyond, everybody is told
AGAIN = 0.5  # seconds after which what could not be told is told again
AT_LAST = 1.0  # seconds that the last notice of a process may take

Notify = Callable[[int, Topics], None]


def discard(customer: int, topics: Topics) -> None:
    """Where nobody listens."""


class ChangeNotifier:
    """Tells the processes of all nodes, soon: the first at once, what follows at a bounded pace."""

    def __init__(self, db: Database, pace: float = PACE) -> None:
        """`pace` are the seconds between two notices."""
        self._db = db
        self._pace = pace
        self._pending: dict[int, Topics] = {}
        self._pending_positions: dict[int, Topics] = {}  # the same of what changes all the time
        self._positions_due_at = 0.0  # when these may be told again
        self._wake = asyncio.Event()

    def __call__(self, customer: int, topics: Topics) -> None:
        """Something of these topics has changed, of a customer or of `EVERYBODY`."""
        if topics:
            pending_topics = self._pending_positions if topics is DRIVEN else self._pending
            pending_topics[customer] = pending_topics.get(customer, NOTHING) | topics
            if len(pending_topics) > MOST:
                _merge(pending_topics)
            self._wake.set()

    async def run(self) -> None:
        """Tell until cancelled; what is left then is told at last."""
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                await self._send(self._take_due())
                await asyncio.sleep(self._pace)
        finally:
            self._positions_due_at = 0.0
            try:
                async with asyncio.timeout(AT_LAST):
                    await self._send(self._take_due())
            except TimeoutError:
                log.warning("change notification lost at shutdown")

    def _take_due(self) -> dict[int, Topics]:
        """What is to be told now; a timer sees to the rest."""
        due_topics, self._pending = self._pending, {}
        loop = asyncio.get_running_loop()
        if self._pending_positions and (now := loop.time()) >= self._positions_due_at:
            driven, self._pending_positions = self._pending_positions, {}
            self._positions_due_at = now + SLOW_PACE
            for customer, topics in driven.items():
                due_topics[customer] = due_topics.get(customer, NOTHING) | topics
        elif self._pending_positions:
            loop.call_at(self._positions_due_at, self._wake.set)
        return due_topics

    async def _send(self, topics_by_customer: dict[int, Topics]) -> None:
        if not topics_by_customer:
            return
        try:
            await self._db.execute(NOTIFY, list(encode_notifications(topics_by_customer)))
        except (*UNREACHABLE, asyncpg.PostgresError, TimeoutError) as error:
            log.warning("change notification failed, retrying", error=error)
            for customer, topics in topics_by_customer.items():
                self._pending[customer] = self._pending.get(customer, NOTHING) | topics
            if len(self._pending) > MOST:
                _merge(self._pending)
            asyncio.get_running_loop().call_later(AGAIN, self._wake.set)


def _merge(topics_by_customer: dict[int, Topics]) -> None:
    """Tell everybody, in place of so many."""
    log.warning("change notification widened to all customers", limit=MOST)
    everything = NOTHING.union(*topics_by_customer.values())
    topics_by_customer.clear()
    topics_by_customer[EVERYBODY] = everything


def encode_notifications(topics_by_customer: dict[int, Topics]) -> Iterator[str]:
    """What notices say.

    >>> list(encode_notifications({12: frozenset(("users", "cars")), 7: frozenset(("positions",))}))
    ['12ab 7k']
    """
    words = [
        f"{customer}{''.join(sorted(LETTERS[topic] for topic in topics))}"
        for customer, topics in topics_by_customer.items()
    ]
    for first in range(0, len(words), IN_ONE):
        yield " ".join(words[first : first + IN_ONE])


def parse_notification(payload: str) -> Iterable[tuple[int, Topics]]:
    """What a notice says; what a newer version says beside it is passed over.

    >>> [(customer, sorted(topics)) for customer, topics in parse_notification("12ab 7k? nonsense")]
    [(12, ['cars', 'users']), (7, ['positions'])]
    """
    for word in payload.split():
        letters = word.lstrip("0123456789")
        if digits := word[: len(word) - len(letters)]:
            yield int(digits), frozenset(NAMES[letter] for letter in letters if letter in NAMES)
