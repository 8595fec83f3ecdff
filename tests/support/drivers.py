"""Drivers of the app at `/drive`, as clients of a server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import httpx

from tests.support.people import CHEAP, Person, http_client

PASSWORD = "a driver's own password"
ACCOUNT = """
insert into driver_account (user_id, password_hash, is_proven) values ($1, $2, $3)
on conflict (user_id) do update set password_hash = excluded.password_hash, is_proven = excluded.is_proven
"""
ACCESS = "insert into driver_access (customer_id, user_id) values ($1, $2) on conflict do nothing"


@dataclass
class DriverClient:
    """A driver with an account, and the client of the app's pages."""

    user: int
    email_address: str
    customer: int
    client: httpx.Client

    def call(
        self, method: str, path: str, body: Any = None, *, customer: int | None = None, **more: Any
    ) -> httpx.Response:
        """Call `/drive/api` + `path`, as a page of the app does."""
        headers = {"Sec-Fetch-Site": "same-origin", **more.pop("headers", {})}
        if customer is not None:
            headers["Customer-ID"] = str(customer)
        return self.client.request(method, f"/drive/api{path}", json=body, headers=headers, **more)

    def sign_in(self, password: str = PASSWORD) -> httpx.Response:
        return self.call("POST", "/session", {"emailAddress": self.email_address, "password": password})


def new_driver(manager: Person, address: str, *, is_proven: bool = False, is_signed_in: bool = True) -> DriverClient:
    """A `Normal` user of the manager's customer with an account of access to that customer."""
    body = {"emailAddress": address, "type": "Normal", "userData": {"firstName": "Dora", "lastName": "Driver"}}
    user = manager.put("/users", json=body).json()["id"]
    manager.sql.execute(ACCOUNT, user, CHEAP.hash(PASSWORD), is_proven)
    manager.sql.execute(ACCESS, manager.customer, user)
    driver = DriverClient(user, address, manager.customer, http_client(base_url=manager.client.base_url.join("/")))
    if is_signed_in:
        assert driver.sign_in().status_code == 201
    return driver
