"""Outcomes: rates of operations and webhooks, their delay, and the cost of two idle workers.

The database writes to disk as in production. The receiver is minimal and runs in this process.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import statistics
import time
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass, field
from typing import Any

import asyncpg

from benchmarks.foundation import UNLIMITED, database, free_port, load, running, token
from benchmarks.load import cpu_seconds, http, measure, resident
from benchmarks.processes import started
from benchmarks.sizes import sized
from benchmarks.tables import row, table
from keyrack.api.schema.event_types import OUTCOMES
from keyrack.core.settings import Settings
from keyrack.db.connection import Connection
from keyrack.db.encryption.bootstrap import open_vault
from keyrack.db.transaction_database import InTransaction
from keyrack.webhooks import subscriptions
from keyrack.webhooks.declarations import NewWebhook

WORKERS = sized(2, tiny=1)
OPERATIONS = sized(20_000, tiny=100)
CLIENTS = 8  # send requests while one customer's operations are applied
RUNS = sized(3, tiny=1)  # the best one counts, because other work only slows runs down
DELIVERIES = sized(10_000, tiny=50)
WAITING = sized(5_000, tiny=20)  # deliveries to the dead endpoint
RATE, SECONDS = 100, sized(15, tiny=1)  # requests with a timed way to the webhook
WARM = sized(3, tiny=0)  # seconds of earlier requests, which open connections
IDLE = sized(15.0, tiny=0.1)  # seconds
FINISHED = sized(1_000_000, tiny=1_000)  # operations in the table, for the growth
SETTLE = sized(3.0, tiny=0.5)  # seconds for workers to start

CARS = sized(100_000, tiny=3_000)
PUTS = sized(6_000, tiny=20)  # requests beside one customer's operations

PREPARE = """
insert into product (customer_id, unique_id, serial_number, sap_number, kind, car_id)
  select customer_id, car_id, car_id, car_id, 'Box', car_id from car where customer_id <= 11;
insert into service (customer_id, name, product_id) select customer_id, product_id, product_id from product;
"""
# Operations of customers in turn, from the second one on. Each has a user with the same number
ASK = """
insert into operation (customer_id, kind, car_id, user_id, request, checksum)
select c.customer_id, 'CreateAssignment', c.car_id, c.customer_id, '{"start": "2026-01-01T08:00:00Z", "end": null,
  "lifetime": null, "renewableAfter": null}', repeat('0', 32)
from generate_series(1, $1::integer) n
join (select customer_id, car_id, row_number() over (partition by customer_id order by car_id) as place from car) c
  on c.customer_id = 2 + n % $2::integer and c.place = 1 + n / $2::integer % 900
order by n
"""
DELIVER = """
with d as (
  insert into delivery (customer_id, webhook_id, message_id, type, lane, payload, created_at)
  select 1, $1, gen_random_uuid(), 'assignment.created', n, json_build_object('type', 'assignment.created',
    'operationId', gen_random_uuid(), 'customerId', 1, 'operationSucceeded', true, 'errorMessage', null, 'checksum',
    repeat('0', 32), 'assignmentId', n, 'carId', n, 'userId', 1, 'start', '2026-01-01T08:00:00Z', 'end', null,
    'lifetime', 604800, 'renewableAfter', 302400)::text, clock_timestamp()
  from generate_series(1, $2::integer) n
  returning lane
)
insert into delivery_lane (customer_id, webhook_id, lane) select 1, $1, lane from d
"""
APPLIED = "select applied from customer_hold where customer_id = 2"
PENDING = "select exists (select from operation where customer_id = 2 and state = 'Pending')"
GROW = """
insert into operation (customer_id, kind, car_id, user_id, assignment_id, request, result, checksum, state, finished_at)
select 1 + n % 100, 'CreateAssignment', n % $2::integer, 1, n, '{"start": "2026-01-01T08:00:00Z", "end": null}',
  '{"assignmentId": 1, "carId": 1, "userId": 1, "start": "2026-01-01T08:00:00Z", "end": null, "lifetime": 604800}',
  repeat('0', 32), 'Succeeded', now() - n * interval '1 second'
