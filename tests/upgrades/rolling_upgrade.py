"""An upgrade under load: nodes behind a load balancer, replaced one after another."""

from __future__ import annotations

import itertools
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from tests.support.people import Person, http_client
from tests.support.servers import DEADLINE, eventually, free_port
from tests.upgrades import releases

# Long timeouts and high limits, so that a busy machine causes no failed request. Both releases know the names
PATIENT = {
    "KEYRACK_STATEMENT_TIMEOUT_SECONDS": "60",
    "KEYRACK_DB_QUEUE_TIMEOUT_SECONDS": "60",
    "KEYRACK_LOCK_TIMEOUT_SECONDS": "60",
    "KEYRACK_ASSIGNMENT_RATE": "100000",
    "KEYRACK_ASSIGNMENT_BURST": "10000",
}


class Node:
    """A process of some release with API and worker. `busy` is the number of its requests."""

    def __init__(self, source: Path, dsn: str, log: Path, public_url: str) -> None:
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self.client = http_client(base_url=self.url)
        self.busy = self.served = 0
        self._log = log.open("ab")
        env = os.environ | PATIENT | {"KEYRACK_DATABASE_URL": dsn, "KEYRACK_PUBLIC_URL": public_url}
        self.process = releases.command(source, "serve", "--port", str(port), env=env, errors=self._log)

    def well(self) -> bool:
        """The load balancer's health check."""
        assert self.process.poll() is None, Path(self._log.name).read_text()
        try:
            return self.client.get("/health").status_code == 200
        except httpx.TransportError:
            return False

    def end(self) -> int:
        """Stop the process as an operator does."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(DEADLINE)
        self.client.close()
        self._log.close()
        return status


class Balancer:
    """Sends each request to the node with the fewest requests. A removed node finishes its requests."""

    def __init__(self) -> None:
        self._nodes: list[Node] = []
        self._turn = threading.Condition()

    def add(self, node: Node) -> None:
        eventually(node.well, "a node's first good answer")
        with self._turn:
            self._nodes.append(node)

    def drain(self, node: Node) -> None:
        """Remove the node, and wait for its requests."""
        with self._turn:
            self._nodes.remove(node)
            assert self._turn.wait_for(lambda: node.busy == 0, DEADLINE)

    @contextmanager
    def node(self) -> Iterator[Node]:
        with self._turn:
            chosen = min(self._nodes, key=lambda node: (node.busy, node.served))
            chosen.busy += 1
            chosen.served += 1
        try:
            yield chosen
        finally:
            with self._turn:
                chosen.busy -= 1
                self._turn.notify_all()


class Load:
    """Callers that read and write within the context, with `pause` seconds between two requests.

    `answers` counts responses, `failed` lists errors.
    """

    def __init__(
        self, balancer: Balancer, person: Person, cars: list[int], user: int, callers: int, pause: float
    ) -> None:
        self.answers: Counter[str] = Counter()
        self.failed: list[str] = []
        self.assignments = 0
        self._balancer, self._headers, self._cars, self._user = balancer, person.headers, cars, user
        self._pause = pause
        self._minutes = itertools.count()
        self._over = threading.Event()
        self._counting = threading.Lock()
        self._callers = [threading.Thread(target=self._call, args=(n,)) for n in range(callers)]

    def __enter__(self) -> Load:
        for caller in self._callers:
            caller.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for caller in self._callers:
            caller.join(DEADLINE)

    def goes_on(self, more: int = 20) -> None:
        """Wait for more responses."""
        wanted = self.answers.total() + more
        eventually(lambda: self.answers.total() >= wanted or self.failed, "the load")

    def _call(self, number: int) -> None:
        for turn in itertools.count(number):
            if self._over.wait(self._pause):
                return
            kind = ("list", "point", "write", "assign")[turn % 4]
            try:
                with self._balancer.node() as node:
                    answer = self._ask(kind, node.client, turn)
            except Exception as error:  # any error that a caller sees
                self._note(kind, f"{kind}: {error!r}")
                continue
            self._note(kind, None if answer.is_success else f"{kind}: {answer.status_code} {answer.text}")

    def _ask(self, kind: str, client: httpx.Client, turn: int) -> httpx.Response:
        car = self._cars[turn % len(self._cars)]
        match kind:
            case "list":
                return client.get("/v3/cars?$orderby=name&$top=5", headers=self._headers)
            case "point":
                return client.get(f"/v3/cars/{car}", headers=self._headers)
            case "write":
                return client.patch(f"/v3/cars/{car}", headers=self._headers, json=NAME)
            case _:
                with self._counting:
                    start = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(1_800_000_000 + 60 * next(self._minutes)))
                body = {"carId": car, "userId": self._user, "start": start}
                return client.put("/v3/assignments", headers=self._headers, json=body)

    def _note(self, kind: str, failed: str | None) -> None:
        with self._counting:
            if failed is not None:
                self.failed.append(failed)
                return
            self.answers[kind] += 1
            self.assignments += kind == "assign"


NAME = [{"op": "replace", "path": "/name", "value": "renamed"}]


def fleet(person: Person, cars: int) -> tuple[list[int], int]:
    """Create cars with boxes and a user."""
    return [person.car_with_box(f"Car {number}") for number in range(cars)], person.user()


def replaced(balancer: Balancer, old: Node, make: Callable[[], Node]) -> Node:
    """Replace the node by its successor. The old one must end with status 0."""
    balancer.drain(old)
    assert old.end() == 0
    new = make()
    balancer.add(new)
    return new
