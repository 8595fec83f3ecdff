"""Ten thousand active customers, compared with ten: reads, outcomes and memory.

Each customer has a hundred cars. There are two databases on separate servers, each with an API process and two workers,
with the same settings. They run in turn (`benchmarks.slices`). Each customer has a manager with a token, and a webhook.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import statistics
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import asyncpg

from benchmarks.estimates import ratio
from benchmarks.foundation import UNLIMITED, Running, database, free_port, running, settle
from benchmarks.load import cpu_since, cpu_times, http, resident
from benchmarks.outcomes import Receiver, until, workers
from benchmarks.sizes import sized
from benchmarks.slices import ROUNDS as SLICES
from benchmarks.slices import WARM_UP, Variant, alternate_servers, alternate_tasks
from benchmarks.tables import note, row, table
from keyrack.api.schema.event_types import OUTCOMES
from keyrack.auth.authenticator import AuthenticatedManager, Authenticator
from keyrack.core import secret_hashes
from keyrack.core.settings import Settings
from keyrack.db import schema_version
from keyrack.db.connection import Connection, Database
from keyrack.db.encryption.bootstrap import open_vault
from keyrack.webhooks import subscriptions
from keyrack.webhooks.declarations import NewWebhook

FEW, MANY = sized((10, 10_000), tiny=(2, 4))  # customers
CARS = sized(100, tiny=12)  # of each
USED = 10  # cars with a box, a service and assignments
READS = sized(10_000, tiny=40)  # of one kind until each of the many customers had one
SLICE = sized(1_000, tiny=40)  # of these reads
ROUNDS = sized(6, tiny=1)  # of operations and outcomes: the fewest with an interval
OPERATIONS = sized(10_000, tiny=40)  # applied and delivered per round: one per customer of the many
# Requests with a timed way to the webhook, and the warm-up before them
RATE, SECONDS, WARM = (100, *sized((5, 3), tiny=(1, 0)))
HOSTS = 10  # of receivers that the customers of both share
OWN_HOSTS = 1_000  # nearly each of the many customers has a separate receiver
GOAL_READS, GOAL_OUTCOMES = 1.2, 1.5
T = TypeVar("T")

LOAD = """
set synchronous_commit = off;
insert into customer (name) select 'Customer ' || n from generate_series(1, {customers}) n;
insert into person (email_address, first_name, last_name, type)
  select 'user' || n || '@example.org', 'First ' || n, 'Last ' || n, 'Anonymous'
  from generate_series(1, {customers}) n;
insert into customer_user (customer_id, user_id) select n, n from generate_series(1, {customers}) n;
insert into manager (username, password_hash) select 'bench' || n, '' from generate_series(1, {customers}) n;
insert into manager_customer (manager_id, customer_id) select n, n from generate_series(1, {customers}) n;
insert into manager_role (manager_id, customer_id, role) select n, n, 'Owner' from generate_series(1, {customers}) n;
insert into car (customer_id, name, vin, license_plate, brand, model)
  select c, 'Car ' || n, 'WVWZZZ1KZ' || lpad(n::text, 8, '0'), 'B-KR ' || n,
    case when n % 4 = 0 then 'Audi' else 'Volkswagen' end, 'Golf'
  from generate_series(1, {customers}) c, generate_series(1, {cars}) n;
insert into product (customer_id, unique_id, serial_number, sap_number, kind, car_id)
  select customer_id, car_id, car_id, car_id, 'Box', car_id
  from (select customer_id, car_id, row_number() over (partition by customer_id order by car_id) n from car) c
  where n <= {used};
insert into service (customer_id, name, product_id) select customer_id, product_id, product_id from product;
insert into assignment (customer_id, car_id, user_id, starts_at, ends_at, lifetime, renewable_after)
  select customer_id, car_id, customer_id, now() + n * interval '1 hour', null, 604800, 302400
  from product, generate_series(1, 3) n;
"""
# Operations of the customers in turn, car by car
ASK = """
insert into operation (customer_id, kind, car_id, user_id, request, checksum)
select p.customer_id, 'CreateAssignment', p.car_id, p.customer_id, '{"start": "2026-01-01T08:00:00Z", "end": null,
  "lifetime": null, "renewableAfter": null}', repeat('0', 32)