from generate_series(1, $1::integer) n
"""


@dataclass
class Receiver:
    """Responds at once, but never below /dead. Stores the times of arrival."""

    port: int = 0
    times: list[float] = field(default_factory=list[float])
    arrived: dict[str, float] = field(default_factory=dict[str, float])  # webhook-id -> time of arrival

    async def start(self, address: str = "127.0.0.1") -> None:
        self.server = await asyncio.get_running_loop().create_server(lambda: _Connection(self), address, 0)
        self.port = self.server.sockets[0].getsockname()[1]

    def forget(self) -> None:
        self.times, self.arrived = [], {}


class _Connection(asyncio.Protocol):
    def __init__(self, receiver: Receiver) -> None:
        self.receiver = receiver
        self.buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        end = self.buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        head = self.buffer[:end].lower()
        length = int(head.split(b"content-length: ")[1].split(b"\r\n")[0])
        if len(self.buffer) < end + 4 + length:
            return
        self.buffer = self.buffer[end + 4 + length :]
        if head.startswith(b"post /dead"):
            return
        now = time.perf_counter()
        self.receiver.times.append(now)
        self.receiver.arrived.setdefault(head.split(b"webhook-id: ")[1].split(b"\r\n")[0].decode(), now)
        self.transport.write(b"HTTP/1.1 204 No Content\r\n\r\n")


@contextlib.contextmanager
def workers(dsn: str, count: int = WORKERS) -> Iterator[list[int]]:
    """Start worker processes, and yield their process ids."""
    env = {
        "KEYRACK_DATABASE_URL": dsn,
        "KEYRACK_WEBHOOK_ALLOWED_NETWORKS": "127.0.0.0/8",
        "KEYRACK_LOG_LEVEL": "error",
    }
    with started(*[["keyrack", "work"]] * count, environment=env) as processes:
        yield [process.pid for process in processes]


@contextlib.asynccontextmanager
async def fresh(dsn: str, *urls: str) -> AsyncGenerator[tuple[Any, list[int]]]:
    """A connection to a database with only these webhooks and no pending work."""
    raw = await asyncpg.connect(dsn)
    try:
        await raw.execute("truncate delivery, delivery_lane")
        await raw.execute("delete from webhook; delete from assignment")
        await raw.execute("delete from operation where state = 'Pending' or finished_at > requested_at")
        connection = Connection(raw)
        vault = await open_vault(InTransaction(connection), Settings())
        async with connection.transaction():
            added = [
                await subscriptions.add(connection, vault, 1, NewWebhook(url=url, kinds=list(OUTCOMES)), 1_000)
                for url in urls
            ]
        yield raw, [webhook[0] for webhook in added if webhook]
    finally:
        await raw.close()


async def until(condition: Any, seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not await condition():
        if time.monotonic() > end:
            raise TimeoutError("the workers did not finish")
        await asyncio.sleep(0.1)


async def applied(dsn: str, customers: int) -> float:
    """Operations of these customers applied per second, from the first outcome to the last."""
    async with fresh(dsn) as (raw, _):
        newest = await raw.fetchval("select coalesce(max(seq), 0) from operation")
        await raw.execute(ASK, OPERATIONS, customers)
        await raw.execute("analyze operation")
        with workers(dsn):

            async def done() -> bool:
                return await raw.fetchval("select count(*) from operation where state = 'Pending'") == 0

            await until(done)
        return await raw.fetchval(
            "select count(*) / extract(epoch from max(finished_at) - min(finished_at))::float8"
            " from operation where seq > $1 and state = 'Succeeded'",
            newest,
        )


async def beside_clients(dsn: str, headers: dict[str, str]) -> tuple[float, float]:
    """Operations of one customer applied per second while clients send requests, and their rate."""
    port = free_port()
    async with fresh(dsn) as (raw, _):
        await raw.execute(ASK, OPERATIONS, 1)
        await raw.execute("analyze operation")
        env = {"KEYRACK_DATABASE_URL": dsn, **UNLIMITED}
        with running(["keyrack", "serve", "--port", str(port), "--no-worker"], port, "/health", env) as server:
            all_headers = headers | {
                "Authorization": "Bearer " + await asyncio.to_thread(token, port, headers),
                "Customer-ID": "2",
            }
            cars = await raw.fetch("select car_id from car where customer_id = 2 limit 100")
            puts = [
                http("PUT", "/v3/assignments", all_headers, {"carId": id, "userId": 2, "start": "2026-01-01T08:00:00Z"})
                for (id,) in cars
            ]
            asking = asyncio.create_task(asyncio.to_thread(measure, server.pid, port, puts, PUTS, CLIENTS))
            with workers(dsn):
                before = await raw.fetchval(APPLIED)
                while await raw.fetchval(APPLIED) == before:  # noqa: ASYNC110 - another process's work
                    await asyncio.sleep(0.01)
                begin, before = time.perf_counter(), await raw.fetchval(APPLIED)
                while not asking.done() and await raw.fetchval(PENDING):  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
                rate = (await raw.fetchval(APPLIED) - before) / (time.perf_counter() - begin)
                result = await asking
                assert set(result.statuses) == {204}, result.statuses
    return rate, result.rate


async def delivered(dsn: str, receiver: Receiver, endpoints: int, dead: str | None = None) -> float:
    """Webhooks delivered per second without other requests."""
    alive = [f"http://127.0.0.1:{receiver.port}/{n}" for n in range(endpoints)]
    receiver.forget()
    async with fresh(dsn, *([dead] if dead else []), *alive) as (raw, ids):
        if dead:
            await raw.execute(DELIVER, ids.pop(0), WAITING)
            with workers(dsn):  # they have already met the dead endpoint
                await asyncio.sleep(SETTLE)
                return await _sent(raw, receiver, ids)
        for id in ids:
            await raw.execute(DELIVER, id, DELIVERIES // endpoints)
        with workers(dsn):
            return await _arrived(receiver)


async def _sent(raw: Any, receiver: Receiver, ids: list[int]) -> float:
    for id in ids:
        await raw.execute(DELIVER, id, DELIVERIES // len(ids))
    await raw.execute("notify keyrack_deliver")
    return await _arrived(receiver)


async def _arrived(receiver: Receiver) -> float:
    async def all_there() -> bool:
        return len(receiver.arrived) >= DELIVERIES

    await until(all_there)
    return len(receiver.times) / (receiver.times[-1] - receiver.times[0])


async def latency(dsn: str, receiver: Receiver, headers: dict[str, str], dead: str | None = None) -> list[float]:
    """Milliseconds from the 204 to the webhook, at RATE requests a second."""
    port = free_port()
    url = f"http://127.0.0.1:{receiver.port}/soon"
    receiver.forget()
    env = {"KEYRACK_DATABASE_URL": dsn, **UNLIMITED}
    async with fresh(dsn, url, *([dead] if dead else [])):
        with running(["keyrack", "serve", "--port", str(port), "--no-worker"], port, "/health", env), workers(dsn):
            await asyncio.sleep(SETTLE)
            all_headers = headers | {
                "Authorization": "Bearer " + await asyncio.to_thread(token, port, headers),
                "Customer-ID": "1",
            }
            answered: dict[str, float] = {}
            connections = [await asyncio.open_connection("127.0.0.1", port) for _ in range(8)]
            turns = itertools.cycle([(pair, asyncio.Lock()) for pair in connections])

            async def put(number: int) -> None:
                body = {"carId": 1 + number % 100, "userId": 1, "start": "2026-01-01T08:00:00Z"}
                (reader, writer), lock = next(turns)
                async with lock:
                    writer.write(http("PUT", "/v3/assignments", all_headers, body))
                    head = (await reader.readuntil(b"\r\n\r\n")).lower()
                now = time.perf_counter()
                assert head.startswith(b"http/1.1 204"), head
                answered[head.split(b"operation-id: ")[1].split(b"\r\n")[0].decode()] = now

            begin = time.perf_counter()
            tasks: list[asyncio.Task[None]] = []
            for number in range(RATE * (WARM + SECONDS)):
                await asyncio.sleep(max(0.0, begin + number / RATE - time.perf_counter()))
                tasks.append(asyncio.create_task(put(number)))
            await asyncio.gather(*tasks)

            async def all_there() -> bool:
                return set(answered) <= set(receiver.arrived)

            await until(all_there)
            for _, writer in connections:
                writer.close()
    timed = list(answered)[WARM * RATE :]
    return sorted((receiver.arrived[id] - answered[id]) * 1e3 for id in timed)


async def idle(dsn: str) -> tuple[float, float]:
    """The cost of an idle worker: percent of a core, and MB."""
    async with fresh(dsn):
        with workers(dsn) as pids:
            await asyncio.sleep(SETTLE)
            before = [cpu_seconds(pid) for pid in pids]
            await asyncio.sleep(IDLE)
            used = [cpu_seconds(pid) - was for pid, was in zip(pids, before, strict=True)]
            return max(used) / IDLE * 100, max(resident(pid) for pid in pids)


def quantiles(times: list[float]) -> str:
    return f"p50 {statistics.median(times):.1f} ms, p99 {times[int(len(times) * 0.99)]:.1f} ms"


async def run(dsn: str) -> None:
    headers = await load(dsn, 100, CARS, PREPARE)
    receiver = Receiver()
    await receiver.start()
    silent = f"http://127.0.0.1:{receiver.port}/dead"
    refusing = f"http://127.0.0.1:{free_port()}/"
    table("outcomes rates", "What", "Result", "Goal")
    first = await measured(dsn, receiver, headers, "")
    for name, dead in (("that never answers", silent), ("that refuses connections", refusing)):
        rate = max([await delivered(dsn, receiver, 1, dead) for _ in range(RUNS)])
        row(f"webhooks delivered, while {WAITING:,} wait for another endpoint {name}", f"{rate:,.0f}/s", "800/s")
    cost, memory = await idle(dsn)
    row("an idle worker", f"{cost:.2f} % of a core, {memory:.0f} MB", "1 %")
    raw = await asyncpg.connect(dsn)
    await raw.execute(GROW, FINISHED, CARS)
    await raw.execute("vacuum analyze operation")
    await raw.execute("checkpoint")
    await raw.close()
    second = await measured(dsn, receiver, headers, f", {FINISHED:,} finished operations in the table")
    growth = ", ".join(f"{name} {a / b:.2f}" for (name, a), (_, b) in zip(first, second, strict=True))
    row(f"time with {FINISHED:,} finished operations, divided by the time without", growth, "")


async def measured(dsn: str, receiver: Receiver, headers: dict[str, str], under: str) -> list[tuple[str, float]]:
    rate = max([await applied(dsn, 10) for _ in range(RUNS)])
    row(f"operations of ten customers applied{under}", f"{rate:,.0f}/s", "8,000/s")
    alone = max([await applied(dsn, 1) for _ in range(RUNS)])
    row(f"operations of one customer applied{under}", f"{alone:,.0f}/s", "")
    beside, asked = max([await beside_clients(dsn, headers) for _ in range(RUNS)])
    row(f"the same, while {CLIENTS} clients PUT {asked:,.0f}/s more{under}", f"{beside:,.0f}/s", "2,500/s")
    one = max([await delivered(dsn, receiver, 1) for _ in range(RUNS)])
    row(f"webhooks delivered to one endpoint{under}", f"{one:,.0f}/s", "1,500/s")
    ten = max([await delivered(dsn, receiver, 10) for _ in range(RUNS)])
    row(f"webhooks delivered to ten endpoints{under}", f"{ten:,.0f}/s", "")
    times = min([await latency(dsn, receiver, headers) for _ in range(max(RUNS - 1, 1))], key=statistics.median)
    row(f"from the 204 to the webhook, at {RATE}/s{under}", quantiles(times), "5 and 25 ms")
    return [
        ("operations", rate), ("one endpoint", one), ("ten endpoints", ten),
        ("p50", 1 / statistics.median(times)),
    ]  # fmt: skip


def main() -> None:
    """Print the table of benchmarks/results.md, "Outcomes"."""
    with database("outcomes") as dsn:
        asyncio.run(run(dsn))
