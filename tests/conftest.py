"""What all tests share: one embedded PostgreSQL, the server as a real process, and the people who call it."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import functools
import itertools
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote, urlsplit, urlunsplit

import asyncpg
import httpx
import hypothesis
import pytest
import structlog
import uvicorn
import uvloop
from argon2 import PasswordHasher

from keyrack import logs, processes
from keyrack.access import auth
from keyrack.database import schema
from keyrack.database.session import session
from keyrack.embedded.server import EmbeddedServer
from keyrack.reasons import Reason
from keyrack.settings import Settings
from keyrack.worker import Worker, connect

# What is no time of RFC 3339 with Z or an offset, though many readers of times take it
NO_MOMENTS = (
    "2026-01-01T10:00:00", "2026-01-01T10:00Z", "2026-01-01 10:00:00Z", "2026-01-01T10:00:00,5Z", "2026-01-01",
    "2026-01-01T10:00:00.Z", "2026-01-01T10:00:00+0100", "2026-01-01T10:00:00+01", "2026-01-01T10:00:00\u221201:00",
    "2026-01-01T24:00:00Z", "2026-01-01T10:00:61Z", "2026-02-30T10:00:00Z", "2026-W01-1T10:00:00Z", "20260101T100000Z",
    "2026-01-01T10:00:00+24:00", "9999-12-31T23:59:60Z", "0001-01-01T00:00:00+01:00", " 2026-01-01T10:00:00Z",
    "1767261600", "now", "", "2026-01-01T08:00:60Z", "2026-01-15T23:59:60Z", "2026-01-31T23:59:60+01:00",
)  # fmt: skip
# The master key of every database that the tests give an address of
os.environ.setdefault("KEYRACK_MASTER_KEY", base64.b64encode(b"the master key of all the tests!").decode())

# What the servers in this process log is not to stand among what a command prints
structlog.configure(logger_factory=structlog.PrintLoggerFactory(file=sys.__stderr__))

# Seconds that a condition may take to come true, however busy the machine is: whoever waits for one goes on at once
DEADLINE = 60.0

# Nor is it an example's fault how long it takes on such a machine
hypothesis.settings.register_profile(
    "busy machine",
    parent=hypothesis.settings.default,
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("busy machine")

# These take long and mostly wait, on servers of their own: begun first, they end beside others, not after them
FIRST = (
    "tests/test_drills.py", "tests/backups/test_pgbackrest.py", "tests/backups/test_restore.py",
    "tests/assignments/test_faults.py", "tests/embedded/test_commands.py",
)  # fmt: skip


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Those first, then the files with the most tests."""
    files = [item.nodeid.partition("::")[0] for item in items]
    count = Counter(files)
    place = {name: (FIRST.index(name) if name in FIRST else len(FIRST), -count[name]) for name in count}
    items.sort(key=lambda item: place[item.nodeid.partition("::")[0]])


def eventually(condition: Callable[[], Any], what: str = "the condition") -> Any:
    """What `condition` returns as soon as it is true."""
    end = time.monotonic() + DEADLINE
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(0.02)
    raise AssertionError(f"{what} did not come true in {DEADLINE} s")


MEMORY = Path("/dev/shm")  # noqa: S108 - names in it are random
ROOM = 6 << 30  # bytes that a run of all tests does not come near


@functools.cache
def thrown_away() -> Path | None:
    """Where data lie that nobody keeps: in memory where there is room, as a disk only makes them slow."""
    if not MEMORY.is_mount():
        return None
    found = os.statvfs(MEMORY)
    fits = found.f_bavail * found.f_frsize >= ROOM and not found.f_flag & os.ST_NOEXEC
    return MEMORY if fits and os.access(MEMORY, os.W_OK | os.X_OK) else None


@contextlib.contextmanager
def reachable_directory() -> Iterator[Path]:
    """A directory that the database's user reaches: pytest's own are closed to others."""
    path = Path(tempfile.mkdtemp(prefix="keyrack-test-", dir=thrown_away()))
    path.chmod(0o711)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(scope="session", autouse=True)
