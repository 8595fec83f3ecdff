"""Drivers of a fleet, signed in to the app in a browser."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx

from keyrack.core import secret_hashes
from tests.support.people import CHEAP, Person, http_client
from tests.support.servers import NUMBERS

PASSWORD = "my own password"
COOKIE = "keyrack-drive"
ACCOUNT = """
insert into driver_account (user_id, password_hash, is_proven) values ($1, $2, $3) on conflict do nothing
"""
ACCESS = "insert into driver_access (customer_id, user_id) values ($1, $2) on conflict do nothing"
SESSION = """
insert into driver_session (user_id, hash, sign_outs, device, amr)
select user_id, $2, sign_outs, 'Chromium, Linux', '{pwd}' from driver_account where user_id = $1
"""


@dataclass
class DriverBrowser:
    """The browser of a driver. `origin` is the page from which it calls."""

    http: httpx.Client

    def call(self, method: str, path: str, json: Any = None, customer: int | None = None, **options: Any) -> Any:
        """Call the API of the app, such as `/session`."""
        headers = {"Customer-ID": str(customer)} if customer is not None else {}
        headers |= options.pop("headers", {})
        if json is not None:
            options["json"] = json
        return self.http.request(method, f"/drive/api{path}", headers=headers, **options)

    def get(self, path: str, **options: Any) -> httpx.Response:
        return self.call("GET", path, **options)

    def post(self, path: str, json: Any = None, **options: Any) -> httpx.Response:
        return self.call("POST", path, json, **options)

    def put(self, path: str, json: Any = None, **options: Any) -> httpx.Response:
        return self.call("PUT", path, json, **options)

    def delete(self, path: str, **options: Any) -> httpx.Response:
        return self.call("DELETE", path, **options)

    def sign_in(self, address: str, password: str = PASSWORD) -> httpx.Response:
        """Sign in with a password. The browser keeps the cookie."""
        return self.post("/session", {"emailAddress": address, "password": password})

    @property
    def is_in(self) -> bool:
        """Whether the browser is signed in."""
        return self.get("/session").status_code == 200

    @property
    def cookie(self) -> str | None:
        """The secret of the session."""
        return self.http.cookies.get(COOKIE)


@dataclass
class SignedInDriver(DriverBrowser):
    """A driver of one customer or more, signed in."""

    user: int
    address: str
    customer: int


def driver_browser(person: Person, **options: Any) -> DriverBrowser:
    """A browser without a session, on the server of the person."""
    headers = page_headers(person) | {"User-Agent": "Mozilla/5.0 (Linux) Chrome/150.0"} | options.pop("headers", {})
    return DriverBrowser(http_client(base_url=person.client.base_url.join("/"), headers=headers, **options))


def page_headers(person: Person) -> dict[str, str]:
    """The headers that a page of the app sends."""
    return {"Origin": str(person.client.base_url.join("/")).rstrip("/")}


def as_driver(person: Person, user: int | None = None) -> Person:
    """The person's server, called by a driver's page."""
    secret = signed_in_driver(person, user).cookie
    headers = page_headers(person) | {"Cookie": f"{COOKIE}={secret}", "Customer-ID": str(person.customer)}
    return replace(person, token="", headers=headers)


def driver_address() -> str:
    """An address that no other driver has."""
    return f"driver{next(NUMBERS)}.{os.getpid()}@example.org"


def signed_in_driver(person: Person, user: int | None = None, *, is_proven: bool = False) -> SignedInDriver:
    """A signed-in driver of the person's customer.

    The password is `PASSWORD`.

    Without `user`, it is a new one. `is_proven` lets the driver see all customers of the user.
    """
    if user is None:
        user = person.user(driver_address(), type="Normal", password="the start password")
    sql, secret = person.sql, secret_hashes.new_secret()
    sql.execute(ACCOUNT, user, CHEAP.hash(PASSWORD), is_proven)
    sql.execute(ACCESS, person.customer, user)
    sql.execute(SESSION, user, secret_hashes.digest(secret))
    address = sql.value("select email_address from person where user_id = $1", user)
    http = driver_browser(person).http
    http.cookies.set(COOKIE, secret, domain=http.base_url.host)
    return SignedInDriver(http, user, address, person.customer)


NOW = datetime.now(UTC).replace(microsecond=0)


def at(hours: float) -> str:
    """A time in so many hours, the same for the whole run."""
    return (NOW + timedelta(hours=hours)).strftime("%Y-%m-%dT%H:%M:%SZ")


class Booking:
    """A running assignment of a driver, on a car with a box."""

    def __init__(self, person: Person, driver: SignedInDriver, end: float | None = 4, car: int | None = None) -> None:
        self.person, self.driver = person, driver
        self.car = person.car_with_box() if car is None else car
        self.id = person.assignment(self.car, driver.user, at(-1), **({} if end is None else {"end": at(end)}))

    def ask(self, **body: Any) -> Any:
        """Send a request of the driver about the assignment."""
        return self.driver.put("/requests", {"assignmentId": self.id, **body}, customer=self.person.customer)

    @property
    def end(self) -> str | None:
        """The end; "ended" once the assignment is deleted."""
        row = self.person.get(f"/assignments/{self.id}")
        return row.json()["end"] if row.status_code == 200 else "ended"