from generate_series(0, $1::integer - 1) n
join (select customer_id, car_id, row_number() over (partition by customer_id order by car_id) as place from product) p
  on p.customer_id = 1 + n % $2::integer and p.place = 1 + n / $2::integer % $3::integer
order by n
"""
APPLIED = """
select count(*) / nullif(extract(epoch from max(finished_at) - min(finished_at)), 0)::float8
from operation where seq > $1 and state = 'Succeeded'
"""
LEFT = """
select (select count(*) from operation where state = 'Pending') + (select count(*) from delivery_lane)
"""


@dataclass(frozen=True)
class Caller:
    """A customer with the data for its requests."""

    customer: int
    headers: dict[str, str]
    cars: list[int]  # cars with a box


@dataclass
class System:
    """One of the two systems: database, processes, customers, and the receiver of webhooks."""

    name: str
    dsn: str
    server: Running
    working: list[int]
    receiver: Receiver
    callers: list[Caller] = field(default_factory=list[Caller])

    @property
    def memory(self) -> tuple[float, float]:
        """MB of the API process and of the larger worker."""
        return resident(self.server.pid), max(resident(pid) for pid in self.working)


@dataclass(frozen=True)
class Spent:
    """The figures of a round: milliseconds, and CPU microseconds of Keyrack and of PostgreSQL."""

    each: float
    keyrack: float
    postgres: float


async def fill(dsn: str, customers: int) -> None:
    await schema_version.migrate(dsn)
    raw = await asyncpg.connect(dsn)
    await raw.execute(LOAD.format(customers=customers, cars=CARS, used=USED))
    await raw.close()
    await settle(dsn)


def receiver_of(system: System, customer: int, hosts: int) -> str:
    """The address for a customer's webhooks: one of `hosts` local addresses."""
    host = customer % hosts
    return f"http://127.1.{host // 250}.{host % 250 + 1}:{system.receiver.port}/{customer}"


async def spread(system: System) -> None:
    """Give the customers separate receivers, as far as they exist."""
    raw = await asyncpg.connect(system.dsn)
    ids = [caller.customer for caller in system.callers]
    await raw.execute(
        "update webhook w set url = u.url from unnest($1::integer[], $2::text[]) u (id, url) where customer_id = u.id",
        ids, [receiver_of(system, id, OWN_HOSTS) for id in ids],
    )  # fmt: skip
    await raw.close()


async def introduce(system: System) -> None:
    """Give each customer a webhook, and its manager a token."""
    settings = Settings(database_url=system.dsn)
    db = await Database.connect(system.dsn, settings)
    vault = await open_vault(db, settings)
    access = Authenticator(db, settings, vault)
    raw = await asyncpg.connect(system.dsn)
    key = secret_hashes.new_secret()
    await raw.execute("insert into api_key (name, hash) values ('bench', $1)", secret_hashes.digest(key))
    rows = await raw.fetch(
        "select customer_id, manager_id, subject, array_agg(car_id order by car_id) as cars from manager"
        " join manager_customer using (manager_id) join product using (customer_id) group by customer_id, manager_id"
        " order by customer_id"
    )
    connection = Connection(raw)
    async with connection.transaction():
        for row in rows:
            id = row["customer_id"]
            url = receiver_of(system, id, HOSTS)
            webhook = NewWebhook(url=url, kinds=list(OUTCOMES))
            await subscriptions.add(connection, vault, id, webhook, 1)
            token = await access.token(AuthenticatedManager(row["manager_id"], row["subject"], 0))
            headers = {"vendor-API-Key": key, "Authorization": f"Bearer {token}", "Customer-ID": str(id)}
            system.callers.append(Caller(id, headers, row["cars"]))
    await raw.execute("analyze webhook")
    await raw.close()
    await db.close()


@contextlib.asynccontextmanager
async def started(dsn: str, customers: int) -> AsyncGenerator[System]:
    await fill(dsn, customers)
    port, receiver = free_port(), Receiver()
    await receiver.start("0.0.0.0")  # noqa: S104 - each customer has an address of its own in 127.0.0.0/8
    env = {"KEYRACK_DATABASE_URL": dsn, **UNLIMITED}
    with (
        running(["keyrack", "serve", "--port", str(port), "--no-worker"], port, "/health", env) as server,
        workers(dsn) as working,
    ):
        system = System(f"{customers:,}", dsn, server, working, receiver)
        await introduce(system)
        yield system


