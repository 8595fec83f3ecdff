"""Callers of a server: managers with a customer, their rows, and checks of responses."""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import ssl
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import httpx
from argon2 import PasswordHasher

from keyrack.auth import password_hashing
from keyrack.core import secret_hashes
from keyrack.core.error_codes import PRIMARY_UNCONFIRMED, ErrorCode
from tests.support.servers import DEADLINE, NUMBERS, Sql, eventually

NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # loading all certificates takes 20 ms per client otherwise
# With a limit on idle connections, httpcore (1.0.9) closes one under the thread that has just received it. Many threads
# share a client here, and one request in 30,000 ended with "Bad file descriptor".
POOL = httpx.Limits()


def http_client(**options: Any) -> httpx.Client:
    """An HTTP client that waits as long as `eventually`.

    The client of httpx gives up after five seconds.
    """
    return httpx.Client(**{"timeout": DEADLINE, "verify": NO_TLS, "limits": POOL} | options)


def fetch(method: str, url: str, **options: Any) -> httpx.Response:
    """Return the response to one request, over a new connection without cookies."""
    with http_client() as client:
        return client.request(method, url, **options)


@functools.cache
def web() -> httpx.Client:
    """A client without credentials. It is shared, because making a client takes longer than a call."""
    return http_client()


PASSWORD = "correct horse battery staple"
# One statement: a role needs the manager's link to the customer, which is checked at its end
JOIN = """
with m as (insert into manager_customer (manager_id, customer_id) select manager_id, $2 from manager where username = $1
  returning manager_id, customer_id)
insert into manager_role (manager_id, customer_id, role) select manager_id, customer_id, $3 from m
"""
# For a release without roles
MEMBER = """
insert into manager_customer (manager_id, customer_id)
select manager_id, $2 from manager where username = $1 and $3::text = 'Owner'
"""
# The proof ends with the address, unless the same statement sets a new one
PROVEN = "update manager set username = $2, proven_at = clock_timestamp(), proven_by = 'operator' where username = $1"
RENAMED = "update manager set username = $2 where username = $1"
HAS_PROOFS = (
    "select exists (select from information_schema.columns where table_name = 'manager' and column_name = 'proven_at')"
)
UNRECORD = "delete from change_inbox where customer_id = $1 and xmin = pg_current_xact_id()::xid"
# A hash contains its own cost of verification. The cost of production takes 30 ms of CPU, at a low priority
PRODUCTION_COST = password_hashing.COST
CHEAP_COST = (1, 8, 1)
CHEAP = PasswordHasher(*CHEAP_COST)


