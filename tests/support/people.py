"""In charge of the people who call a server: managers, each with a customer, what they have, and what they are told."""

from __future__ import annotations

import contextlib
import functools
import os
import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import httpx
from argon2 import PasswordHasher

from keyrack.core import secret_hashes
from keyrack.core.error_codes import PRIMARY_UNCONFIRMED, ErrorCode
from tests.support.servers import DEADLINE, NUMBERS, Sql, eventually

NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # else every client reads all certificates of the world, in 20 ms
# A bound on idle connections would have httpcore (1.0.9) close one under the thread that has just been given it: many
# threads share a client here, and one request in 30,000 then ended with "Bad file descriptor".
POOL = httpx.Limits()


def http_client(**options: Any) -> httpx.Client:
    """An HTTP client that waits as long as `eventually`.

    The client of httpx gives up after five seconds.
    """
    return httpx.Client(**{"timeout": DEADLINE, "verify": NO_TLS, "limits": POOL} | options)


def fetch(method: str, url: str, **options: Any) -> httpx.Response:
    """The answer to one request, over a new connection without cookies."""
    with http_client() as client:
        return client.request(method, url, **options)


@functools.cache
def web() -> httpx.Client:
    """A client that says nothing about itself; a new one for every call would take longer than the calls."""
    return http_client()


PASSWORD = "correct horse battery staple"
# In one statement: a role is of a manager of the customer, and the link is checked at its end
JOIN = """
with m as (insert into manager_customer (manager_id, customer_id) select manager_id, $2 from manager where username = $1
  returning manager_id, customer_id)
insert into manager_role (manager_id, customer_id, role) select manager_id, customer_id, $3 from m
"""
# Of a release that has no roles yet
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
CHEAP = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)  # a hash says itself what it costs to verify


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
        """Give the manager another user name, with a proven or an unproven address."""
        self.sql.execute(PROVEN if is_proven else RENAMED, self.username, username)
        self.username = username

    def browser(self) -> httpx.Client:
        """A client with a session of the console, at the paths below it."""
        root = self.client.base_url.join("/")
        headers = {"Origin": str(root).rstrip("/")}
        form = {"username": self.username, "password": self.password}
        answer = web().post(root.join("/console/sign-in"), data=form, headers=headers)
        assert answer.status_code == 303, answer.text
        cookies = httpx.Cookies(answer.cookies)
        web().cookies.clear()
        return http_client(base_url=root.join("/console"), headers=headers, cookies=cookies)

    def app(self) -> Person:
        """The same customer, called by the app of a user: with an id token, and nothing else."""
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

    # What a test needs to have, made the way its users make it where there is one

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
        """A product with a service, installed into the car."""
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
        """An assignment, asked for and applied."""
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

        The changes of all tests are numbered in one order, so others would wait until thousands of rows are numbered.
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
    """The answer of a set-up call, repeated while the server cannot prove that its database is the primary.

    On a busy machine a heartbeat may be late, and the server then answers 503 before it does anything.
    """
    return eventually(
        lambda: (answer := call()).text != str(PRIMARY_UNCONFIRMED) and answer, "the proof of the primary"
    )


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
        secret = secret_hashes.new_secret()
        self._sql.execute("insert into api_key (name, hash) values ($1, $2)", name, secret_hashes.digest(secret))
        return secret

    def person(self, name: str, role: str = "Owner") -> Person:
        unique = f"{name}-{os.getpid()}-{next(NUMBERS)}"
        customer = self._sql.value("insert into customer (name) values ($1) returning customer_id", f"{name}'s fleet")
        self._sql.execute("insert into manager (username, password_hash) values ($1, $2)", unique, self.password_hash)
        if self._sql.value(HAS_PROOFS):  # as if `keyrack manager add` had made it
            self._sql.execute(PROVEN, unique, unique)
        has_roles = self._sql.value("select to_regclass('manager_role') is not null")
        self._sql.execute(JOIN if has_roles else MEMBER, unique, customer, role)
        key = self.key(unique)
        client = http_client(base_url=self._server.url + "/v3")
        person = Person(name, customer, unique, PASSWORD, key, client, self._sql)
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
        customer = self._sql.value(
            "insert into customer (name) values ($1) returning customer_id", f"{person.name}'s other"
        )
        self._sql.execute(JOIN, person.username, customer, role)
        other = replace(person, customer=customer, headers=person.headers | {"Customer-ID": str(customer)})
        eventually(lambda: other.get("/users").status_code == 200, "the other customer")
        return other

    def colleague(self, whole: Person, name: str, role: str) -> Person:
        """Another manager of the customer of `whole`."""
        person = self.person(name, role)
        self._sql.execute(JOIN, person.username, whole.customer, role)
        joined = replace(person, customer=whole.customer, headers=person.headers | {"Customer-ID": str(whole.customer)})
        mine = str(whole.customer)
        eventually(lambda: mine in [row["id"] for row in joined.get("/customers").json()], "the customer")
        return joined


@contextlib.contextmanager
def nobody_works(person: Person) -> Iterator[None]:
    """No worker applies anything of the person within the block; what a request applies itself is applied."""
    set_due = "update customer_hold set due_at = now() + $2::text::interval where customer_id = $1"
    person.sql.execute(set_due, person.customer, "1 hour")
    yield
    person.sql.execute(set_due, person.customer, "0")


def refused(answer: httpx.Response, status: int, reason: ErrorCode | str) -> None:
    """Whether the answer is this refusal, with nothing but its message as plain text."""
    assert (answer.status_code, answer.text) == (status, str(reason))
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"


def done(answer: httpx.Response) -> None:
    """Whether the answer is 204, without a body and without its type (A9)."""
    assert (answer.status_code, answer.content) == (204, b""), answer.text
    assert "content-type" not in answer.headers
