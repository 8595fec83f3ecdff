"""The load during failures, and the ledger of acknowledged calls."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import time
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import aiohttp
from aiohttp import web
from multidict import CIMultiDict

from drills.nodes import Fleet, Keyrack

START = "2026-01-01T08:00:00Z"
STEPS = 4  # operations per assignment: one creates it, two change it, one ends it
PATIENCE = 8.0  # seconds that a caller waits for a response before it retries
AGAIN = (0.05, 0.3)  # seconds between two attempts
PACE = {"lives": 1.2, "cars": 8.0, "events": 10.0, "samples": 6.0, "reads": 40.0}  # calls per second at `speed` 1


@dataclass
class Ledger:
    """Acknowledged calls, none of which may be lost."""

    operations: list[str] = field(default_factory=list[str])  # acknowledged operations, by id
    lives: dict[int, list[str]] = field(default_factory=dict[int, list[str]])  # assignment -> its operations, in order
    waits: list[float] = field(default_factory=list[float])  # seconds from an acknowledged operation to its result
    cars: list[str] = field(default_factory=list[str])  # by name
    events: dict[int, str] = field(default_factory=dict[int, str])  # number -> the event that got it
    fed: dict[int, str] = field(default_factory=dict[int, str])  # the same, from the feed
    samples: list[int] = field(default_factory=list[int])  # odometers
    first: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])  # outcomes, at first delivery
    received: int = 0
    statuses: Counter[int] = field(default_factory=Counter[int])
    errors: Counter[str] = field(default_factory=Counter[str])  # statuses and texts of answers without success
    again: int = 0
    faults: list[str] = field(default_factory=list[str])  # violations
    writes: list[list[float]] = field(default_factory=lambda: [[], []])  # times of successes, by node
    reads: list[list[float]] = field(default_factory=lambda: [[], []])


class Load:
    """Callers of both nodes, each at its own pace, until `stop`.

    `share` of them all is sent, also of the probes, which do not depend on `speed`.
    """

    def __init__(
        self,
        keyrack: Keyrack,
        fleet: Fleet,
        http: aiohttp.ClientSession,
        ledger: Ledger,
        speed: float,
        share: float = 1,
    ) -> None:
        self._keyrack = keyrack
        self._fleet = fleet
        self._http = http
        self._speed = speed * share
        self._pause = 0.1 / share  # seconds between two probes
        self.ledger = ledger
        self._stopping = asyncio.Event()
        self._called = asyncio.Event()  # all calls have finished
        self._tasks: set[asyncio.Task[None]] = set()
        self._numbers = itertools.count(1)
        self._busy = asyncio.Semaphore(400)

    def start(self) -> None:
        """Start all kinds of calls."""
        kinds: dict[str, Callable[[], Coroutine[Any, Any, None]]] = {
            "lives": self._life, "cars": self._car, "events": self._event, "samples": self._sample, "reads": self._read,
        }  # fmt: skip
        for kind, call in kinds.items():
            self._begin(self._keep_calling(call, PACE[kind] * self._speed))
        for node in range(2):
            self._begin(self._probe("PUT", node, self.ledger.writes[node]))
            self._begin(self._probe("GET", node, self.ledger.reads[node]))
        self._follower = asyncio.create_task(self._follow())

    async def stop(self) -> None:
        """Stop calling, finish the running calls, and wait for the last event in the feed."""
        self._stopping.set()
        while self._tasks:
            await asyncio.wait(self._tasks)
        self._called.set()
        await self._follower

    def _begin(self, call: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(call)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.ledger.faults.append(f"{type(error).__name__}: {error}")

    async def _keep_calling(self, call: Callable[[], Coroutine[Any, Any, None]], pace: float) -> None:
        due = time.monotonic()
        while not self._stopping.is_set():
            due += random.expovariate(pace)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), max(0.0, due - time.monotonic()))
                return
            if not self._busy.locked():  # bounds the number of waiting callers
                self._begin(self._counted(call))

    async def _counted(self, call: Callable[[], Awaitable[None]]) -> None:
        async with self._busy:
            await call()

    # The calls

    async def _sure(self, method: str, path: str, body: Any = None, wanted: int = 204, **headers: str) -> Any:
        """Send with the same idempotency key, to a random node, until there is a response: the effect occurs once."""
        headers = self._fleet.headers | {"Idempotency-Key": str(uuid.uuid4())} | headers
        while True:
            status, text, told = await self._try(method, random.randrange(2), path, body, headers)
            if status == wanted:
                return told.get("Operation-Id") if wanted == 204 else json.loads(text)
            if status not in (0, 409, 503):
                self.ledger.faults.append(f"{method} {path}: {status} {text}")
                return None
            self.ledger.again += 1
            await asyncio.sleep(random.uniform(*AGAIN))

    async def _try(
        self, method: str, node: int, path: str, body: Any, headers: dict[str, str]
    ) -> tuple[int, str, Mapping[str, str]]:
        """Status, text and headers of one attempt; status 0 without a response."""
        url, timeout = self._keyrack.urls[node] + "/v3" + path, aiohttp.ClientTimeout(total=PATIENCE)
        status, text, told = 0, "", CIMultiDict[str]()
        with suppress(aiohttp.ClientError, TimeoutError, OSError):
            async with self._http.request(method, url, json=body, headers=headers, timeout=timeout) as answer:
                text, status, told = await answer.text(), answer.status, CIMultiDict(answer.headers)
        self.ledger.statuses[status] += 1
        if not 200 <= status < 300:
            self.ledger.errors[f"{status} {text[:200]}"] += 1
        return status, text, told

    async def _life(self) -> None:
        """An assignment from its creation to its end."""
        number = next(self._numbers)
        car = self._fleet.cars[number % (len(self._fleet.cars) - 1)]  # the last car has no key box
        body = {"carId": car, "userId": self._fleet.user, "start": START, "lifetime": 700_000}
        steps = [await self._operation("PUT", "/assignments", body)]
        made = await self._applied(steps[0])
        if made is None:
            return
        at = f"/assignments/{made}"
        for step in range(1, STEPS - 1):
            patch = [{"op": "replace", "path": "/lifetime", "value": 700_000 + step}]
            steps.append(await self._operation("PATCH", at, patch))
        steps.append(await self._operation("DELETE", at))
        self.ledger.lives[made] = steps

    async def _operation(self, method: str, path: str, body: Any = None) -> str:
        id = await self._sure(method, path, body)
        self.ledger.operations.append(id)
        return id

    async def _applied(self, operation: str) -> int | None:
        """The assignment, once the operation has succeeded."""
        begun = time.monotonic()
        while True:
            row = await self._sure("GET", f"/operations/{operation}", wanted=200)
            if row is None or row["state"] != "Pending":
                self.ledger.waits.append(time.monotonic() - begun)
                if row is None or row["state"] != "Succeeded":
                    self.ledger.faults.append(f"operation {operation}: {row}")
                    return None
                return row["assignmentId"]
            await asyncio.sleep(0.1)

    async def _car(self) -> None:
        name = f"car {uuid.uuid4()}"
        if await self._sure("PUT", "/cars", {"name": name}, wanted=201) is not None:
            self.ledger.cars.append(name)

    async def _event(self) -> None:
        said = f"event {uuid.uuid4()}"
        now = datetime.now(UTC).replace(microsecond=0)
        body = {
            "dateTime": now.replace(tzinfo=None).isoformat(), "utcDateTime": now.isoformat().replace("+00:00", "Z"),
            "type": "CarOpened", "userAgent": said, "carId": random.choice(self._fleet.cars),
            "userId": self._fleet.user,
        }  # fmt: skip
        made = await self._sure("PUT", "/events", body, wanted=201)
        if made is not None:
            if made["id"] in self.ledger.events:
                self.ledger.faults.append(f"event number {made['id']} was issued twice")
            self.ledger.events[made["id"]] = said

    async def _sample(self) -> None:
        number = next(self._numbers)
        at = datetime.now(UTC) - timedelta(milliseconds=random.randrange(1000))
        line = {"serialNumber": self._fleet.serial, "carDataReadTime": at.isoformat(), "odometer": number}
        made = await self._sure("POST", "/ingest/telemetry", line, wanted=200, **{"Device-Key": self._fleet.device_key})
        if made is not None and made["accepted"] + made["duplicates"] == 1:
            self.ledger.samples.append(number)
        elif made is not None:
            self.ledger.faults.append(f"sample {number}: {made}")

    async def _read(self) -> None:
        car = random.choice(self._fleet.cars)
        path = random.choice(
            (f"/cars/{car}", f"/cars/{car}/assignments", "/cars?$top=20", f"/cars/{car}/events?$top=20")
        )
        status, text, _ = await self._try("GET", random.randrange(2), path, None, self._fleet.headers)
        if status not in (0, 200, 503):
            self.ledger.faults.append(f"GET {path}: {status} {text}")

    async def _probe(self, method: str, node: int, well: list[float]) -> None:
        """Call one node at a constant pace, independent of earlier calls, to measure outages."""
        body = {"name": f"Probe of {node}"} if method == "PUT" else None
        path, wanted = ("/groups", 201) if method == "PUT" else (f"/cars/{self._fleet.cars[0]}", 200)

        async def once() -> None:
            headers = self._fleet.headers
            named = body and body | {"name": f"{node} {uuid.uuid4()}"}
            if (await self._try(method, node, path, named, headers))[0] == wanted:
                well.append(time.monotonic())

        while not self._stopping.is_set():
            self._begin(once())
            await asyncio.sleep(self._pause)

    async def _follow(self) -> None:
        """Follow the event numbers like a feed; none may be skipped."""
        last = 0
        while not (self._called.is_set() and last >= max(self.ledger.events, default=0)):
            rows = await self._sure(
                "GET", f"/events?$filter=id gt {last}&$orderby=id&$top=500&$select=id,userAgent", wanted=200
            )
            for row in rows or ():
                if row["id"] != last + 1:
                    self.ledger.faults.append(f"the feed skipped from {last} to {row['id']}")
                last = row["id"]
                self.ledger.fed[last] = row["userAgent"]
            await asyncio.sleep(0.1)


class Receiver:
    """The endpoint of the fleet's webhook; some of its responses are failures."""

    BAD = 0.1

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        app = web.Application()
        app.router.add_post("/hook", self._take)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        self.url = ""

    async def __aenter__(self) -> Receiver:
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}/hook"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    async def _take(self, request: web.Request) -> web.Response:
        payload = await request.json()
        self._ledger.received += 1
        self._ledger.first.setdefault(request.headers["webhook-id"], payload)
        return web.Response(status=500 if random.random() < self.BAD else 200)