@dataclass
class Person:
    """A manager with one customer, as a client with the required headers."""

    name: str
    customer: int
    username: str
    password: str
    api_key: str
    client: httpx.Client
    sql: Sql
    token: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    _app: Person | None = field(default=None, repr=False, compare=False)

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

    def rename(self, username: str, *, is_proven: bool = True) -> None:
        """Give the manager another username, with a proven or an unproven address."""
        self.sql.execute(PROVEN if is_proven else RENAMED, self.username, username)
        self.username = username

    def browser(self) -> httpx.Client:
        """A client with a console session, at the paths below the console."""
        root = self.client.base_url.join("/")
        headers = {"Origin": str(root).rstrip("/")}
        form = {"username": self.username, "password": self.password}
        answer = web().post(root.join("/console/sign-in"), data=form, headers=headers)
        assert answer.status_code == 303, answer.text
        cookies = httpx.Cookies(answer.cookies)
        web().cookies.clear()
        return http_client(base_url=root.join("/console"), headers=headers, cookies=cookies)

    def app(self) -> Person:
        """The app of a user of the same customer, with only an id token."""
        if self._app is None:
            self._app = self.app_of(self.user())
        return self._app

    def app_of(self, user: int) -> Person:
        """The app of this user."""
        secret = secret_hashes.new_secret()
        made = "insert into sdk_key (customer_id, hash) values ($1, $2)"
        self.sql.execute(made, self.customer, secret_hashes.digest(secret))
        answer = self.post("/sdk/token", {"customerId": self.customer, "sdkKey": secret, "userId": user})
        assert answer.status_code == 200, answer.text
        token = answer.json()["id_token"]
        return replace(self, token=token, headers={"Authorization": f"Bearer {token}"}, _app=None)

    # Rows for tests, made through the users' interfaces if there is one

    def car(self, name: str = "Car", **members: Any) -> int:
        return self._made("/cars", {"name": name, **members})

    def user(self, email: str | None = None, **members: Any) -> int:
        address = email or f"user{next(NUMBERS)}.{os.getpid()}@example.org"
        data = {"firstName": "Uma", "lastName": "User"}
        return self._made("/users", {"emailAddress": address, "userData": data, **members})

    def group(self, name: str | None = None) -> int:
        return self._made("/groups", {"name": name or f"Group {next(NUMBERS)}"})

    def product(self, kind: str = "Box", **columns: Any) -> int:
        number = next(NUMBERS)
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
        """Install a product with a service into the car, and return it."""
        product = self.product(kind)
        self.service(product)
        answer = when_proven(lambda: self.put("/installations", {"carId": car, "productId": product}))
        assert answer.status_code == 204, answer.text
        return product

    def car_with_box(self, name: str = "Car") -> int:
        car = self.car(name)
        self.box_in(car)
        return car

    def assignment(self, car: int, user: int, start: str = "2026-01-01T08:00:00Z", **members: Any) -> int:
        """Create an assignment, wait until it is applied, and return its id."""
        path = f"/cars/{car}/assignments"
        known = {row["id"] for row in when_proven(lambda: self.get(path)).json()}
        body = {"carId": car, "userId": user, "start": start, **members}
        answer = when_proven(lambda: self.put("/assignments", body))
        assert answer.status_code == 204, answer.text
        new = eventually(
            lambda: [row["id"] for row in when_proven(lambda: self.get(path)).json() if row["id"] not in known],
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
        return self._made("/events", body | members)

    def execute_unrecorded(self, statement: str, *args: object) -> None:
        """Write rows of the customer, `$1`, without records in the log.

        The changes of all tests are numbered in one order, so that other tests would wait for the numbers of thousands
        of rows.
        """

        async def execute() -> None:
            async with self.sql.raw.transaction():
                await self.sql.raw.execute(statement, self.customer, *args)
                await self.sql.raw.execute(UNRECORD, self.customer)

        self.sql.run(execute())

    def _made(self, path: str, body: dict[str, Any]) -> int:
        answer = when_proven(lambda: self.put(path, body))
        assert answer.status_code == 201, answer.text
        return answer.json()["id"]


def when_proven(call: Callable[[], httpx.Response]) -> httpx.Response:
    """Repeat a set-up call until the server can confirm the primary.

    A heartbeat may be late on a busy machine. The server then returns 503 before any effect.
    """
    return eventually(
        lambda: (answer := call()).text != str(PRIMARY_UNCONFIRMED) and answer, "the proof of the primary"
    )


class Serving(Protocol):
    """A server at any place."""

    url: str


class Town:
    """Makes people, each with a separate customer.

    The customers alternate between the cells of the server: `sql`, then each of `others`.
    """

    def __init__(self, sql: Sql, server: Serving, others: Sequence[Sql] = ()) -> None:
        self.sql = sql
        self._next_cell = itertools.cycle((sql, *others))
        self._server = server
        self.password_hash = CHEAP.hash(PASSWORD)

    def key(self, name: str = "tests", sql: Sql | None = None) -> str:
        secret = secret_hashes.new_secret()
        statement = "insert into api_key (name, hash) values ($1, $2)"
        (sql or self.sql).execute(statement, name, secret_hashes.digest(secret))
        return secret

    def person(self, name: str, role: str = "Owner", sql: Sql | None = None) -> Person:
        """A person in the next cell, or in that of `sql`."""
        sql = sql or next(self._next_cell)
        unique = f"{name}-{os.getpid()}-{next(NUMBERS)}"
        customer = sql.value("insert into customer (name) values ($1) returning customer_id", f"{name}'s fleet")
        sql.execute("insert into manager (username, password_hash) values ($1, $2)", unique, self.password_hash)
        if sql.value(HAS_PROOFS):  # as `keyrack manager add` sets it
            sql.execute(PROVEN, unique, unique)
        has_roles = sql.value("select to_regclass('manager_role') is not null")
        sql.execute(JOIN if has_roles else MEMBER, unique, customer, role)
        key = self.key(unique, sql)
        client = http_client(base_url=self._server.url + "/v3")
        person = Person(name, customer, unique, PASSWORD, key, client, sql)
        form = {"username": unique, "password": PASSWORD, "grant_type": "password"}
        token = when_proven(lambda: client.post("/oauth2/token", data=form, headers={"vendor-API-Key": key}))
        assert token.status_code == 200, token.text
        person.token = token.json()["access_token"]
        person.headers = {
            "vendor-API-Key": key,
            "Authorization": f"Bearer {person.token}",
            "Customer-ID": str(customer),
        }
        return person

    def another_fleet(self, person: Person, role: str = "Owner") -> Person:
        """The same manager, acting for another customer."""
        customer = person.sql.value(
            "insert into customer (name) values ($1) returning customer_id", f"{person.name}'s other"
        )
        person.sql.execute(JOIN, person.username, customer, role)
        other = replace(person, customer=customer, headers=person.headers | {"Customer-ID": str(customer)})
        eventually(lambda: other.get("/users").status_code == 200, "the other customer")
        return other

    def colleague(self, whole: Person, name: str, role: str) -> Person:
        """Another manager of the customer of `whole`."""
        person = self.person(name, role, whole.sql)
        whole.sql.execute(JOIN, person.username, whole.customer, role)
        joined = replace(person, customer=whole.customer, headers=person.headers | {"Customer-ID": str(whole.customer)})
        mine = str(whole.customer)
        eventually(lambda: mine in [row["id"] for row in joined.get("/customers").json()], "the customer")
        return joined


@contextlib.contextmanager
def nobody_works(person: Person) -> Iterator[None]:
    """Stop workers from applying operations of the person within the context.

    A request that applies an operation itself still does.
    """
    set_due = "update customer_hold set due_at = now() + $2::text::interval where customer_id = $1"
    person.sql.execute(set_due, person.customer, "1 hour")
    yield
    person.sql.execute(set_due, person.customer, "0")


def refused(answer: httpx.Response, status: int, reason: ErrorCode | str) -> None:
    """Check that the response is this error, as plain text with only its message."""
    assert (answer.status_code, answer.text) == (status, str(reason))
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"


def done(answer: httpx.Response) -> None:
    """Check that the response is 204 without a body and content type (A9)."""
    assert (answer.status_code, answer.content) == (204, b""), answer.text
    assert "content-type" not in answer.headers
