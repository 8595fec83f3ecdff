"""Callers of a customer that is moved, with a log of answers."""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import asyncpg
import httpx

from tests.ops.cells.conftest import RunningCell, TwoCells
from tests.ops.cells.moves import signed_in
from tests.support.people import Person
from tests.support.servers import Sql

GONE = (401, 404)  # of a cell that does not have the customer any more
NOT_NOW = 503
PAUSE = 0.05  # seconds between two requests of a caller


class Caller:
    """A client that follows the customer to the other cell."""

    def __init__(self, cells: TwoCells, person: Person) -> None:
        self._people: dict[str, Person] = {"main": person}
        self._cells = {"main": cells.main, "east": cells.east}
        self._place = "main"

    def call(self, method: str, path: str, json: Any = None) -> httpx.Response:
        """The answer of the cell that has the customer."""
        while True:
            person = self._people.get(self._place)
            answer = person.call(method, path, json) if person else None
            if answer is not None and answer.status_code not in GONE:
                return answer
            self._place = "east" if self._place == "main" else "main"
            with contextlib.suppress(AssertionError):  # the accounts are not here yet
                self._people[self._place] = _sign_in(self._people, self._cells[self._place])


def _sign_in(people: dict[str, Person], cell: RunningCell) -> Person:
    return signed_in(next(iter(people.values())), cell)


@dataclass
class Log:
    """The answers that the callers got."""

    cars: dict[int, str] = field(default_factory=dict)  # acknowledged: id -> name
    users: dict[int, str] = field(default_factory=dict)  # acknowledged: id -> address
    reference: str = ""  # the last acknowledged `externalId` of the user
    operations: set[str] = field(default_factory=set)  # accepted
    changes: dict[int, dict[str, Any]] = field(default_factory=dict)  # of the feed
    epochs: set[str] = field(default_factory=set)
    rejected: int = 0  # writes with 503
    both_writable: int = 0
    errors: list[str] = field(default_factory=list)


class Probe:
    """A transaction that writes a row of the customer. The context rolls it back."""

    WRITE = "update event_counter set last_id = last_id where customer_id = $1 returning true"

    def __init__(self, cell: RunningCell, customer: int) -> None:
        self._sql, self._customer = Sql(cell.dsn), customer
        self.is_writable = False

    def __enter__(self) -> Probe:
        self._sql.execute("begin")
        with contextlib.suppress(asyncpg.PostgresError):
            self.is_writable = bool(self._sql.value(self.WRITE, self._customer))
        return self

    def __exit__(self, *_: object) -> None:
        self._sql.close()


class Load:
    """Threads that write for the customer and read its feed."""

    def __init__(self, cells: TwoCells, person: Person, car: int, user: int) -> None:
        self.log = Log()
        self._cells, self._person, self._car, self._user = cells, person, car, user
        self._stop = threading.Event()

    @contextlib.contextmanager
    def running(self) -> Iterator[Log]:
        threads = [threading.Thread(target=self._repeat, args=(step,)) for step in self._steps()]
        for thread in threads:
            thread.start()
        try:
            yield self.log
        finally:
            self._stop.set()
            for thread in threads:
                thread.join()

    def caller(self) -> Caller:
        return Caller(self._cells, self._person)

    def read_changes(self, caller: Caller) -> int:
        """Read the changes after the last known one; return their count."""
        last = max(self.log.changes, default=0)
        answer = caller.call("GET", f"/changes?$filter=id gt {last}&$orderby=id")
        if answer.status_code != 200:
            self._expect(answer, NOT_NOW)
            return 0
        rows = answer.json()
        if epoch := answer.headers.get("changes-epoch"):
            self.log.epochs.add(epoch)
        self.log.changes.update({int(row["id"]): row for row in rows})
        return len(rows)

    def _steps(self) -> list[Callable[[], None]]:
        writer, renamer, inviter, driver, reader = (self.caller() for _ in range(5))
        numbers = iter(range(1_000_000))

        def add_car() -> None:
            name = f"Car {next(numbers)}"
            answer = writer.call("PUT", "/cars", {"name": name})
            if answer.status_code == 201:
                self.log.cars[answer.json()["id"]] = name
            else:
                self._expect(answer, NOT_NOW)

        def change_user() -> None:
            reference = f"user-{next(numbers)}"
            patch = [{"op": "replace", "path": "/externalId", "value": reference}]
            answer = renamer.call("PATCH", f"/users/{self._user}", patch)
            if answer.status_code == 204:
                self.log.reference = reference
            else:
                self._expect(answer, NOT_NOW)

        def add_user() -> None:
            address = f"load{next(numbers)}-{self._person.customer}@example.org"
            answer = inviter.call(
                "PUT", "/users", {"emailAddress": address, "userData": {"firstName": "Uma", "lastName": "Load"}}
            )
            if answer.status_code == 201:
                self.log.users[answer.json()["id"]] = address
            else:
                self._expect(answer, NOT_NOW)

        def assign() -> None:
            hour = random.randrange(10_000)
            start = f"20{30 + hour % 60}-01-01T08:00:00Z"
            body = {"carId": self._car, "userId": self._user, "start": start, "end": start.replace("T08", "T09")}
            answer = driver.call("PUT", "/assignments", body)
            if answer.status_code == 204:
                self.log.operations.add(answer.headers["operation-id"])
            else:
                self._expect(answer, NOT_NOW)

        def read() -> None:
            self.read_changes(reader)

        return [add_car, add_user, change_user, assign, read, self._probe]

    def _probe(self) -> None:
        """Write in both cells at the same time, and roll both back."""
        one, other = random.sample([self._cells.main, self._cells.east], 2)
        with Probe(one, self._person.customer) as first, Probe(other, self._person.customer) as second:
            self.log.both_writable += first.is_writable and second.is_writable

    def _repeat(self, step: Callable[[], None]) -> None:
        while not self._stop.wait(PAUSE):
            try:
                step()
            except Exception as error:  # the test reports it
                self.log.errors.append(f"{type(error).__name__}: {error}")

    def _expect(self, answer: httpx.Response, status: int) -> None:
        if answer.status_code == status:
            self.log.rejected += 1
        else:
            self.log.errors.append(f"{answer.request.method} {answer.request.url}: {answer.status_code} {answer.text}")