async def backends(dsn: str) -> list[int]:
    """The processes of the database server."""
    raw = await asyncpg.connect(dsn)
    pid = await raw.fetchval("select pg_backend_pid()")
    found = siblings(pid)
    await raw.close()
    return found


def siblings(pid: int) -> list[int]:
    """The other children of a process's parent."""
    parent = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1]
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text()
    return [int(child) for child in children.split() if int(child) != pid]


def reads(system: System) -> dict[str, list[bytes]]:
    """The requests of each kind, for one customer after another, each for another car."""
    cars = len(system.callers) * USED
    turns = list(itertools.islice(itertools.cycle(system.callers), max(cars, READS)))
    paths: dict[str, Callable[[Caller, int], str]] = {
        "GET /cars/{carId}": lambda caller, turn: f"/cars/{caller.cars[turn % USED]}",
        "GET /cars with $filter, 20 rows": lambda *_: (
            "/cars?$filter=brand%20eq%20'Audi'%20and%20model%20ne%20null&$top=20"
        ),
        "GET /cars/{carId}/assignments": lambda caller, turn: f"/cars/{caller.cars[turn % USED]}/assignments",
    }
    return {
        name: [
            http("GET", "/v3" + path(caller, number // len(system.callers)), caller.headers)
            for number, caller in enumerate(turns)
        ]
        for name, path in paths.items()
    }


def read(systems: Sequence[tuple[System, Sequence[bytes]]], **slices: int) -> list[list[Spent]]:
    """The figures of each slice of reads, by system."""
    variants = (
        Variant(system.server, requests, 200, lambda system=system: asyncio.run(backends(system.dsn)))
        for system, requests in systems
    )
    return [
        [Spent(result.p50, result.cpu, result.database_cpu) for result in of.results]
        for of in alternate_servers(*variants, **slices)
    ]


async def apply(system: System) -> tuple[Spent, float]:
    """Apply and deliver operations of all customers in turn. Returns the rate with the figures."""
    raw = await asyncpg.connect(system.dsn)
    newest = await raw.fetchval("select coalesce(max(seq), 0) from operation")
    system.receiver.forget()
    ours = raw.get_server_pid()  # its queries are not part of the comparison
    before = cpu_times([pid for pid in await backends(system.dsn) if pid != ours])
    working = cpu_times(system.working)
    await raw.execute(ASK, OPERATIONS, len(system.callers), USED)
    begin = time.perf_counter()
    await raw.execute("notify keyrack_work")

    async def done() -> bool:
        return len(system.receiver.arrived) >= OPERATIONS and await raw.fetchval(LEFT) == 0

    await until(done)
    seconds = max(system.receiver.times) - begin
    spent = Spent(
        seconds / OPERATIONS * 1e3, cpu_since(working) / OPERATIONS * 1e6, cpu_since(before) / OPERATIONS * 1e6
    )
    rate = await raw.fetchval(APPLIED, newest)
    await raw.close()
    return spent, rate


async def outcome(system: System) -> list[float]:
    """Milliseconds from the 204 to the webhook, at RATE requests a second.

    The customers take turns.
    """
    system.receiver.forget()
    answered: dict[str, float] = {}
    port = system.server.port
    connections = [await asyncio.open_connection("127.0.0.1", port) for _ in range(8)]
    turns = itertools.cycle([(pair, asyncio.Lock()) for pair in connections])
    callers = itertools.cycle(system.callers)

    async def put(number: int) -> None:
        caller = next(callers)
        body = {"carId": caller.cars[number % USED], "userId": caller.customer, "start": "2026-01-01T08:00:00Z"}
        (reader, writer), lock = next(turns)
        async with lock:
            writer.write(http("PUT", "/v3/assignments", caller.headers, body))
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
        return set(answered) <= set(system.receiver.arrived)

    await until(all_there)
    for _, writer in connections:
        writer.close()
    return sorted((system.receiver.arrived[id] - answered[id]) * 1e3 for id in list(answered)[WARM * RATE :])


async def rounds(few: System, many: System, what: Callable[[System], Awaitable[T]]) -> tuple[list[T], ...]:
    """Measure both systems in each round, and return the results by system."""
    return await alternate_tasks(*(functools.partial(what, of) for of in (few, many)), rounds=ROUNDS, warm_up=0)


def beside(name: str, few: Sequence[Spent], many: Sequence[Spent], goal: float | str) -> None:
    """Print a row: milliseconds and CPU of both, and their ratio."""

    def cpu(of: Sequence[Spent]) -> str:
        return f"{statistics.median(s.keyrack for s in of):.0f} + {statistics.median(s.postgres for s in of):.0f}"

    times = ratio([s.each for s in many], [s.each for s in few])
    both = ratio([s.keyrack + s.postgres for s in many], [s.keyrack + s.postgres for s in few])
    a, b = (statistics.median(s.each for s in of) for of in (few, many))
    row(name, f"{a:.2f}", f"{b:.2f}", times.cell(), cpu(few), cpu(many), both.cell(), goal)


async def compare(few: System, many: System) -> None:
    requests = reads(few), reads(many)
    memory = [("at the start", few.memory, many.memory)]
    kinds = {name: [(few, of), (many, requests[1][name])] for name, of in requests[0].items()}
    first_few, first_many = await asyncio.to_thread(read, next(iter(kinds.values())), count=READS, rounds=1, warm_up=0)
    memory.append((f"after {READS:,} reads, one for each customer", few.memory, many.memory))
    table(
        "scale times", "", f"{few.name} customers: ms", f"{many.name}: ms", "ratio",
        f"{few.name}: CPU us, Keyrack + PostgreSQL", f"{many.name}: CPU us", "ratio", "goal",
    )  # fmt: skip
    beside(f"the first {READS:,} reads of one car after the start", first_few, first_many, "")
    for kind, systems in kinds.items():
        read_few, read_many = await asyncio.to_thread(read, systems, count=SLICE)
        beside(kind, read_few, read_many, GOAL_READS)
    more = (WARM_UP + SLICES) * SLICE * len(kinds)
    memory.append((f"after {more:,} more reads", few.memory, many.memory))
    applied = await rounds(few, many, apply)
    spent_few, spent_many = ([spent for spent, _ in of] for of in applied)
    beside(f"an operation applied and delivered, {HOSTS} receivers", spent_few, spent_many, GOAL_OUTCOMES)
    memory.append((f"after {ROUNDS * OPERATIONS:,} outcomes", few.memory, many.memory))
    times = await rounds(few, many, outcome)
    memory.append(
        (f"after {ROUNDS * RATE * (WARM + SECONDS):,} more, requested through the API", few.memory, many.memory)
    )
    for system in (few, many):
        await spread(system)
    own_few, own_many = ([spent for spent, _ in of] for of in await rounds(few, many, apply))
    beside(f"an operation applied and delivered, {OWN_HOSTS:,} receivers", own_few, own_many, "")
    memory.append((f"after {ROUNDS * OPERATIONS:,} outcomes to {OWN_HOSTS:,} receivers", few.memory, many.memory))
    note(f"Operations applied per second: {' and '.join(f'{max(rate for _, rate in of):,.0f}' for of in applied)}.")
    table(
        "scale outcomes", f"204 to webhook, {RATE}/s", f"{few.name} customers, ms", f"{many.name}, ms", "ratio", "goal"
    )
    for name, place in (("p50", 0.5), ("p99", 0.99)):
        a, b = ([of[int(len(of) * place)] for of in system] for system in times)
        medians = f"{statistics.median(a):.1f}", f"{statistics.median(b):.1f}"
        row(name, *medians, ratio(b, a).cell(), GOAL_OUTCOMES if name == "p50" else "")
    table("scale memory", "MB of API and worker", f"{few.name} customers", many.name)
    for name, a, b in memory:
        row(name, f"{a[0]:.0f}, {a[1]:.0f}", f"{b[0]:.0f}, {b[1]:.0f}")


async def run(few_dsn: str, many_dsn: str) -> None:
    async with started(few_dsn, FEW) as few, started(many_dsn, MANY) as many:
        await compare(few, many)


def main() -> None:
    """Print the tables of benchmarks/results.md, "Ten thousand customers"."""
    with database("scale-few") as few, database("scale-many") as many:
        asyncio.run(run(few, many))