def own_log() -> Iterator[None]:
    """Commands in this process do not set up the log, which would be that of all tests that come later."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(logs, "configure", lambda level: None)
        yield


@pytest.fixture(scope="session")
def database_server() -> Iterator[str]:
    """The address of a database on the server that the tests use."""
    if given := os.environ.get("KEYRACK_TEST_DATABASE_URL"):
        yield given
        return
    bin_dir = os.environ.get("KEYRACK_POSTGRES_BIN")
    with reachable_directory() as state:
        options = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
        with EmbeddedServer(state, bin_dir=Path(bin_dir) if bin_dir else None, options=options) as server:
            yield server.dsn


_numbers = itertools.count(1)


@contextlib.contextmanager
def fresh_database(server: str) -> Iterator[str]:
    """A new empty database on the server, gone afterwards."""
    name = f"test_{os.getpid()}_{next(_numbers)}"
    asyncio.run(_execute(server, f'create database "{name}"'))
    parts = urlsplit(server)
    try:
        yield urlunsplit(parts._replace(netloc=parts.netloc or "", path="/" + quote(name)))
    finally:
        asyncio.run(_execute(server, f'drop database "{name}" with (force)'))


async def _execute(dsn: str, sql: str) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(sql)
    finally:
        await connection.close()


@pytest.fixture(scope="session")
def dsn(database_server: str) -> Iterator[str]:
    """A database with the current schema, shared by the tests of one process; each test makes its own customers."""
    with fresh_database(database_server) as address:
        asyncio.run(schema.migrate(address))
        yield address


@pytest.fixture(scope="session")
def own(database_server: str) -> Iterator[str]:
    """A database that no other worker looks into."""
    with fresh_database(database_server) as dsn:
        asyncio.run(schema.migrate(dsn))
        yield dsn


class Sql:
    """Statements from a test, over one connection in a thread of its own."""

    def __init__(self, dsn: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._connection: Any = self.run(
            asyncpg.connect(
                dsn, server_settings={**session(Settings(read_timeout=DEADLINE)), "application_name": "keyrack tests"}
            )
        )

    def run(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(DEADLINE)

    def value(self, sql: str, *args: object) -> Any:
        return self.run(self._connection.fetchval(sql, *args))

    def rows(self, sql: str, *args: object) -> list[Any]:
        return self.run(self._connection.fetch(sql, *args))

    def execute(self, sql: str, *args: object) -> str:
        return self.run(self._connection.execute(sql, *args))

    def close(self) -> None:
        self.run(self._connection.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()


@pytest.fixture(scope="session")
def sql(dsn: str) -> Iterator[Sql]:
    statements = Sql(dsn)
    yield statements
    statements.close()


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


async def listening(port: int) -> None:
    """Wait until somebody listens at the port."""
    async with asyncio.timeout(DEADLINE):
        while True:
            with contextlib.suppress(OSError):
                (await asyncio.open_connection("127.0.0.1", port))[1].close()
                return
            await asyncio.sleep(0.05)


class RunningServer:
    """The server in a thread: real HTTP, real database, and quick to start."""

    def __init__(self, settings: Settings, dsn: str, *, worker: bool = True, public_url: str | None = None) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))  # nobody else can get the port in between
        self.port = self._socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.settings = settings.model_copy(update={"public_url": public_url or self.url})
        self._dsn = dsn
        self._with_worker = worker
        config = processes.configuration(self.settings, dsn)
        config.port = self.port
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=lambda: uvloop.run(self._run()), daemon=True)

    async def _run(self) -> None:
        serving = asyncio.create_task(self._server.serve([self._socket]))
        if not self._with_worker:
            await serving
            return
        database = await connect(self._dsn, self.settings)
        worker = Worker(database, self.settings)
        working = asyncio.create_task(worker.run())
        await serving
        await worker.stop()
        await working
        await database.close()

    def __enter__(self) -> RunningServer:
        self._thread.start()
        eventually(lambda: self._server.started, "the server's start")
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join(DEADLINE)


@pytest.fixture(scope="session")
def settings() -> Settings:
    """As production has them, but for limits that a suite from one address would run into."""
    return Settings(
        address_rate=100_000,
        address_burst=10_000,
        share_seconds=60,
        overload_seconds=60,
        ready_seconds=60,
        worker_poll=0.2,
        webhook_networks="127.0.0.0/8",  # where the tests' receivers are
        webhook_timeout=2,
        webhook_retry_first=0.2,
        webhook_retry_max=0.5,
    )


@pytest.fixture(scope="session")
def server(dsn: str, settings: Settings) -> Iterator[RunningServer]:
    with RunningServer(settings, dsn) as running:
        yield running


NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # else every client reads all certificates of the world, in 20 ms
# A bound on idle connections would have httpcore (1.0.9) close one under the thread that has just been given it: many
# threads share a client here, and one request in 30,000 then ended with "Bad file descriptor".
POOL = httpx.Limits()


@functools.cache
def web() -> httpx.Client:
    """A client that says nothing about itself; a new one for every call would take longer than the calls."""
    return httpx.Client(timeout=DEADLINE, verify=NO_TLS, limits=POOL)


@dataclass
class Person:
    """A manager with one customer, as a client that sends what every call needs."""

    name: str
    customer: int
    username: str
    password: str
    api_key: str
    client: httpx.Client
    sql: Sql
    token: str = ""
    headers: dict[str, str] = field(default_factory=dict)

    def call(self, method: str, path: str, json: Any = None, **options: Any) -> httpx.Response:
        headers = self.headers | options.pop("headers", {})
        headers = {name: value for name, value in headers.items() if value is not None}
        if json is not None:
            options["json"] = json
        return self.client.request(method, path, headers=headers, **options)

    def get(self, path: str, **options: Any) -> httpx.Response:
        return self.call("GET", path, **options)

    def put(self, path: str, json: Any = None, **options: Any) -> httpx.Response:
        return self.call("PUT", path, json, **options)

    def patch(self, path: str, json: Any = None, **options: Any) -> httpx.Response:
        return self.call("PATCH", path, json, **options)

    def delete(self, path: str, json: Any = None, **options: Any) -> httpx.Response:
        return self.call("DELETE", path, json, **options)

    def post(self, path: str, json: Any = None, **options: Any) -> httpx.Response:
        return self.call("POST", path, json, **options)

    def browser(self) -> httpx.Client:
        """A client with a session of the console, at the paths below it."""
        root = self.client.base_url.join("/")
        headers = {"Origin": str(root).rstrip("/")}
        form = {"username": self.username, "password": self.password}
        answer = web().post(root.join("/console/sign-in"), data=form, headers=headers)
        assert answer.status_code == 303, answer.text
        cookies = httpx.Cookies(answer.cookies)
        web().cookies.clear()
        options = {"headers": headers, "cookies": cookies, "timeout": DEADLINE, "verify": NO_TLS, "limits": POOL}
        return httpx.Client(base_url=root.join("/console"), **options)

    # What a test needs to have, made the way its users make it where there is one

    def car(self, name: str = "Car", **members: Any) -> int:
        return _id(self.put("/cars", {"name": name, **members}))

    def user(self, email: str | None = None, **members: Any) -> int:
        address = email or f"user{next(_numbers)}.{os.getpid()}@example.org"
        data = {"firstName": "Uma", "lastName": "User"}
        return _id(self.put("/users", {"emailAddress": address, "userData": data, **members}))

    def group(self, name: str | None = None) -> int:
        return _id(self.put("/groups", {"name": name or f"Group {next(_numbers)}"}))

    def product(self, kind: str = "Box", **columns: Any) -> int:
        number = next(_numbers)
        return self.sql.value(
            "insert into product (customer_id, unique_id, serial_number, sap_number, kind) values ($1, $2, $3, $4, $5)"
            " returning product_id",
            self.customer,
            columns.get("unique_id", f"U{number}"),
            columns.get("serial_number", f"S{number}"),
            columns.get("sap_number", f"P{number}"),
            kind,
        )

    def service(self, product: int | None = None, name: str = "Service", *, terminated: bool = False) -> int:
        return self.sql.value(
            "insert into service (customer_id, name, product_id, is_terminated) values ($1, $2, $3, $4)"
            " returning service_id",
            self.customer,
            name,
            product,
            terminated,
        )

    def box_in(self, car: int, kind: str = "Box") -> int:
        """A product with a service, installed into the car."""
        product = self.product(kind)
        self.service(product)
        answer = self.put("/installations", {"carId": car, "productId": product})
        assert answer.status_code == 204, answer.text
        return product

    def car_with_box(self, name: str = "Car") -> int:
        car = self.car(name)
        self.box_in(car)
        return car

    def assignment(self, car: int, user: int, start: str = "2026-01-01T08:00:00Z", **members: Any) -> int:
        """An assignment, asked for and applied."""
        known = {row["id"] for row in self.get(f"/cars/{car}/assignments").json()}
        answer = self.put("/assignments", {"carId": car, "userId": user, "start": start, **members})
        assert answer.status_code == 204, answer.text
        new = eventually(
            lambda: [row["id"] for row in self.get(f"/cars/{car}/assignments").json() if row["id"] not in known],
            "the assignment",
        )
        return new[0]

    def event(self, car: int, user: int, **members: Any) -> int:
        body = {
            "dateTime": "2026-05-01T10:00:00",
            "utcDateTime": "2026-05-01T08:00:00Z",
            "carId": car,
            "userId": user,
            "type": "CarOpened",
            "userAgent": "tests",
        }
        return _id(self.put("/events", body | members))


def _id(answer: httpx.Response) -> int:
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]


@contextlib.contextmanager
def nobody_works(person: Person) -> Iterator[None]:
    """No worker applies anything of the person within the block; what a request applies itself is applied."""
    set_due = "update customer_hold set due_at = now() + $2::text::interval where customer_id = $1"
    person.sql.execute(set_due, person.customer, "1 hour")
    yield
    person.sql.execute(set_due, person.customer, "0")


def refused(answer: httpx.Response, status: int, reason: Reason | str) -> None:
    """Whether the answer is this refusal, with nothing but its message as plain text."""
    assert (answer.status_code, answer.text) == (status, str(reason))
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"


def done(answer: httpx.Response) -> None:
    """Whether the answer is 204, without a body and without its type (A9)."""
    assert (answer.status_code, answer.content) == (204, b""), answer.text
    assert "content-type" not in answer.headers


PASSWORD = "correct horse battery staple"
CHEAP = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)  # a hash says itself what it costs to verify


class Serving(Protocol):
    """A server, wherever it runs."""

    url: str


class Town:
    """Makes people: each with a customer of their own."""

    def __init__(self, sql: Sql, server: Serving) -> None:
        self._sql = sql
        self._server = server
        self.password_hash = CHEAP.hash(PASSWORD)

    def key(self, name: str = "tests") -> str:
        secret = auth.new_secret()
        self._sql.execute("insert into api_key (name, hash) values ($1, $2)", name, auth.digest(secret))
        return secret

    def person(self, name: str) -> Person:
        unique = f"{name}-{os.getpid()}-{next(_numbers)}"
        customer = self._sql.value("insert into customer (name) values ($1) returning customer_id", f"{name}'s fleet")
        self._sql.execute(
            "with m as (insert into manager (username, password_hash) values ($1, $2) returning manager_id)"
            " insert into manager_customer (manager_id, customer_id) select manager_id, $3 from m",
            unique,
            self.password_hash,
            customer,
        )
        key = self.key(unique)
        client = httpx.Client(base_url=self._server.url + "/v3", timeout=DEADLINE, verify=NO_TLS, limits=POOL)
        person = Person(name, customer, unique, PASSWORD, key, client, self._sql)
        token = client.post(
            "/oauth2/token",
            data={"username": unique, "password": PASSWORD, "grant_type": "password"},
            headers={"vendor-API-Key": key},
        )
        assert token.status_code == 200, token.text
        person.token = token.json()["access_token"]
        person.headers = {
            "vendor-API-Key": key,
            "Authorization": f"Bearer {person.token}",
            "Customer-ID": str(customer),
        }
        return person

    def another_fleet(self, person: Person) -> Person:
        """The same manager, acting for another customer."""
        customer = self._sql.value(
            "insert into customer (name) values ($1) returning customer_id", f"{person.name}'s other"
        )
        self._sql.execute(
            "insert into manager_customer (manager_id, customer_id)"
            " select manager_id, $2 from manager where username = $1",
            person.username,
            customer,
        )
        other = replace(person, customer=customer, headers=person.headers | {"Customer-ID": str(customer)})
        eventually(lambda: other.get("/users").status_code == 200, "the other customer")
        return other


@pytest.fixture(scope="session")
def town(sql: Sql, server: RunningServer) -> Town:
    return Town(sql, server)


@pytest.fixture(scope="module")
def alice(town: Town) -> Iterator[Person]:
    """Whose fleet the test is about."""
    person = town.person("alice")
    yield person
    person.client.close()


@pytest.fixture(scope="module")
def bob(town: Town) -> Iterator[Person]:
    """The neighbour, who must see nothing of it."""
    person = town.person("bob")
    yield person
    person.client.close()


@pytest.fixture
def carol(town: Town) -> Iterator[Person]:
    """Somebody new, who has nothing yet."""
    person = town.person("carol")
    yield person
    person.client.close()


PATIENT = {"KEYRACK_OVERLOAD_SECONDS": "60"}  # of a machine that runs other tests


class Process:
    """A `keyrack` command as a process of its own."""

    def __init__(
        self, *arguments: str, env: dict[str, str] | None = None, log: Path | None = None, files: str = ""
    ) -> None:
        limited = ("sh", "-c", f'ulimit {files} && exec "$@"', "sh") if files else ()
        with log.open("wb") if log else contextlib.nullcontext(subprocess.PIPE) as errors:
            self.popen = subprocess.Popen(
                [*limited, sys.executable, "-m", "keyrack", *arguments],
                env=os.environ | PATIENT | (env or {}),
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
            )

    def stop(self, sign: int = signal.SIGTERM) -> int:
        if self.popen.poll() is None:
            self.popen.send_signal(sign)
        return self.popen.wait(DEADLINE)
